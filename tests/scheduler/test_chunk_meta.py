"""ChunkMetaActor: a chunk is freed with its last holder."""

import pytest

from jmars.errors import ClusterError
from jmars.scheduler.scheduler_context import ChunkMetaActor


def test_a_chunk_is_freed_with_its_last_holder():
    meta = ChunkMetaActor()
    assert meta.keep("a", [1, 2]) == []
    assert meta.keep("b", [2, 3]) == []
    meta.hold([3])
    assert meta.drop("a") == [1]
    assert meta.drop("b") == [2]
    assert meta.release([3]) == [3]
    assert meta.drop("b") == []
    with pytest.raises(ClusterError, match="compute it again"):
        meta.chunks("b")


def test_a_tensor_computed_twice_stays_where_it_was_first():
    meta = ChunkMetaActor()
    meta.keep("a", [1, 2])
    assert meta.keep("a", [2, 3]) == [3]  # somebody may be reading chunk 1 just now
    assert meta.chunks("a") == [1, 2]
    assert meta.drop("a") == [1, 2]
