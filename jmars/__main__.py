"""`python -m jmars slurm …` prints a batch script; `python -m jmars host` is started by `jmars.Cluster`."""

from __future__ import annotations

import sys

from jmars.deploy import slurm
from jmars.deploy.host import main

if __name__ == "__main__":
    if sys.argv[1:2] == ["slurm"]:
        sys.exit(slurm.main(sys.argv[2:]))
    if sys.argv[1:] != ["host"]:
        sys.exit(
            "usage: python -m jmars slurm [--cpus N] [--memory SIZE] PROGRAM …   (`host` is started by jmars.Cluster)"
        )
    main()
