"""Writes an operand as a document of its own, with the chunks to fetch, so that it runs apart from any cluster.

`executable` makes the executable graph (Fetch operands and the operand) as readable JSON; `run_executable` runs the
graph on given inputs. `Job.operand` and `python -m jmars operand` reach both. The operand itself travels as a pickle
inside, like any program: run only documents that you made.
Source: docs/explanation/seeds.md, "Operand states".
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import cloudpickle
import numpy as np

from jmars.errors import GraphError, UnsupportedError
from jmars.kernels.compile import compile_program
from jmars.kernels.program import ChunkType, Program, program_text
from jmars.kernels.unsized import measured

__all__ = ["executable", "run_executable"]

FORMAT = "jmars operand, version 1"


def executable(
    program: Program, args: Sequence[Any], fetch: Sequence[Mapping[str, Any]], about: Mapping[str, Any]
) -> Any:
    """The document of an operand.

    Parameters
    ----------
    program, args
        What it does, and what it alone brings.
    fetch
        What is known of each input, in the order of the program's: where its chunk comes from.
    about
        What is known of the operand: number, line, worker.

    Returns
    -------
    dict
        `format`, `about`, `nodes` (a Fetch for each input, then the operand), `edges` (pairs of places in `nodes`),
        `steps` (text) and `pickle` (base64): JSON throughout.
    """
    nodes: list[dict[str, Any]] = [
        {"op": "Fetch", **_typed(kind), **told} for kind, told in zip(program.inputs, fetch, strict=True)
    ]
    nodes.append({"op": program.name, **_typed(program.output), "scratch": program.work})
    return {
        "format": FORMAT,
        "about": dict(about),
        "nodes": nodes,
        "edges": [[place, len(fetch)] for place in range(len(fetch))],
        "steps": program_text(program),
        "pickle": base64.b64encode(cloudpickle.dumps((program, tuple(args)))).decode(),
    }


def run_executable(document: Mapping[str, Any], inputs: Sequence[Any]) -> np.ndarray[Any, Any]:
    """Compute the operand's chunk from these input chunks.

    Parameters
    ----------
    document
        Of `executable`; its pickle is loaded, which runs code.
    inputs
        Arrays, in the order of the Fetch nodes.

    Raises
    ------
    GraphError
        If it is no such document, or the arrays do not fit it.
    UnsupportedError
        If the operand reads parts of chunks where they lie, as a step of a large sort does.
    Exception
        Whatever the operand raises.
    """
    if document.get("format") != FORMAT:
        raise GraphError(f"this is no operand of jmars ({document.get('format')!r}); write one with Job.operand")
    program, args = cloudpickle.loads(base64.b64decode(document["pickle"]))
    if program.gathers:
        raise UnsupportedError(f"{program.name} reads parts of chunks where they lie, which is done on a cluster only")
    if len(inputs) != len(program.inputs):
        raise GraphError(f"{program.name} reads {len(program.inputs)} chunks and {len(inputs)} were given; give each")
    chunks = []
    for place, (kind, given) in enumerate(zip(program.inputs, inputs, strict=True)):
        chunk = np.ascontiguousarray(given)
        fits = len(chunk.shape) == len(kind.shape) and all(b in (-1, a) for a, b in zip(chunk.shape, kind.shape))
        if chunk.dtype != kind.dtype or not fits:
            raise GraphError(
                f"input {place} of {program.name} is {chunk.dtype} of shape {chunk.shape}; "
                f"give {kind.dtype} of shape {kind.shape}, where -1 is any length"
            )
        chunks.append(chunk)
    kernel = compile_program(program)
    with np.errstate(all="ignore"):
        if not program.output.is_sized:
            found, shape = measured(kernel(None, chunks, args, None), program.output, program.name)
            return np.asarray(found).reshape(shape)
        out = np.empty(program.output.shape, program.output.dtype)
        kernel(out, chunks, args, None)
    return out


def _typed(kind: ChunkType) -> dict[str, Any]:
    return {"shape": list(kind.shape), "dtype": str(kind.dtype)}
