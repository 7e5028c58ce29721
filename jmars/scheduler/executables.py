"""The executable graph of an operand: Fetch operands for the inputs, and the operand itself.

Source: docs/explanation/seeds.md, "Execution control"; Mars `scheduler/graph.py`, `get_executable_operand_dag`.
"""

from __future__ import annotations

from typing import Any

from jmars.kernels import executable
from jmars.scheduler.prepare import Ready

__all__ = ["document"]


def document(ready: Ready, job: str, operand: int) -> dict[str, Any]:
    """Document of an operand; of a chunk that was stored before only a Fetch.

    Parameters
    ----------
    ready
        The structure that runs and what fills it in.
    job, operand
        Whose, and which.
    """
    prepared, bound = ready
    table = prepared.table
    row = table.program[operand]
    words, line = prepared.blame(operand, bound)
    about = {"job": job, "operand": operand, "words": words, "bytes": table.nbytes[operand]}
    if line is not None:
        about |= {"file": line.filename, "line": line.lineno, "text": line.text}
    if row < 0:
        return {"format": "", "about": about, "nodes": [{"op": "Fetch"}], "edges": [], "steps": "", "pickle": ""}
    fetch = [{"operand": one, "from": _name(ready, one), "bytes": table.nbytes[one]} for one in table.inputs[operand]]
    args = prepared.open(job, 0, 0, bound).args
    found: dict[str, Any] = executable(table.programs[row], args[operand] if args else (), fetch, about)
    return found


def _name(ready: Ready, operand: int) -> str:
    table = ready.prepared.table
    row = table.program[operand]
    return table.programs[row].name if row >= 0 else "a stored chunk"
