"""Commands of a shell: `python -m jmars status` and `stop` list and end clusters of a user; `operand` runs an operand.

Each cluster is asked over its authenticated socket, for at most `COMMAND_SECONDS` seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from typing import Any, TextIO

import numpy as np

from jmars.actors import connect
from jmars.actors.registry import Entry, entries, find_entry
from jmars.deploy.control_process import end_control
from jmars.errors import ClusterError, JmarsError
from jmars.kernels import run_executable
from jmars.units import format_bytes

COMMAND_SECONDS = 5.0


def status(args: list[str]) -> int:
    """List the clusters, or the jobs of a cluster; returns the exit status."""
    try:
        if args:
            return _jobs(find_entry(args[0]))
    except ClusterError as error:
        _say(error, sys.stderr)
        return 1
    known = entries()
    if not known:
        _say("no cluster of yours runs here")
    for entry in known:
        try:
            told = _asked(entry, ("cluster", "summary"))[0]
        except ClusterError as error:
            _say(f"{entry.id}  {entry.name}  {error}")
            continue
        _say(
            f"{entry.id}  {entry.name}  {'detached' if told['detached'] else 'attached'}, pid {told['pid']}, "
            f"{told['workers']} workers, {told['active']} of {told['jobs']} jobs running, "
            f"{told['clients']} clients, memory_limit {format_bytes(told['limit'])}"
        )
    return 0


def stop(args: list[str]) -> int:
    """End clusters by name or id, for all their clients; returns the exit status."""
    if not args:
        _say("usage: python -m jmars stop NAME …   (`python -m jmars status` lists names and ids)", sys.stderr)
        return 2
    for name in args:
        try:
            entry = find_entry(name)
            ready, _ = _asked(entry, ("cluster", "processes"), ("host", "close", "from a terminal"))
        except ClusterError as error:
            _say(error, sys.stderr)
            return 1
        if not entry.far:
            end_control(ready["pid"], ready["janitor"], COMMAND_SECONDS)
        _say(f"{entry.id} ({entry.name}) has ended")
    return 0


def operand(arguments: list[str]) -> int:
    """Run an operand that `Job.operand` wrote, apart from any cluster; returns the exit status.

    Parameters
    ----------
    arguments
        The document, its inputs as .npy files in the order of its Fetch nodes, and `-o` for the result.
    """
    parser = argparse.ArgumentParser(prog="python -m jmars operand", description="Runs an operand.")
    parser.add_argument("file", help="JSON of Job.operand; it holds a pickle: run only what you made")
    parser.add_argument("inputs", nargs="*", help=".npy files, one for each Fetch node in its order")
    parser.add_argument("-o", "--output", help="where the chunk goes as .npy; it is described only, without")
    given = parser.parse_args(arguments)
    try:
        with open(given.file) as file:
            document = json.load(file)
        found = run_executable(document, [np.load(path, allow_pickle=False) for path in given.inputs])
    except (JmarsError, OSError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if given.output:
        np.save(given.output, found, allow_pickle=False)
    about = document["about"]
    sys.stdout.write(f"{about.get('words', 'operand')} gave {found.dtype} of shape {found.shape}\n")
    return 0


def _say(text: object, to: TextIO | None = None) -> None:
    (to or sys.stdout).write(f"{text}\n")


def _jobs(entry: Entry) -> int:
    for job in _asked(entry, ("session", "jobs"))[0]:
        share = f"{100 * job['progress']:.0f} %"
        error = f"  {job['error']}" if job["error"] else ""
        _say(f"{job['id']}  {job['name']}  {job['state']}  {share}  {job['elapsed']:.1f} s{error}")
    return 0


def _asked(entry: Entry, *messages: tuple[str, ...]) -> list[Any]:
    """Answers of a cluster to messages.

    Raises
    ------
    ClusterError
        If it is not there, or does not answer in time.
    """

    async def ask() -> list[Any]:
        async with asyncio.timeout(COMMAND_SECONDS):
            channel = await connect(entry.socket, entry.token)
            try:
                return [await channel.ask(*message) for message in messages]
            finally:
                channel.close()

    try:
        return asyncio.run(ask())
    except TimeoutError:
        raise ClusterError(
            f"does not answer within {COMMAND_SECONDS:g} s; its control process may be stopped: continue it with "
            "SIGCONT, or end it with SIGKILL, upon which all of the cluster goes"
        ) from None
