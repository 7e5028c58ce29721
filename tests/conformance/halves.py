"""An engine in this process for arrays that are cut in two along each axis, with the warnings of workers."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from jmars.client.auto_persist import SMALL
from jmars.client.local_runs import LOOK
from jmars.client.session import DefaultEngine
from jmars.config import config
from jmars.kernels.float_errors import FloatErrors, expression_of, message
from jmars.kernels.program import Program
from jmars.tensor import splits
from jmars.tensor.engine import current_engine, set_engine
from jmars.tensor.from_array import FromArray
from jmars.tensor.operand import Splits, TensorData
from tests.tensor.engine import Array, OneByOne

MOST_CUT = 5  # axes: an array of ten would have a thousand chunks


class Halves(OneByOne):
    """Computes operands one by one; tells the floating point errors of a run as warnings, each text once."""

    def __init__(self) -> None:
        super().__init__()
        self._found: dict[str, None] = {}

    def small(self, data: TensorData, touched: int) -> Array | None:
        """The value of a node, for single elements: known, or computed at the third, as in a cell (local_runs.py)."""
        if data.has_unknown_lengths or math.prod(data.shape) * data.dtype.itemsize > SMALL:
            return None
        if isinstance(data.op, FromArray):
            return data.op.array
        try:
            return np.asarray(self.fetch(data)) if touched % LOOK == 0 else None
        except Exception:  # raised where the value is needed
            return None

    def execute(self, data: Sequence[TensorData]) -> None:
        super().execute(data)
        found, self._found = list(self._found), {}
        for text in found:
            warnings.warn(text, RuntimeWarning, stacklevel=2)

    def _call(self, program: Program, out: Array | None, read: list[Array], args: tuple[Any, ...]) -> Any:
        errors = FloatErrors()
        with np.errstate(all="call", call=errors):
            value = super()._call(program, out, read, args)
        for step, node, bit in errors.take(program.steps):
            expression = expression_of(program.steps[step])
            assert expression is not None
            self._found[message(expression.nodes[node], bit)] = None
        return value


@contextmanager
def in_halves(cluster: bool = False) -> Iterator[object]:
    """Within, arrays for which no chunk size is given are cut in two along each axis.

    Tensors compute in this process, or all of them on the newest open cluster, where elements stay tensors: some tests
    of classes fail there.
    """
    before, here = current_engine(), DefaultEngine() if cluster else Halves()
    with (
        pytest.MonkeyPatch.context() as patch,
        config.using(local_seconds=0.0 if cluster else config.local_seconds),
    ):
        patch.setattr(splits, "_automatic", halved)
        set_engine(here)
        try:
            yield here
        finally:
            set_engine(before)


def halved(shape: tuple[int, ...], _dtype: Any, _most: int, fixed: Mapping[int, tuple[int, ...]]) -> Splits:
    """Cut the first `MOST_CUT` axes in two, but for `fixed` ones."""
    halves = [(n - n // 2, n // 2) if n > 1 and axis < MOST_CUT else (n,) for axis, n in enumerate(shape)]
    return tuple(fixed.get(axis, cut) for axis, cut in enumerate(halves))
