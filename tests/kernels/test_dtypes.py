"""Elements that are pointers are refused by each that would write or read them."""

from __future__ import annotations

import cloudpickle
import numpy as np
import pytest
from msgspec.structs import force_setattr

from jmars.client.arrays import SharedMemory
from jmars.errors import UnsupportedError
from jmars.kernels.program import Call, ChunkType, refuse_pointers, single
from jmars.processes import executor
from jmars.tensor.operand import Operand, TensorData

OBJECT = np.dtype(object)
REFUSED = [
    OBJECT,
    np.dtypes.StringDType(),
    np.dtype([("a", "i4"), ("b", [("c", "O")])]),
    np.dtype(("f8", (2,))),
]


@pytest.mark.parametrize("dtype", [np.dtype(one) for one in REFUSED], ids=str)
def test_what_is_no_plain_bytes_is_refused(dtype):
    with pytest.raises(UnsupportedError, match="cannot be distributed"):
        refuse_pointers(dtype)
    with pytest.raises(UnsupportedError):
        ChunkType((2,), dtype)
    with pytest.raises(UnsupportedError, match="line"):
        TensorData(Operand(), (2,), dtype, ((2,),))


@pytest.mark.parametrize(
    "dtype", ["?", "i1", ">f8", "g", "G", "M8[ns]", "m8", "S", "U3", [("a", "f8", (2,)), ("b", "U1")]]
)
def test_plain_bytes_are_taken(dtype):
    refuse_pointers(np.dtype(dtype))


def test_an_executor_opens_no_program_that_writes_or_reads_pointers():
    """Unpickling a chunk's type calls the constructor, which refuses pointers."""
    plain, tampered = ChunkType((2,), np.dtype("f8")), ChunkType((2,), np.dtype("f8"))
    force_setattr(tampered, "dtype", OBJECT)
    for inputs, output in (((), tampered), ((tampered,), plain)):
        program = single("bad", inputs, Call(len, (), tuple(range(len(inputs))), output))
        with pytest.raises(UnsupportedError, match="pointers"):
            executor._Ready(cloudpickle.dumps(program))


def test_a_client_neither_sends_nor_reads_pointers():
    memory = SharedMemory.__new__(SharedMemory)  # it refuses before it asks for anything
    with pytest.raises(UnsupportedError, match="pointers"):
        memory.upload("key", np.array([None]), ((1,),))
    for read in (memory.download, memory.view):
        with pytest.raises(UnsupportedError, match="pointers"):
            read("key", OBJECT, ((1,),))
