"""`python -m jmars …`: status, stop, web, slurm, operand; `host`, `head` and `scheduler` are started by jmars.Cluster.

A command's module is imported only when the command runs, so that a cluster starts sooner.
"""

from __future__ import annotations

import gc
import importlib
import sys

from jmars.model import collector

USAGE = """\
usage: python -m jmars status [NAME]      the clusters of this user, or the jobs of a cluster
       python -m jmars stop NAME …        ends clusters for all their clients
       python -m jmars web [--cluster NAME] [--port N] [--allow-functions]
       python -m jmars slurm [--nodes N] [--cpus N] [--memory SIZE] PROGRAM … | --join FILE
       python -m jmars host --join FILE   joins a cluster of several hosts by the ticket of Cluster.ticket
       python -m jmars replay FILE [OTHER] [--page PAGE.html] [--report PAGE.html]   tells of runs that Job.save wrote
       python -m jmars operand FILE INPUT.npy … [-o OUT.npy]   runs an operand that Job.operand wrote
(`host` without a ticket, `head` and `scheduler` are started by jmars.Cluster, `entry` by jmars.connect)"""

COMMANDS = {  # by name: module, function of the other arguments that gives the exit status
    "status": ("jmars.deploy.commands", "status"),
    "stop": ("jmars.deploy.commands", "stop"),
    "web": ("jmars.web.server", "main"),
    "slurm": ("jmars.deploy.batch", "main"),
    "operand": ("jmars.deploy.commands", "operand"),
    "entry": ("jmars.deploy.far_host", "entry"),
    "replay": ("jmars.notebook.replay", "main"),
}
PROCESSES: dict[tuple[str, ...], str] = {
    ("host",): "jmars.deploy.host",
    ("head",): "jmars.deploy.hosts_head",
    ("head", "dask"): "jmars.deploy.inside_dask",
    ("head", "ray"): "jmars.deploy.inside_ray",
    ("scheduler",): "jmars.deploy.scheduler_process",
}
JOIN = ["host", "--join"]  # and the place of a ticket


def run(arguments: list[str]) -> int | str:
    """Runs the command that the arguments name; returns the exit status, or the usage after a mistake."""
    name, *others = arguments or [""]
    if name in ("-h", "--help", "--version"):
        told = importlib.import_module("jmars").__version__ if name == "--version" else USAGE
        sys.stdout.write(f"{told}\n")
        return 0
    path, more = PROCESSES.get(tuple(arguments)), arguments[2:]
    if arguments[:2] == JOIN and len(more) == 1:
        path = "jmars.deploy.member_process"
    if path is not None:
        gc.disable()  # imported modules hold no garbage: collecting would take a tenth of the start
        process = importlib.import_module(path)
        gc.freeze()
        gc.set_threshold(40_000, 20, 20)  # graphs are many objects and no garbage; executors set Python's again
        gc.enable()
        collector.is_own_process = True
        process.main(*more)
        return 0
    if name not in COMMANDS:
        return USAGE
    module, function = COMMANDS[name]
    status: int = getattr(importlib.import_module(module), function)(others)
    return status


def main() -> int | str:
    """Run the command line's command: the console script `jmars`."""
    return run(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
