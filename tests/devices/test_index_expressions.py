"""Ranges and constants that a GPU makes: NumPy's values to the bit, by a device and by the text compiled here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.devices.device_program import device_program, index_expression
from jmars.devices.fake_device import FakeDevice
from jmars.kernels.cuda_text import cuda_text
from jmars.kernels.program import Generate, Program
from jmars.optimize import compile_graph
from jmars.tensor.tensor_graph import TensorGraph
from tests.kernels.cuda_texts import HostKernels
from tests.kernels.nvrtc import compiled

CALLS: list[tuple[int, str, tuple[Any, ...], dict[str, Any]]] = [  # chunk size, function of NumPy, arguments
    (7, "arange", (20,), {}),
    (4, "arange", (3, -40, -4), {"dtype": "i2"}),
    (6, "arange", (250, 270), {"dtype": "u4"}),
    (9, "arange", (-0.0, 3, 0.1), {}),
    (9, "arange", (0.5, 9, 0.3), {"dtype": "f4"}),
    (8, "linspace", (-1, 2, 31), {}),
    (8, "linspace", (5, 6, 9), {"endpoint": False}),
    (3, "linspace", (1, 1 + 5e-324, 7), {}),
    (5, "linspace", (-7, 7, 12), {"dtype": "i8"}),
    (5, "linspace", (2, 3, 1), {}),
    (2, "ones", ((5, 3),), {"dtype": "f4"}),
    (2, "full", ((2, 3), -7), {}),
    (2, "zeros", (3,), {"dtype": bool}),
]


def _made(call: tuple[int, str, tuple[Any, ...], dict[str, Any]]) -> tuple[Any, Any]:
    """A tensor, and NumPy's array."""
    size, name, args, kwargs = call
    return getattr(mt, name)(*args, **kwargs, chunk_size=size), getattr(np, name)(*args, **kwargs)


def _chunks(tensor: Any) -> list[tuple[Program, Any]]:
    """Program and arguments of each chunk, in order."""
    graph = compile_graph(TensorGraph.of([tensor.data]), {}).after
    (results,) = graph.results.values()
    args = graph.args or [()] * graph.n
    return [(graph.programs[graph.program[one]], args[one]) for one in results.reshape(-1).tolist()]


@pytest.mark.parametrize("call", CALLS, ids=str)
def test_a_device_makes_numpys_values(call: Any) -> None:
    tensor, expected = _made(call)
    device = FakeDevice(1 << 16)
    device.reserve(1 << 12)
    stream, found = device.stream(), b""
    for program, args in _chunks(tensor):
        made = device_program(program)
        assert not program.inputs and made is not None
        made.enqueue(device, stream, [], 64, 2048, args)
        device.synchronise(device.record(stream))
        found += device.view(64, program.output.shape, program.output.dtype).tobytes()
    assert found == expected.tobytes()  # arrays of two axes have one value only: the order of chunks is no matter


def test_the_texts_compiled_here_give_numpys_bits_and_suit_cuda(tmp_path: Path) -> None:
    made = [(_chunks(tensor), expected) for tensor, expected in map(_made, CALLS)]
    steps = [(*chunks[1], expected) for chunks, expected in made if len(chunks) > 1]
    ranges = [
        (index_expression(program.steps[0]), args, expected)
        for program, args, expected in steps
        if isinstance(program.steps[0], Generate)
    ]
    expressions = [expression for expression, *_ in ranges if expression is not None]
    assert len(expressions) == len(ranges) == 9
    kernels = HostKernels(expressions, tmp_path)
    for expression, (first,), expected in ranges:
        index = np.arange(first, min(expected.size, 2 * first))
        assert kernels(expression, [index]).tobytes() == expected[index].tobytes(), expression.text()
    text = cuda_text(expressions[3])
    kernel = "void k(double* out, long long first) { out[threadIdx.x] = jm_expression(first + threadIdx.x); }"
    assert text is not None and ".visible .entry k" in compiled(f'{text}\nextern "C" __global__ {kernel}')


def test_ranges_of_other_dtypes_stay_on_cores() -> None:
    for tensor in (mt.arange(4, dtype="u8"), mt.arange(3, dtype=complex), mt.random.rand(3)):
        (program, _), *_ = _chunks(tensor)
        assert device_program(program) is None
