"""`python -m jmars …`: status, stop, web, slurm; `host` and `scheduler` are started by jmars.Cluster."""

from __future__ import annotations

import sys

from jmars.deploy import commands, operand, scheduler_process, slurm
from jmars.deploy.host import main

if __name__ == "__main__":
    if sys.argv[1:2] == ["slurm"]:
        sys.exit(slurm.main(sys.argv[2:]))
    if sys.argv[1:2] == ["operand"]:
        sys.exit(operand.main(sys.argv[2:]))
    if sys.argv[1:2] == ["web"]:
        from jmars.web.server import main as serve  # only here: a host starts without it

        sys.exit(serve(sys.argv[2:]))
    if sys.argv[1:2] in (["status"], ["stop"]):
        sys.exit(getattr(commands, sys.argv[1])(sys.argv[2:]))
    if sys.argv[1:] == ["scheduler"]:
        scheduler_process.main()
    elif sys.argv[1:] != ["host"]:
        sys.exit(
            "usage: python -m jmars status [NAME]      the clusters of this user, or the jobs of one\n"
            "       python -m jmars stop NAME …        ends clusters for all their clients\n"
            "       python -m jmars slurm [--cpus N] [--memory SIZE] PROGRAM …\n"
            "       python -m jmars operand FILE INPUT.npy … [-o OUT.npy]   runs what Job.operand wrote\n"
            "       python -m jmars web [--cluster NAME] [--port N]   (`host` is started by jmars.Cluster)"
        )
    else:
        main()
