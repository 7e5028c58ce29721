"""`python -m jmars host`: be the control process of a cluster (started by `jmars.Cluster`, not by hand)."""

from __future__ import annotations

import sys

from jmars.deploy.host import main

if __name__ == "__main__":
    if sys.argv[1:] != ["host"]:
        sys.exit("usage: python -m jmars host   (started by jmars.Cluster; orders come on standard input)")
    main()
