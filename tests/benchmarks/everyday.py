"""Cells of everyday work beside NumPy, in a Jupyter kernel: python -m tests.benchmarks everyday [WORD ...].

Each cell of `everyday_cells.py` and `everyday_python.py` runs plainly and under `%%jmars`, in turns. Printed are the
least seconds of both from the request to the last message, their ratio, the least CPU seconds of the kernel, and the
seconds of the first `%%jmars` run; below it each difference in names, values, dtypes, types, printed text, warnings and
errors. At the end: the cells beyond twice NumPy's time + 0.2 s. A cell whose imports are not installed is left out.
WORDs choose cells by their titles; `--check` fails on a difference or a slow cell.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from pathlib import Path
from typing import Any

from jupyter_client.manager import start_new_kernel

from tests.benchmarks.everyday_cells import ANALYSIS
from tests.benchmarks.everyday_python import PYTHON
from tests.benchmarks.machine import this_machine

CELLS = ANALYSIS | PYTHON
MAGIC = "%%jmars\n"
PREPARE = r"""
import numpy as np, time as time_, types as types_
numpy_ = np
def forget_():
    for name in kept_():
        del globals()[name]
def kept_():
    "Names of values, not of modules, functions and classes."
    other = types_.ModuleType | types_.FunctionType | types_.BuiltinFunctionType | type
    return {name: value for name, value in globals().items()
            if not name.startswith("_") and not name.endswith("_") and name not in start_
            and not isinstance(value, other)}
def fetched_(x):
    return x.fetch() if type(x).__module__.startswith("jmars") and hasattr(x, "fetch") else x
def differences_(want, found, path):
    found = fetched_(found)
    if type(want) is not type(found) and type(want).__qualname__ != type(found).__qualname__:
        return [f"{path}: {type(want).__name__}, here {type(found).__name__}"]
    if isinstance(want, dict):
        if list(map(str, want)) != list(map(str, found)):
            return [f"{path}: keys {list(want)[:5]}, here {list(found)[:5]}"]
        return [one for a, b in zip(want, found) for one in
                differences_(a, b, f"{path}, key") + differences_(want[a], found[b], f"{path}[{a!r}]")]
    if isinstance(want, (list, tuple)):
        if len(want) != len(found):
            return [f"{path}: {len(want)} elements, here {len(found)}"]
        return [one for i in range(len(want)) for one in differences_(want[i], found[i], f"{path}[{i}]")]
    if isinstance(want, (numpy_.ndarray, numpy_.generic)):
        if want.dtype != found.dtype or want.shape != found.shape:
            return [f"{path}: {want.dtype}{want.shape}, here {found.dtype}{found.shape}"]
        if isinstance(want, numpy_.ma.MaskedArray):
            if (numpy_.ma.getmaskarray(want) != numpy_.ma.getmaskarray(found)).any():
                return [f"{path}: other elements are masked"]
            want, found = want.compressed(), found.compressed()
        p, q = numpy_.asarray(want), numpy_.asarray(found)
        near = dict(rtol=1e-4, atol=1e-5) if p.dtype in ("f4", "c8") else dict(rtol=1e-9, atol=1e-10)
        same = numpy_.allclose(p, q, equal_nan=True, **near) if p.dtype.kind in "fc" else str(p) == str(q)
        if same and p.dtype.kind not in "fcmMOV":
            same = (p == q).all()
        return [] if same else [f"{path}: {p.ravel()[:4]}, here {q.ravel()[:4]}"]
    if isinstance(want, float):
        same = numpy_.isclose(want, found, rtol=1e-9, atol=1e-10, equal_nan=True)
        return [] if same else [f"{path}: {want}, here {found}"]
    if type(want).__module__ == "__main__" and hasattr(want, "__dict__"):
        return differences_(vars(want), vars(found), path)
    return [] if str(want) == str(found) else [f"{path}: {str(want)[:80]}, here {str(found)[:80]}"]
def compare_(want, found):
    for name in sorted({*want, *found}):
        if name not in found or name not in want:
            print(f"{name}: bound by {'NumPy' if name in want else 'jmars'} only")
        else:
            print(*differences_(want[name], found[name], name)[:3], sep="\n")
start_ = {*globals(), "start_", "want_", "In", "Out", "exit", "quit", "get_ipython"}
"""


class Kernel:
    """A kernel with jmars and a cluster of two workers."""

    def __init__(self) -> None:
        self._manager, self._client = start_new_kernel(kernel_name="python3")
        for code in (
            "%load_ext jmars",
            "%%jmars -w 2 --memory 1GiB\nimport numpy as np\nnp.ones(2**18).sum()",
            PREPARE,
        ):
            self.run(code)

    def run(self, code: str) -> tuple[float, str, str, str]:
        """Seconds, the text that a cell printed or showed, its warnings and its error ("" for none)."""
        begun, printed, warned, error = time.perf_counter(), "", "", ""
        request = self._client.execute(code)
        while True:
            message: dict[str, Any] = self._client.get_iopub_msg(timeout=300)
            kind, content = message["msg_type"], message["content"]
            if message["parent_header"].get("msg_id") != request:
                continue
            if kind == "status" and content["execution_state"] == "idle":
                return time.perf_counter() - begun, printed, warned, error
            if kind == "stream" and content["name"] == "stderr":
                warned += content["text"]
            elif kind == "stream":
                printed += content["text"]
            elif kind in ("display_data", "execute_result") and not any("widget" in one for one in content["data"]):
                text = content["data"].get("text/plain", "")  # none for what is beside the view
                printed += f"{text}\n" if text else ""
            elif kind == "error":
                error = f"{content['ename']}: {content['evalue']}"

    def asked(self, expression: str) -> str:
        """The text of a value in the kernel."""
        return self.run(f"print({expression})")[1].strip()

    def cpu(self) -> float:
        """CPU seconds of the kernel so far."""
        return float(self.asked("time_.process_time()"))

    def close(self) -> None:
        """End the kernel."""
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


def warnings_of(text: str, lines_above: int) -> list[str]:
    """Warnings with their lines in the cell, without paths and lines of source."""
    found = re.findall(r"^(\S*?):(\d+): (\w+Warning: .*)$", text, re.MULTILINE)
    return [
        f"line {int(line) - lines_above}: {message}" if "ipykernel" in path else f"{Path(path).name}: {message}"
        for path, line, message in found
    ]


def compared(kernel: Kernel, title: str, text: str, rounds: int) -> tuple[bool, bool]:
    """Run a cell in both ways and print; whether the results are the same, and whether it is fast enough."""
    before, _, code = text.strip("\n").rpartition("\n---\n")
    walls: dict[str, list[float]] = {"": [], MAGIC: []}
    cpus: dict[str, list[float]] = {"": [], MAGIC: []}
    seen: dict[str, tuple[str, list[str], str]] = {}
    different = ""
    for _ in range(rounds):
        for magic in walls:
            kernel.run("forget_()")
            if error := kernel.run(before)[3]:
                print(f"{'left out':>36}  {title}: {error}", flush=True)
                return True, True
            cpu = kernel.cpu()
            wall, printed, warned, error = kernel.run(magic + code)
            cpus[magic].append(kernel.cpu() - cpu)
            walls[magic].append(wall)
            seen[magic] = printed, warnings_of(warned, magic.count("\n")), error
            different = kernel.run("compare_(want_, kept_())" if magic else "want_ = kept_()")[1]
    numpy, jmars = (min(one) for one in walls.values())
    cpu_numpy, cpu_jmars = (min(one) for one in cpus.values())
    first = walls[MAGIC][0]
    times = f"{numpy:7.3f} {jmars:7.3f} {jmars / numpy:6.1f} {cpu_numpy:7.3f} {cpu_jmars:7.3f} {first:7.3f}"
    print(f"{times}  {title}", flush=True)
    told = [line for line in different.splitlines() if line.strip()]
    for name, theirs, ours in zip(("text", "warnings", "error"), seen[""], seen[MAGIC], strict=True):
        if theirs != ours:
            told += [f"NumPy's {name}: {theirs!r}", f"jmars's {name}: {ours!r}"]
    for line in told:
        print(f"{'':10}{line}", flush=True)
    return not told, jmars <= 2 * numpy + 0.2


def main() -> int:
    """Run the cells, print, and with --check judge."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks everyday")
    parser.add_argument("words", nargs="*")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--check", action="store_true", help="exit 1 when a cell differs or is slow")
    given = parser.parse_args()
    print(this_machine())
    print("  numpy   jmars  ratio    cpu:n   cpu:j   first  (seconds)")
    kernel = Kernel()
    different, slow = [], []
    try:
        for title, text in CELLS.items():
            if given.words and not any(word in title for word in given.words):
                continue
            same, fast = compared(kernel, title, text, given.rounds)
            different += [] if same else [title]
            slow += [] if fast else [title]
    finally:
        kernel.close()
    print(f"different: {different}\nbeyond 2 times + 0.2 s: {slow}")
    return 1 if given.check and (different or slow) else 0


if __name__ == "__main__":
    sys.exit(main())
