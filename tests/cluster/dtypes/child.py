"""`python -m tests.cluster.dtypes.child`: makes pickled calls on a cluster of its own; answers what each gave."""

from __future__ import annotations

import faulthandler
import os
import pickle
import sys
from typing import Any

import numpy as np

import jmars
import jmars.tensor as mt
from jmars.remote import spawn
from jmars.tensor.protocols import FUNCTIONS
from jmars.tensor.tensor import Tensor
from tests.cluster.dtypes.calls import Asked
from tests.tensor.table.draws import Call, Given


def computed(asked: Asked) -> Any:
    """The value of a call."""
    args, kwargs = Call(asked.args, asked.kwargs).given(Given.numpys if asked.outside else Given.ours)
    way = WAYS.get(asked.function)
    found = way(*args) if way is not None else FUNCTIONS[asked.function](*args, **kwargs)
    return fetched(found)


def fetched(found: Any) -> Any:
    """Tensors as NumPy arrays."""
    if isinstance(found, tuple | list):
        return [fetched(one) for one in found]
    return found.fetch() if hasattr(found, "fetch") else found


def of_dtype(block: Any, dtype: Any) -> Any:
    """Its elements as another dtype; objects of all kinds where that is not possible."""
    try:
        return block.astype(dtype)
    except (TypeError, ValueError):
        return np.array([{"a": 1}, None, "text"] * block.size, object)[: block.size].reshape(block.shape)


def given_back(x: Tensor, dtype: Any) -> Any:
    """A write of another dtype."""
    x = mt.asarray(x)
    x[:1] = of_dtype(np.arange(3), dtype)[:1]
    return x


WAYS: dict[str, Any] = {
    "map_blocks": lambda x, kind: mt.map_blocks(of_dtype, x, dtype=kind),
    "map_blocks of a dtype": lambda x, kind: mt.map_blocks(of_dtype, x, kind, dtype=float),
    "spawn": lambda x, kind: spawn(of_dtype, (x, kind)),
    "astype": lambda x, kind: mt.asarray(x).astype(kind),
    "view": lambda x, kind: mt.asarray(x).view(kind),
    "getitem": lambda x, kind: mt.asarray(x)[of_dtype(np.arange(len(x)), kind)],
    "setitem": given_back,
    "reduce": lambda x, kind: mt.asarray(x).sum(dtype=kind),
    "apply": lambda x, kind: mt.apply_along_axis(of_dtype, 0, x, kind),
}


def main() -> None:
    """Serve until the parent hangs up."""
    faulthandler.enable()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what calls print is not an answer
    with jmars.Cluster(n_workers=2, memory_limit="512MiB"):
        pickle.dump("ready", answers)
        answers.flush()
        while True:
            try:
                asked = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            try:
                told = "value", repr(computed(asked))[:200]
            except Exception as error:
                told = type(error).__name__, str(error)[:2000]
            pickle.dump(told, answers)
            answers.flush()


if __name__ == "__main__":
    main()
