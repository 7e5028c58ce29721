"""A NumPy course in 48 cells, in a Jupyter kernel: python -m tests.benchmarks course [WORD ...].

Each cell runs plainly and under `%%jmars`, on arrays of 10^6 elements that were made anew. Printed for each:
milliseconds of both from the request to the last message, the ratio, the error of both where there is one, and where
values, dtypes or types of the names `r…` differ. `--lines` runs each statement as a cell of its own.
docs/reference/course.md tells what was found. WORDs choose cells by their titles.
"""

from __future__ import annotations

import argparse
import ast
import re
import time
from typing import Any

from jupyter_client.manager import start_new_kernel

from tests.benchmarks.course_cells import ARRAYS, COURSE
from tests.benchmarks.machine import this_machine

COMPARE = """
import numpy as np_
def value_(x):
    if isinstance(x, (list, tuple)):
        return type(x)(map(value_, x))
    return x.fetch() if type(x).__module__.startswith("jmars") and hasattr(x, "fetch") else x
def differences_(want, found, path):
    found = value_(found)
    if isinstance(want, (list, tuple)) and isinstance(found, (list, tuple)) and len(want) == len(found):
        return [one for i in range(len(want)) for one in differences_(want[i], found[i], path + f"[{i}]")]
    if type(want) is not type(found):
        return [f"{path}: {type(want).__name__}, here {type(found).__name__}"]
    p, q = np_.asanyarray(want), np_.asanyarray(found)
    if p.dtype != q.dtype or p.shape != q.shape:
        return [f"{path}: {p.dtype}{p.shape}, here {q.dtype}{q.shape}"]
    same = np_.allclose(p, q, rtol=1e-9, atol=1e-9, equal_nan=True) if p.dtype.kind in "fc" else (p == q).all()
    return [] if same else [f"{path}: {p.ravel()[:4]}, here {q.ravel()[:4]}"]
"""
MAGIC = "%%jmars\n"
LOOK = """
for name_ in want_:
    print(*differences_(want_[name_], globals().get(name_), name_), sep="; ")
"""


class Kernel:
    """A kernel with jmars and a cluster of two workers."""

    def __init__(self) -> None:
        self._manager, self._client = start_new_kernel(kernel_name="python3")
        for code in ("%load_ext jmars", COMPARE, "%%jmars -w 2 --memory 1GiB\nimport numpy as np\nnp.ones(3).sum()"):
            self.run(code)

    def run(self, code: str) -> tuple[float, str, str]:
        """Seconds, the text that a cell printed, and its error ("" for none)."""
        begun, printed, error = time.perf_counter(), "", ""
        request = self._client.execute(code)
        while True:
            message: dict[str, Any] = self._client.get_iopub_msg(timeout=300)
            kind, content = message["msg_type"], message["content"]
            if message["parent_header"].get("msg_id") != request:
                continue
            if kind == "status" and content["execution_state"] == "idle":
                return time.perf_counter() - begun, printed, error
            if kind == "stream":
                printed += content["text"]
            elif kind == "error":
                error = f"{content['ename']}: {content['evalue']}"

    def close(self) -> None:
        """End the kernel."""
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)


def whole(kernel: Kernel, title: str, code: str, rounds: int) -> None:
    """Run a cell in both ways, and compare."""
    results = sorted(set(re.findall(r"\b(r\d?)\b(?=\s*=|, )", code)))
    seconds, errors = {}, {}
    for magic in ("", MAGIC):
        taken = []
        for _ in range(rounds):
            kernel.run(f"for name_ in {[*results, 'c', 'd', 'x', 'y', 'z']}: globals().pop(name_, None)")
            kernel.run(ARRAYS)
            one, _, errors[magic] = kernel.run(magic + code)
            taken.append(one)
        seconds[magic] = min(taken)
        if not magic:
            kernel.run(f"want_ = {{name_: globals()[name_] for name_ in {results} if name_ in globals()}}")
    numpy, jmars = seconds.values()
    print(f"{1e3 * numpy:8.1f} {1e3 * jmars:8.1f} {jmars / numpy:6.1f}  {title}", flush=True)
    plain, ours = errors.values()
    if plain != ours:
        print(f"{'':26}NumPy: {plain}\n{'':26}jmars: {ours[:200]}")
    elif not plain:
        print("".join(f"{'':26}{line}\n" for line in kernel.run(LOOK)[1].splitlines() if line.strip()), end="")


def by_line(kernel: Kernel, code: str, rounds: int) -> None:
    """Run each statement as a cell of its own in both ways."""
    parts = [ast.unparse(one) for one in ast.parse(code).body]
    best: dict[tuple[str, int], float] = {}
    for _ in range(rounds):
        for magic in ("", MAGIC):
            kernel.run(ARRAYS)
            for number, part in enumerate(parts):
                taken = kernel.run(magic + part)[0]
                best[magic, number] = min(taken, best.get((magic, number), taken))
    for number, part in enumerate(parts):
        numpy, jmars = best["", number], best[MAGIC, number]
        print(f"{1e3 * numpy:8.1f} {1e3 * jmars:8.1f} {jmars / numpy:6.1f}  {part.splitlines()[0][:90]}", flush=True)


def main() -> None:
    """Run the cells and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks course")
    parser.add_argument("words", nargs="*")
    parser.add_argument("--lines", action="store_true")
    parser.add_argument("--rounds", type=int, default=2)
    given = parser.parse_args()
    print(this_machine())
    print("   numpy    jmars  ratio  (ms)")
    kernel = Kernel()
    try:
        for cell in COURSE.strip().split("\n\n"):
            title, _, code = cell.partition("\n")
            if given.words and not any(word in title for word in given.words):
                continue
            if not given.lines:
                whole(kernel, title.removeprefix("# "), code, given.rounds)
            elif not title.startswith("# error"):
                by_line(kernel, code, given.rounds)
    finally:
        kernel.close()


if __name__ == "__main__":
    main()
