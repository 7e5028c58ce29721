"""Any slice of any array cut anyhow is read as NumPy gives it, and no other chunk is touched."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jmars.web.results import ChunkRead, chunk_reads, chunk_selection, count_chunks, parse_slice, pieces


def chunked(array, splits):
    """Chunks as bytes in C order of the grid."""
    parts = [array]
    for axis, lengths in enumerate(splits):
        parts = [one for part in parts for one in np.split(part, np.cumsum(lengths)[:-1], axis)]
    return [np.ascontiguousarray(part).tobytes() for part in parts]


def fetched(array, splits, selection, most):
    chunks, touched = chunked(array, splits), set()
    sent = b""
    for box in pieces(selection.ranges, array.itemsize, most):
        piece = np.empty([len(one) for one in box], array.dtype)
        assert piece.nbytes <= max(most, array.itemsize)
        for one in chunk_reads(box, splits, array.itemsize):
            assert isinstance(one, ChunkRead)
            touched.add(one.chunk)
            data = chunks[one.chunk][one.start : one.stop]
            piece[(*one.target, ...)] = np.ndarray(one.shape, array.dtype, data, 0, one.strides)
        sent += piece.tobytes()
    assert len(touched) == (count_chunks(selection.ranges, splits) if sent else 0)
    return np.frombuffer(sent, array.dtype).reshape(selection.shape)


@st.composite
def cases(draw):
    splits = draw(st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=4), max_size=3))
    parts = []
    for lengths in splits:
        n = sum(lengths)
        if draw(st.booleans()):
            parts.append(str(draw(st.integers(-n, n - 1))))
        else:
            start, stop = (draw(st.none() | st.integers(-n - 1, n + 1)) for _ in range(2))
            step = draw(st.none() | st.integers(1, 4))
            parts.append(":".join("" if one is None else str(one) for one in (start, stop, step)))
    return splits, parts[: draw(st.integers(0, len(parts)))], draw(st.integers(8, 200))


@given(cases())
def test_a_slice_is_numpys(case):
    splits, parts, most = case
    shape = [sum(lengths) for lengths in splits]
    array = np.arange(np.prod(shape, dtype=int), dtype="i8").reshape(shape)
    selection = parse_slice(",".join(parts), shape)
    index = tuple(
        slice(*(int(n) if n else None for n in part.split(":"))) if ":" in part else int(part) for part in parts
    )
    assert np.array_equal(fetched(array, splits, selection, most), array[(*index, ...)])


def test_a_chunk_is_named_by_its_place():
    array, splits = np.arange(42).reshape(6, 7), [(4, 2), (3, 3, 1)]
    assert np.array_equal(fetched(array, splits, chunk_selection("1,0", splits), 64), array[4:, :3])
    assert chunk_selection("", []).shape == ()
    for text in "2,0", "0", "-1,0", "a,b", "":
        with pytest.raises(ValueError, match="the grid is 2,3"):
            chunk_selection(text, splits)


@pytest.mark.parametrize(
    ("text", "why"),
    [("1,2,3", "has 3 axes and the array 2"), ("6", "outside of axis 0"), ("::0", "1 or more"), ("::-1", "1 or more"),
     ("a", "is no int"), ("1:2:3:4", "is no int"), ("...", "is no int")],
)  # fmt: skip
def test_what_is_no_slice_is_told(text, why):
    with pytest.raises(ValueError, match=why):
        parse_slice(text, (6, 7))
