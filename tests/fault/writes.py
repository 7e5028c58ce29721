"""Faults during writes: `python -m tests.fault.writes --faults 100 [--seed 1] [--kind zarr] [--fault kernel]`.

A process with a cluster (a kernel) writes an array, new or over an old one, in one of the formats, while a fault that
is drawn happens at a drawn moment. Afterwards plain libraries read the place: there is the new array, or the old one,
or none (the table `LOSES_OLD` says where), and the kernel, if it lives, has succeeded or has an error. Then the write
runs again without a fault, and the place has its values. Values are integers as float64, compared exactly.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from tests import s3
from tests.fault import injections
from tests.fault.harness import until
from tests.fault.probes import has

SIDE, CHUNK = 256, 64
HANG = 120.0  # seconds
STORES = {"s3": "s3fs", "obstore": "obstore", "icechunk-s3": "icechunk"}
NEEDS = {
    "zarr": "zarr",
    "hdf5": "h5py",
    "npy": "numpy",
    "icechunk": "icechunk",
    "xarray": "xarray",
    "netcdf": "h5netcdf",
}
FAULTS = {
    "worker": "all", "host": "all", "kernel": "all", "two writers": "all", "limit": "files", "full": "files",
    "busy": "stores", "expired": "stores", "cut": "stores", "wrong": "stores",
}  # fmt: skip
LOSES_OLD = {"s3", "obstore", "xarray"}  # an overwritten array is removed first


def values(factor: int) -> np.ndarray[Any, Any]:
    """The array that is written; no element is 0, the value of a missing piece."""
    return (np.arange(SIDE * SIDE).reshape(SIDE, SIDE) % 65521 + 1.0) * factor


def _slow(block: Any) -> Any:
    time.sleep(0.01)  # so that a fault meets the write
    return block


# -- the kernel


def serve() -> None:
    """Start a cluster and write as the lines of standard input say; an answer is a line of standard output."""
    import jmars

    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    with jmars.Cluster(n_workers=2, memory_limit="256MiB") as cluster:
        for line in sys.stdin:
            asked = json.loads(line)
            try:
                answer = {"pids": _pids(cluster)} if asked["do"] == "pids" else HOW[asked["do"]](asked)
            except Exception as error:
                answer = {"error": f"{type(error).__name__}: {error}"[:300]}
            print(json.dumps(answer or {}), file=out)


def _pids(cluster: Any) -> dict[str, Any]:
    workers = [worker["pid"] for worker in cluster.info()["workers"] if worker["pid"]]
    return {"workers": workers, "host": cluster._host.pid}


def _write(asked: dict[str, Any]) -> None:
    import jmars.tensor as mt

    kind, place, over = asked["kind"], asked["place"], asked["over"]
    x = (mt.asarray(values(1), chunk_size=CHUNK) * asked["factor"]).map_blocks(_slow, dtype=float)
    if kind == "npy":
        mt.save(place, x)
    elif kind == "hdf5":
        mt.to_hdf5(x, place, "x")
    elif kind in ("xarray", "netcdf"):
        data = importlib.import_module("xarray").Dataset({"x": (("row", "column"), x)})
        if kind == "xarray":
            data.to_zarr(place, mode="w", consolidated=False)
        else:
            data.to_netcdf(place, engine="h5netcdf")
    elif kind.startswith("icechunk"):
        session = _repository(asked).writable_session("main")
        mt.to_zarr(x, session, "x", overwrite=over)
        session.commit("x")
    else:
        mt.to_zarr(x, *_zarr_place(asked)[:2], overwrite=over, storage_options=_zarr_place(asked)[2])


def _read(asked: dict[str, Any]) -> dict[str, Any]:
    import jmars.tensor as mt

    if asked["kind"].startswith("icechunk"):
        found = mt.from_zarr(_repository(asked).readonly_session("main"), "x").fetch()
    else:
        store, name, options = _zarr_place(asked)
        found = mt.from_zarr(store, name, storage_options=options).fetch()
    return {"factor": float(found[0, 0]) if np.array_equal(found, values(1) * found[0, 0]) else None}


HOW: dict[str, Callable[[dict[str, Any]], Any]] = {"write": _write, "read": _read}


def _zarr_place(asked: dict[str, Any]) -> tuple[Any, str | None, Any]:
    """Store, component and options of a kind that is Zarr."""
    place, server = asked["place"], asked.get("server")
    if asked["kind"] == "s3":
        options = {"key": "somebody", "secret": s3.SECRET, "endpoint_url": server}
        return f"s3://{s3.BUCKET}/{place}", "x", options
    if asked["kind"] == "obstore":
        from obstore.store import S3Store

        keys = {"access_key_id": "somebody", "secret_access_key": s3.SECRET, "endpoint": server, "region": "us-east-1"}
        how: Any = {"client_options": {"allow_http": True}, "retry_config": {"max_retries": 4}}
        return S3Store(s3.BUCKET, prefix=place, **keys, **how), "x", None
    return place, "x", None


def _repository(asked: dict[str, Any]) -> Any:
    import icechunk

    if asked["kind"] == "icechunk":
        return icechunk.Repository.open_or_create(icechunk.local_filesystem_storage(asked["place"]))
    keys: Any = {"access_key_id": "somebody", "secret_access_key": s3.SECRET, "region": "us-east-1"}
    where: Any = {"endpoint_url": asked["server"], "allow_http": True, "force_path_style": True}
    return icechunk.Repository.open_or_create(
        icechunk.s3_storage(bucket=s3.BUCKET, prefix=asked["place"], **where, **keys)
    )


class Kernel:
    """The process that writes."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.fault.writes", "--serve"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=LOG, text=True)
        self.pids: Any = None

    def send(self, **asked: Any) -> None:
        """Begin."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any] | None:
        """The answer; None if the process died."""
        assert self.process.stdout is not None
        alarm = threading.Timer(HANG, self.process.kill)
        alarm.start()
        begun = time.monotonic()
        line = self.process.stdout.readline()
        alarm.cancel()
        if not line and time.monotonic() - begun >= HANG:
            raise TimeoutError(f"no answer for {HANG:.0f} s")
        found: dict[str, Any] | None = json.loads(line) if line else None
        return found

    def ask(self, **asked: Any) -> dict[str, Any] | None:
        """Send, and wait."""
        self.send(**asked)
        return self.answer()

    def ready(self) -> dict[str, Any]:
        """Pids of the cluster's processes."""
        found = self.ask(do="pids")
        assert found is not None and "pids" in found, found
        self.pids = found["pids"]
        return found["pids"]  # type: ignore[no-any-return]

    def end(self) -> None:
        """Let it end, with its cluster."""
        if self.process.stdin is not None and not self.process.stdin.closed:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()


# -- what a reader without jmars finds


def found(asked: dict[str, Any]) -> float | str | None:
    """The factor of the array at a place; None if there is none; a text if the array is not whole."""
    kind, place = asked["kind"], asked["place"]
    try:
        if kind in ("npy", "hdf5", "netcdf"):
            if not os.path.exists(place):
                return None
            if kind == "npy":
                x = np.load(place)
            else:
                with importlib.import_module("h5py").File(place) as file:
                    x = file["x"][:]
        else:
            zarr = importlib.import_module("zarr")
            if kind.startswith("icechunk"):
                store: Any = _repository(asked).readonly_session("main").store
                x = zarr.open_array(store, path="x", mode="r")[:]
            else:
                store, name, options = _zarr_place(asked)
                if kind == "obstore":
                    store = zarr.storage.ObjectStore(store)
                x = zarr.open_array(store, path=name, mode="r", storage_options=options)[:]
    except FileNotFoundError:
        return None
    except Exception as error:
        return f"cannot be read: {type(error).__name__}: {error}"
    if not np.array_equal(x, values(1) * x[0, 0]):
        return f"{np.count_nonzero(x == 0)} elements missing, factors {np.unique(x / values(1))[:5].tolist()}"
    return float(x[0, 0])


# -- draws


class Draws:
    """Kernels, a server, and what was found."""

    def __init__(self, folder: Path, server: s3.Proxy | None, seed: int) -> None:
        self.folder, self.server, self.seed = folder, server, seed
        self.kernels: list[Kernel] = [Kernel()]
        self.usual: dict[str, float] = {}  # seconds of a write, by kind
        self.outcomes: Counter[str] = Counter()

    def kernel(self) -> Kernel:
        """One that lives; another is started ahead."""
        while True:
            self.kernels += [Kernel() for _ in range(len(self.kernels), 2)]
            try:
                self.kernels[0].ready()
                return self.kernels[0]
            except (AssertionError, BrokenPipeError, ValueError):
                self.kernels.pop(0).end()

    def draw(self, number: int, kind: str, fault: str) -> str:
        """Make one; says why the outcome is wrong, or "" with the outcome counted."""
        chance = Random(f"{self.seed} {number}")
        over, kernel, place = chance.random() < 0.5, self.kernel(), f"{self.folder}/{number}.{kind}"
        if kind in STORES:
            place = f"{self.seed}-{number}"
        url = {} if self.server is None else {"server": self.server.url}
        asked: dict[str, Any] = {"do": "write", "kind": kind, "place": place, "over": False, **url}
        with ExitStack() as stack:
            if fault == "full":
                os.mkdir(f"{self.folder}/{number}")
                disk = stack.enter_context(injections.tmpfs(Path(f"{self.folder}/{number}"), "size=2m"))
                asked["place"] = str(disk / f"x.{kind}")
            if over or kind not in self.usual:
                begun = time.monotonic()
                if (answer := kernel.ask(**asked, factor=5)) != {}:
                    return f"the first write failed: {answer}"
                self.usual.setdefault(kind, time.monotonic() - begun)
                asked["over"] = over = True
            if fault in ("cut", "wrong"):
                wrong = self._reads(kernel, {**asked, "do": "read"}, fault, over)
                wrong = wrong or self._writes(stack, chance, kernel, asked, "cut")
            else:
                wrong = self._writes(stack, chance, kernel, asked, fault)
        if not wrong and fault != "full":
            wrong = self._again(asked)
        self._remove(place)
        return wrong

    def _reads(self, kernel: Kernel, asked: dict[str, Any], fault: str, over: bool) -> str:
        """Reads under a fault give the value or an error."""
        if not over and kernel.ask(**{**asked, "do": "write"}, factor=5) != {}:
            return "the first write failed"
        asked["over"] = True
        assert self.server is not None
        setattr(self.server, fault, 0.2)
        answer = kernel.ask(**asked)
        self.server.reset()
        if answer is None or not ({"error"} <= answer.keys() or answer == {"factor": 5.0}):
            return f"a read under {fault} gave {answer}"
        self.outcomes[f"{fault}: read {'fails' if 'error' in answer else 'right'}"] += 1
        return "" if (answer := kernel.ask(**asked)) == {"factor": 5.0} else f"a read after {fault} gave {answer}"

    def _writes(self, stack: ExitStack, chance: Random, kernel: Kernel, asked: dict[str, Any], fault: str) -> str:
        """A write under a fault leaves the new array, or the old one, or none, and says so."""
        kind, old = asked["kind"], 5.0 if found({**asked, **self._direct()}) == 5.0 else None
        asked["over"] = old is not None
        mends = stack.enter_context(self._fault(fault, chance, kernel, asked))
        begun = time.monotonic()
        kernel.send(**asked, factor=2)
        try:
            second = mends(begun + chance.uniform(0, 1.2) * self.usual[kind])
            answer = kernel.answer()
        except TimeoutError as error:
            return str(error)
        second = second() if callable(second) else second
        if fault != "full":
            stack.close()
        if fault == "kernel":  # workers of a killed kernel end with it
            kernel.process.wait()
            until(lambda: not any(map(_runs, [*kernel.pids["workers"], kernel.pids["host"]])), 30, "the cluster lives")
        there, whole = found({**asked, **self._direct()}), {2.0, *([3.0] if fault == "two writers" else [])}
        succeeded = [factor for factor, said in ((2.0, answer), (3.0, second)) if said == {}]
        allowed: set[Any] = set(succeeded) or {old, None if kind in LOSES_OLD else old}
        if answer is None or (fault in ("host", "busy", "expired", "cut") and not succeeded):
            allowed |= whole  # it was complete, and only the answer is missing
        if there not in allowed:
            return f"answers {answer} {second}; there is {there}, was {old}"
        asked["over"] = there is not None
        said = (
            "no answer" if answer is None else "succeeds" if answer == {} else "fails: " + answer["error"].split(":")[0]
        )
        state = "new" if there in whole else "old" if there else "none"
        self.outcomes[f"{fault}: {said}, there is {state}"] += 1
        return ""

    def _again(self, asked: dict[str, Any]) -> str:
        """The write runs again, without a fault."""
        answer = self.kernel().ask(**asked, factor=7)
        there = found({**asked, **self._direct()})
        return "" if answer == {} and there == 7.0 else f"the run again answers {answer}; there is {there}"

    def _direct(self) -> dict[str, Any]:
        return {} if self.server is None else {"server": f"http://127.0.0.1:{self.server.upstream}"}

    @contextmanager
    def _fault(self, fault: str, chance: Random, kernel: Kernel, asked: dict[str, Any]) -> Iterator[Callable[..., Any]]:
        """Yields a function that makes the fault at a time; its result is the answer of a second writer."""
        pids, server = kernel.pids, self.server

        def at(moment: float, does: Callable[[], Any]) -> Any:
            time.sleep(max(0.0, moment - time.monotonic()))
            return does()

        if fault in ("worker", "host", "kernel"):
            victim = {"worker": chance.choice(pids["workers"]), "host": pids["host"], "kernel": kernel.process.pid}
            yield lambda moment: at(moment, lambda: injections.kill(victim[fault]))
        elif fault == "two writers":
            other = self.kernels[1]
            other.send(**asked, factor=3)
            yield lambda moment: other.answer
        elif fault == "limit":
            most, before = chance.randrange(1000, 200_000), {}
            for pid in (kernel.process.pid, *pids["workers"]):
                before[pid] = resource.prlimit(pid, resource.RLIMIT_FSIZE)
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, before[pid][1]))
            yield lambda moment: None
            for pid, limits in before.items():
                resource.prlimit(pid, resource.RLIMIT_FSIZE, limits) if os.path.exists(f"/proc/{pid}") else None
        elif fault == "full":
            folder = os.path.dirname(asked["place"])
            room = chance.randrange(4096, 300_000)
            with open(f"{folder}/ballast", "wb") as file:
                os.posix_fallocate(file.fileno(), 0, max(shutil.disk_usage(folder).free - room, 4096))
            yield lambda moment: None
        else:
            assert server is not None
            change = {"busy": ("busy", chance.choice([0.3, 1.0])), "cut": ("cut", 0.3), "expired": ("expired", 1.0)}[
                fault
            ]
            yield lambda moment: at(moment, lambda: setattr(server, *change))
            server.reset()

    def _remove(self, place: str) -> None:
        for path in (place, f"{self.folder}/{Path(place).name.split('.')[0]}"):
            shutil.rmtree(path) if os.path.isdir(path) else Path(path).unlink(missing_ok=True)

    def end(self) -> None:
        """End the kernels."""
        for one in self.kernels:
            one.end()


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def _there(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def pairs(kind: str, fault: str) -> list[tuple[str, str]]:
    """Kinds and faults that this machine can try."""
    kinds = [
        one for one, module in {**NEEDS, **STORES}.items() if _there(module) and (not kind or one in kind.split(","))
    ]
    faults = [one for one in FAULTS if fault in ("", one) and (one != "full" or has("mount"))]
    far = {"all": {True, False}, "files": {False}, "stores": {True}}
    found = [(k, f) for k in kinds for f in faults if (k in STORES) in far[FAULTS[f]]]
    return [(k, f) for k, f in found if (k, f) != ("icechunk-s3", "wrong")]  # it has no checksums


LOG: Any = subprocess.DEVNULL


def main() -> int:
    """Draw, and count; returns the exit status."""
    global LOG
    parser = argparse.ArgumentParser("python -m tests.fault.writes", description=__doc__)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kind", default="", help=f"these kinds only, with commas: {', '.join({**NEEDS, **STORES})}")
    parser.add_argument("--fault", default="", choices=["", *FAULTS], help="this fault only")
    parser.add_argument("--log", help="file for what kernels print")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        serve()
        return 0
    choices, wrong = pairs(asked.kind, asked.fault), 0
    Random(asked.seed).shuffle(choices)
    with ExitStack() as stack:
        LOG = stack.enter_context(open(asked.log, "w")) if asked.log else subprocess.DEVNULL
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="jmars-writes-")))
        far = any(kind in STORES for kind, _ in choices) and _there("moto")
        server = stack.enter_context(s3.service()) if far else None
        choices = [pair for pair in choices if far or pair[0] not in STORES]
        draws = Draws(folder, server, asked.seed)
        for number in range(asked.faults):
            kind, fault = choices[number % len(choices)]
            begun = time.monotonic()
            why = draws.draw(number, kind, fault)
            wrong += bool(why)
            print(f"{number:3} {kind:12} {fault:12} {time.monotonic() - begun:6.2f} s  {why or 'right'}", flush=True)
        draws.end()
    for outcome, count in sorted(draws.outcomes.items()):
        print(f"{count:4} {outcome}")
    print(f"{asked.faults} faults of seed {asked.seed}, {wrong} wrong")
    sys.stdout.flush()
    os._exit(bool(wrong))  # threads of stores


if __name__ == "__main__":
    sys.exit(main())
