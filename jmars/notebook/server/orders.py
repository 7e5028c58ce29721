"""Orders of a page to start or scale a cluster: checked, plain; and the clusters that the side bar started.

Only the checked fields reach `jmars.Cluster`; a text that a shell or a URL parser could read otherwise is refused. A
started cluster is held by a separate process, a child of the Jupyter server.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Any, Self
from urllib.parse import urlsplit

from jmars.errors import ClusterStartError
from jmars.units import parse_bytes

KINDS = ("local", "ssh", "dask", "ray")
MOST_WORKERS = 4096
MOST_HOSTS = 256
_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,59}", re.ASCII)
_PLACE = re.compile(r"(\w[\w.+-]*@)?(\w[\w.-]*|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?", re.ASCII)
_PYTHON = re.compile(r"[\w./~][\w./~+ -]{0,199}", re.ASCII)
_SCHEMES = {"dask": ("tcp", "tls", "ws", "wss", "ucx"), "ray": ("ray",)}


class OrderError(ValueError):
    """A field of a page's request is missing or wrong; the text is for the user."""


@dataclass(frozen=True)
class StartOrder:
    """A cluster to start.

    Attributes
    ----------
    kind
        "local", "ssh", "dask" or "ray".
    name
        What lists show; "" for a name made by the cluster.
    workers
        Worker processes, on several hosts of each; None for one per core. Not for Dask and Ray.
    memory
        Limit, such as "2GiB", on several hosts of each; None for the default. Not for Dask and Ray.
    hosts
        Places of "ssh": "node-7", "ada@node-7:2222", or "local" for this machine.
    python
        Interpreter on the machines of "ssh", with jmars installed; "" for `python3`.
    address
        Of a Dask scheduler or of Ray; "" for the Ray of this machine.

    Examples
    --------
    >>> StartOrder.read({"kind": "local", "workers": 2, "memory": "1GiB"})
    StartOrder(kind='local', name='', workers=2, memory='1GiB', hosts=(), python='', address='')
    """

    kind: str
    name: str = ""
    workers: int | None = None
    memory: str | None = None
    hosts: tuple[str, ...] = ()
    python: str = ""
    address: str = ""

    @classmethod
    def read(cls, fields: Any) -> Self:
        """The order in a request's body.

        Raises
        ------
        OrderError
            If a field is missing, wrong or unknown.
        """
        if not isinstance(fields, dict):
            raise OrderError("give an object with `kind`")
        unknown = set(fields) - set(cls.__dataclass_fields__)
        if unknown:
            raise OrderError(f"no field {min(map(str, unknown))[:40]!r} is known")
        kind = fields.get("kind")
        if kind not in KINDS:
            raise OrderError(f"kind is {str(kind)[:40]!r}; choose one of {', '.join(KINDS)}")
        name = _text(fields, "name")
        if name and not _NAME.fullmatch(name):
            raise OrderError("a name begins with a letter or digit, then letters, digits, '.', '_' and '-'; at most 60")
        own = kind in ("local", "ssh")
        workers = (
            _count("workers", fields["workers"], 1, MOST_WORKERS) if own and fields.get("workers") is not None else None
        )
        memory = _memory(_text(fields, "memory")) if own else None
        hosts = _places(fields.get("hosts")) if kind == "ssh" else ()
        python = _text(fields, "python") if kind == "ssh" else ""
        if python and not _PYTHON.fullmatch(python):
            raise OrderError(f"{python[:60]!r} is no interpreter; write its path, such as /opt/env/bin/python")
        address = _address(kind, _text(fields, "address")) if not own else ""
        return cls(kind, name, workers, memory, hosts, python, address)


def scale_order(fields: Any) -> tuple[Any, ...]:
    """A call of `Cluster.scale` or `Cluster.adapt`.

    Parameters
    ----------
    fields
        {"n": number of workers or hosts, or places of further hosts}, or {"least": number, "most": number}.

    Returns
    -------
    tuple
        The name of the method, then its arguments.

    Raises
    ------
    OrderError
        If the fields are neither.

    Examples
    --------
    >>> scale_order({"n": 3}), scale_order({"n": ["node-9"]}), scale_order({"least": 1, "most": 4})
    (('scale', 3), ('scale', ['node-9']), ('adapt', 1, 4))
    """
    wanted = fields if isinstance(fields, dict) else {}
    if "least" in wanted or "most" in wanted:
        least = _count("least", wanted.get("least"), 0, MOST_WORKERS)
        return "adapt", least, _count("most", wanted.get("most"), max(1, least), MOST_WORKERS)
    n = wanted.get("n")
    return "scale", list(_places(n)) if isinstance(n, list) else _count("n", n, 0, MOST_WORKERS)


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name) or ""
    if not isinstance(value, str) or len(value) > 300 or not value.isprintable():
        raise OrderError(f"{name} must be a printable text of at most 300 characters")
    return value.strip()


def _count(name: str, value: Any, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise OrderError(f"{name} must be a whole number from {least} to {most}")
    return value


def _memory(text: str) -> str | None:
    try:
        if text:
            parse_bytes(text)
    except ValueError as error:
        raise OrderError(str(error)) from None
    return text or None


def _places(value: Any) -> tuple[str, ...]:
    places = value if isinstance(value, list) else []
    if not 1 <= len(places) <= MOST_HOSTS:
        raise OrderError(f"hosts must be a list of 1 to {MOST_HOSTS} places")
    for place in places:
        if not isinstance(place, str) or not _PLACE.fullmatch(place):
            raise OrderError(f"{str(place)[:60]!r} is no place of ssh; write host, user@host or user@host:port")
    return tuple(places)


def _address(kind: str, text: str) -> str:
    if kind == "ray" and text in ("", "auto"):
        return text
    whole = text if "://" in text else f"{_SCHEMES[kind][0]}://{text}"
    try:
        parts = urlsplit(whole)
        well = parts.scheme in _SCHEMES[kind] and bool(parts.hostname) and parts.port is not None
    except ValueError:
        well = False
    if not well or parts.username or parts.path not in ("", "/") or parts.query or not _PLACE.fullmatch(parts.netloc):
        raise OrderError(f"{text[:60]!r} is no address of {kind.capitalize()}; write host:port")
    return whole if kind == "dask" or "://" in text else text


MAX_CLUSTERS = 16  # clusters at once
START_SECONDS = 120.0  # hosts by ssh and engines need longer than processes of this machine
END_SECONDS = 10.0
_COMMAND = (sys.executable, "-P", "-m", "jmars.notebook.server.cluster_process")


class StartedClusters:
    """Starts clusters and ends them; used on the Jupyter server's event loop only."""

    def __init__(self) -> None:
        self._processes: dict[str, asyncio.subprocess.Process] = {}  # by id of the cluster
        self._starting = 0

    def __contains__(self, cluster: str) -> bool:
        return cluster in self._processes

    @property
    def holders(self) -> set[int]:
        """Ids of the processes that hold the clusters."""
        return {process.pid for process in self._processes.values()}

    async def start(self, order: StartOrder, folder: str) -> dict[str, str]:
        """Starts a cluster; returns its id and name.

        Parameters
        ----------
        folder
            Where its process runs.

        Raises
        ------
        ClusterStartError
            If the cluster does not come up, or there are too many.
        """
        if len(self._processes) + self._starting >= MAX_CLUSTERS:
            raise ClusterStartError(f"{MAX_CLUSTERS} clusters were started here; stop one of them first")
        self._starting += 1
        try:
            pipe = asyncio.subprocess.PIPE
            environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            process = await asyncio.create_subprocess_exec(
                *_COMMAND, stdin=pipe, stdout=pipe, cwd=folder, env=environment, start_new_session=True
            )
            try:
                told = await self._first_words(process, order)
            except BaseException:
                process.kill()
                await process.wait()
                raise
        finally:
            self._starting -= 1
        if "error" in told:
            await process.wait()
            raise ClusterStartError(told["error"])
        self._processes[told["id"]] = process
        return told

    async def _first_words(self, process: asyncio.subprocess.Process, order: StartOrder) -> dict[str, str]:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(asdict(order)).encode() + b"\n")
        try:
            async with asyncio.timeout(START_SECONDS):
                line = await process.stdout.readline()
            told: dict[str, str] = json.loads(line)
        except TimeoutError:
            raise ClusterStartError(f"the cluster did not come up within {START_SECONDS:g} s") from None
        except ValueError:
            raise ClusterStartError("the cluster did not come up; the server's log has the reason") from None
        return told

    async def stop(self, cluster: str) -> None:
        """Ends a cluster of ours, and waits until its processes have ended; no effect if another call ends it."""
        process = self._processes.pop(cluster, None)
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(END_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()  # the cluster's janitor then removes its remains
            await process.wait()

    async def forget(self, registered: Collection[str]) -> None:
        """Ends the processes of clusters that others have ended."""
        await asyncio.gather(*[self.stop(cluster) for cluster in self._processes if cluster not in registered])

    async def close(self) -> None:
        """Ends all clusters of ours."""
        await asyncio.gather(*(self.stop(cluster) for cluster in list(self._processes)))
