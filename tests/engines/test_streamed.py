"""StreamedArrays: arrays over a connection, in pieces, bounded, and nothing left after an error."""

from __future__ import annotations

import numpy as np
import pytest

from jmars.actors import Mailbox
from jmars.client.arrays import StreamedArrays
from jmars.client.connection import Connection
from jmars.errors import ChunkLostError, ClusterError, StorageError
from jmars.storage.chunks import checksum, received


class FakeConnection:
    """Answers calls of StreamedArrays from a dict of chunks; counts what is under way."""

    def __init__(self):
        self.chunks, self.kept, self.told, self.calls, self.coming = {}, {}, [], [], {}
        self.most = 0
        self.fails = None

    def ask(self, actor, method, *args, timeout=None):
        self.calls.append((actor, method, *args))
        if (actor, method) == ("session", "take_chunks"):
            return 100
        if (actor, method) == ("session", "keep"):
            key, first, count = args
            self.kept[key] = list(range(first, first + count))
            return None
        if (actor, method) == ("session", "chunks"):
            if any(key not in self.kept for key in args[0]):
                raise ChunkLostError("it is gone")
            return [self.kept[key] for key in args[0]]
        if method == "put":
            chunk, start, size, data, sent = args
            whole = self.coming.setdefault(chunk, bytearray(size))
            whole[start : start + len(data)] = received(bytes(data), sent, "x")
            if start + len(data) == size:
                self.chunks[chunk] = bytes(self.coming.pop(chunk))
            return None
        assert method == "gather"
        ((chunk, start, _, shape, _),) = args
        data = self.chunks[chunk][start : start + shape[0]]
        return data, checksum(data) if self.fails is None else b"wrong"

    def ask_each(self, calls, most):
        for size, call in calls:
            assert size <= most
            if self.fails is not None and call[1].startswith("put"):
                raise self.fails
            yield self.ask(*call)

    def tell(self, *message):
        self.told.append(message)


ARRAYS = [
    np.arange(1000.0).reshape(20, 50),
    np.asfortranarray(np.arange(60, dtype=">i4").reshape(6, 10)),
    np.array(["a", "bcd", ""]),
    np.array(7.5),
    np.zeros((0, 3)),
    np.array([np.datetime64("2020-01-01"), np.datetime64("NaT")]),
    np.zeros(3, [("a", "i4"), ("b", "f8")]),
    np.array([b"", b""], "S0"),
]


def splits_of(array, length):
    return tuple(tuple(min(length, n - at) for at in range(0, n, length)) or (0,) for n in array.shape)


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
@pytest.mark.parametrize("piece", [64, 2**20])
def test_an_array_comes_back_as_it_went(array, piece):
    connection = FakeConnection()
    arrays = StreamedArrays(connection, piece)
    splits = splits_of(array, 7)
    arrays.upload("a", array, splits)
    back = arrays.download("a", array.dtype, splits)
    assert back.dtype == array.dtype and back.shape == array.shape
    np.testing.assert_array_equal(back, array)
    assert all(len(data) <= piece for call in connection.calls for data in call if isinstance(data, memoryview))
    other = StreamedArrays(FakeConnection(), piece)
    other.move("a", arrays, array.dtype, splits)
    np.testing.assert_array_equal(other.download("a", array.dtype, splits), array)


def test_a_fetch_without_copy_is_read_only_and_an_element_is_a_scalar():
    arrays = StreamedArrays(FakeConnection())
    arrays.upload("a", np.arange(4.0), ((4,),))
    view = arrays.fetch("a", np.dtype(float), ((4,),), copy=False)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    arrays.fetch("a", np.dtype(float), ((4,),), copy=True)[0] = 1
    arrays.upload("b", np.array(2.0), ())
    assert arrays.fetch("b", np.dtype(float), (), copy=False) == 2


def test_an_upload_that_fails_leaves_nothing():
    connection = FakeConnection()
    connection.fails = ClusterError("no room")
    with pytest.raises(ClusterError, match="no room"):
        StreamedArrays(connection).upload("a", np.arange(4.0), ((2, 2),))
    assert connection.told == [("session", "drop", ["a"]), ("store", "abandon", 100, 2)]


def test_bytes_that_changed_on_their_way_are_an_error():
    connection = FakeConnection()
    arrays = StreamedArrays(connection)
    arrays.upload("a", np.arange(4.0), ((4,),))
    connection.fails = ValueError()
    with pytest.raises(StorageError, match="changed on their way"):
        arrays.download("a", np.dtype(float), ((4,),))


def test_objects_are_refused():
    with pytest.raises(TypeError):
        StreamedArrays(FakeConnection()).upload("a", np.array([object()]), ((1,),))


def test_calls_go_out_while_earlier_ones_are_not_answered(cluster):
    """Of a connection: bounded in bytes, in order, and withdrawn when the caller stops."""
    connection = Connection(cluster._host.socket, cluster._host.token, Mailbox(), lambda: None)
    begun = []

    def calls():
        for number in range(6):
            begun.append(number)
            yield 10, ("session", "take_chunks", 1)

    answers = connection.ask_each(calls(), most=30)
    first = next(answers)
    assert begun == [0, 1, 2, 3]
    assert list(answers) == [first + more for more in range(1, 6)]
    assert [type(one) for one in connection.ask_each([(100, ("host", "ping"))] * 2, most=1)] == [type(None)] * 2
    with pytest.raises(ClusterError, match="no remote method"):
        list(connection.ask_each([(1, ("host", "ping")), (1, ("host", "nothing"))], most=10))
    stopped = connection.ask_each(calls(), most=30)
    next(stopped)
    stopped.close()
    connection.close()
