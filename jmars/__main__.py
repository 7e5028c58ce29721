"""`python -m jmars …`: status, stop, web, slurm; `host` and `scheduler` are started by jmars.Cluster."""

from __future__ import annotations

import sys

from jmars.deploy import commands, slurm
from jmars.deploy.host import main

if __name__ == "__main__":
    if sys.argv[1:2] == ["slurm"]:
        sys.exit(slurm.main(sys.argv[2:]))
    if sys.argv[1:2] == ["web"]:
        from jmars.web.server import main as serve  # only here: a host starts without it

        sys.exit(serve(sys.argv[2:]))
    if sys.argv[1:2] in (["status"], ["stop"]):
        sys.exit(getattr(commands, sys.argv[1])(sys.argv[2:]))
    if sys.argv[1:] != ["host"]:
        sys.exit(
            "usage: python -m jmars status [NAME]      the clusters of this user, or the jobs of one\n"
            "       python -m jmars stop NAME …        ends clusters for all their clients\n"
            "       python -m jmars slurm [--cpus N] [--memory SIZE] PROGRAM …\n"
            "       python -m jmars web [--cluster NAME] [--port N]   (`host` is started by jmars.Cluster)"
        )
    main()
