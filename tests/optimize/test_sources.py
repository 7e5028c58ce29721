"""What plans say of sources: bytes to read, and why bytes are read more than once."""

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.optimize.passes import compile_graph
from jmars.optimize.sources import sources_of
from jmars.tensor.parts import common, counts, in_chunks, pieces_read, positions, tidy
from jmars.tensor.tensor_graph import TensorGraph


def reads(*tensors):
    graph = TensorGraph.of([one.data for one in tensors])
    compiled = compile_graph(graph, {})
    rows = sources_of(compiled)
    assert sum(row.read for row in rows) == compiled.after.reads.sum()
    for row in rows:
        assert all(compiled.before.layers[k].name for k in row.layers)
    return [(row.read, row.nbytes, row.why) for row in rows]


def plane(chunks=(100, 100), **options):
    return mt.from_blocks(np.zeros, (400, 400), "f8", chunks, name="plane", takes="steps", **options)


def test_a_source_is_listed_with_bytes():
    x = plane()
    assert reads(x + 1) == [(1_280_000, 1_280_000, "")]
    assert reads((x + 1)[:10, :10]) == [(800, 1_280_000, "")]
    assert reads(mt.ones(10)) == []


def test_parts_that_are_not_joined_say_what_they_share():
    x = plane()
    (row,) = reads(x[:10, :200].sum(), x[:200, :10].sum())
    assert row[0] == 2 * 2000 * 8
    assert row[2] == "its 2 parts share 800 B; joined they would be 312.5 KiB, and apart they are 31.2 KiB"
    assert reads(x[:10].sum(), x[-10:].sum())[0][2] == ""


def test_a_source_that_is_opened_twice_is_one_row():
    (row,) = reads(plane()[:200].sum(), plane()[100:].sum())
    assert row[:2] == (500 * 400 * 8, 1_280_000)
    assert row[2].startswith("it is opened 2 times, and 312.5 KiB are read again for that")


def test_pieces_that_chunks_cut_are_told():
    assert reads(plane((100, 100), pieces=(100, 50)).sum())[0][2] == ""
    assert reads(plane((100, 100), pieces=(250, 250)).sum())[0][2] == (
        "its 4 pieces of 250 × 250 are read 25 times, since chunks cut pieces; cut it at whole pieces"
    )
    assert reads(plane((100, 100), pieces=(250, 250))[:10, ::300].sum())[0][2] == ""
    x = plane((100, 100), pieces=(100, 100))
    assert reads(x[:10, :10].sum(), x[90:100, 90:100].sum())[0][2] == (
        "its piece of 100 × 100 is read 2 times, since parts lie in the same pieces"
    )
    with pytest.raises(ValueError, match="length above 0 for each of 2 axes"):
        plane(pieces=(250,))


def test_files_are_listed(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((400, 400)))
    x = mt.load(tmp_path / "x.npy", chunk_size=100)
    assert reads(x[::4].sum()) == [(320_000, 1_280_000, "")]
    assert "share 800 B" in reads(x[:10, :200].sum(), x[:200, :10].sum())[0][2]


def test_common_positions_are_those_of_both():
    rng = np.random.default_rng(0)
    for _ in range(300):
        pair = [range(a, a + n * step, step) for a, n, step in rng.integers((0, 1, 1), (20, 9, 7), (2, 3)).tolist()]
        want = np.intersect1d(*map(list, pair))
        assert np.array_equal(positions(common(*pair)), want)
        assert np.array_equal(positions(common(pair[0], np.array(pair[1]))), want)


def test_reads_of_pieces_are_counted_by_chunk():
    rng = np.random.default_rng(0)
    for _ in range(300):
        kept = np.sort(rng.choice(60, rng.integers(1, 20), replace=False))
        axis = tidy(kept) if rng.integers(2) else range(*(rng.integers((0, 30, 1), (9, 60, 9)).tolist()))
        lengths = counts(axis, (7,) * 9)
        for n in (1, 3, 10):
            want = sum(len({at // n for at in positions(some).tolist()}) for some in in_chunks(axis, lengths))
            assert pieces_read((axis,), (lengths,), (n,)) == want
