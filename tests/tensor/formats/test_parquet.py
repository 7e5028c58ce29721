"""Parquet and Arrow: equal to what pandas, polars and pyarrow read and write, lazily, and whole or not there."""

import os

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import StorageError, UnsupportedError
from jmars.tensor.formats import parquet
from jmars.tensor.ma import MaskedTensor

pa = pytest.importorskip("pyarrow", reason="Parquet needs the extra arrow")
pq = pytest.importorskip("pyarrow.parquet")
pd = pytest.importorskip("pandas")

N = 1000
RNG = np.random.default_rng(0)
NUMBERS = {
    "i8": RNG.integers(-9, 9, N).astype("i1"),
    "u64": RNG.integers(0, 2**64 - 1, N, dtype=np.uint64),
    "f2": RNG.random(N).astype("f2"),
    "f4": RNG.random(N).astype("f4"),
    "f8": np.where(RNG.random(N) < 0.1, np.nan, RNG.random(N)),
    "b": RNG.random(N) < 0.5,
    "day": np.datetime64("1969-12-01", "D") + np.arange(N),
    "us": np.datetime64("2020-01-01", "us") + np.arange(N) * 7_000_001,
    "ns": np.where(RNG.random(N) < 0.1, np.datetime64("NaT", "ns"), np.datetime64("2020-01-01", "ns") + np.arange(N)),
    "s": np.arange(N).astype("m8[s]"),
}
HOLES = RNG.random(N) < 0.2


@pytest.fixture(scope="module")
def pl(request, tmp_path_factory):
    """Polars, whose threads and descriptors last as long as the process."""
    polars = pytest.importorskip("polars", reason="polars is not installed (extra jmars[test])")
    polars.DataFrame({"x": [1]}).write_parquet(path := tmp_path_factory.mktemp("polars") / "a.parquet")
    polars.read_parquet(str(path.parent))
    if (check := request.config.pluginmanager.get_plugin("jmars-leak-check")) is not None:
        check.accept()
    return polars


def _same(found, wanted):
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", NUMBERS)
def test_a_column_goes_there_and_back(cluster, tmp_path, name):
    x = mt.asarray(NUMBERS[name], chunk_size=300)
    mt.to_parquet({"x": x}, tmp_path / "a", row_group_size=70)
    assert sorted(os.listdir(tmp_path / "a")) == [f"part-{k}.parquet" for k in range(4)]
    assert os.listdir(tmp_path) == ["a"]
    theirs = pq.read_table(tmp_path / "a")["x"]
    assert theirs.null_count == (np.isnat(NUMBERS[name]).sum() if NUMBERS[name].dtype.kind in "mM" else 0)
    found = mt.from_parquet(tmp_path / "a")
    assert list(found) == ["x"] and isinstance(found["x"], mt.Tensor)
    _same(found["x"].fetch(), NUMBERS[name])


def test_big_endian_and_lists_of_a_fixed_length(cluster, tmp_path):
    rows = RNG.random((N, 5)).astype(">f4")
    mt.to_parquet({"v": mt.asarray(rows, chunk_size=(400, 2)), "k": np.arange(N)}, tmp_path / "a")
    theirs = pq.read_table(tmp_path / "a")
    np.testing.assert_array_equal(np.stack(theirs["v"].to_pandas()), rows)
    found = mt.from_parquet(tmp_path / "a", chunk_size=300)
    assert found["v"].chunks == ((300, 300, 300, 100), (5,)) and found["k"].chunks == ((300, 300, 300, 100),)
    _same(found["v"][100:900:7, 3].fetch(), rows[100:900:7, 3].astype("f4"))


@pytest.mark.parametrize("dtype", ["i4", "u1", "?"])
def test_lists_of_integers_are_tensors(cluster, tmp_path, dtype):
    rows = RNG.integers(0, 2, (9, 3)).astype(dtype)
    mt.to_parquet({"v": mt.asarray(rows, chunk_size=(4, 3))}, tmp_path / "a")
    found = mt.from_parquet(tmp_path / "a")["v"]
    assert type(found) is mt.Tensor
    _same(found.fetch(), rows)
    _same(mt.from_arrow(pq.read_table(tmp_path / "a"))["v"].fetch(), rows)


@pytest.mark.parametrize("place", ["{}/a.parquet", "file://{}/a.parquet", "file://{}"])
def test_a_file_that_changes_is_told_also_after_a_read(cluster, tmp_path, place):
    pq.write_table(pa.table({"x": np.arange(N)}), tmp_path / "a.parquet", compression="none")
    x = mt.from_parquet(place.format(tmp_path))["x"]
    assert x[:2].fetch().tolist() == [0, 1]
    pq.write_table(pa.table({"x": np.arange(N) + 1}), tmp_path / "b.parquet", compression="none")
    os.utime(tmp_path / "b.parquet", (0, 0))
    os.replace(tmp_path / "b.parquet", tmp_path / "a.parquet")
    with pytest.raises(StorageError, match="has changed since it was loaded"):
        (x * 2)[:2].fetch()
    assert mt.from_parquet(place.format(tmp_path))["x"][:2].fetch().tolist() == [1, 2]


def test_masked_arrays_without_a_mask_are_written(cluster, tmp_path):
    mt.to_parquet({"x": np.ma.array([1, 2, 3])}, tmp_path / "a")
    assert pq.read_table(tmp_path / "a")["x"].to_pylist() == [1, 2, 3]


def test_missing_integers_and_bools_are_masked_and_come_back(cluster, tmp_path):
    masked = np.ma.array(np.arange(N) + 2**60, mask=HOLES)
    mt.to_parquet(
        {"i": mt.ma.array(masked, chunk_size=300), "b": np.ma.array(NUMBERS["b"], mask=HOLES)}, tmp_path / "a"
    )
    assert pq.read_table(tmp_path / "a")["i"].null_count == HOLES.sum()
    found = mt.from_parquet(tmp_path / "a")
    for name, wanted in (("i", masked), ("b", np.ma.array(NUMBERS["b"], mask=HOLES))):
        assert isinstance(found[name], MaskedTensor)
        back = found[name].fetch()
        np.testing.assert_array_equal(back.mask, HOLES)
        np.testing.assert_array_equal(back.compressed(), wanted.compressed())
    assert int(found["i"].count()) == N - HOLES.sum()


def test_the_rule_of_missing_elements_follows_the_statistics(cluster, tmp_path):
    pq.write_table(pa.table({"i": [1, 2, 3]}), tmp_path / "without.parquet", write_statistics=False)
    pq.write_table(pa.table({"i": [1, 2, 3]}), tmp_path / "with.parquet")
    assert isinstance(mt.from_parquet(tmp_path / "with.parquet")["i"], mt.Tensor)
    unknown = mt.from_parquet(tmp_path / "without.parquet")["i"]  # nobody knows before the column is read
    assert isinstance(unknown, MaskedTensor) and unknown.fetch().tolist() == [1, 2, 3]
    sure = pa.schema([pa.field("i", pa.int64(), nullable=False)])
    pq.write_table(pa.table({"i": [1, 2, 3]}, sure), tmp_path / "sure.parquet", write_statistics=False)
    assert isinstance(mt.from_parquet(tmp_path / "sure.parquet")["i"], mt.Tensor)


def _frame():
    return pd.DataFrame(NUMBERS | {"text": ["a"] * N, "n": pd.Series(np.arange(N), dtype="Int16").mask(HOLES)})


def test_files_of_pandas_are_read(cluster, tmp_path):
    frame = _frame()
    frame.to_parquet(tmp_path / "a.parquet", row_group_size=130)
    with pytest.raises(UnsupportedError, match=r"not the columns text .*a\.parquet; give columns=\['i8', 'u64'"):
        mt.from_parquet(tmp_path / "a.parquet")
    found = mt.from_parquet(tmp_path / "a.parquet", [*NUMBERS, "n"])
    for name, wanted in NUMBERS.items():
        np.testing.assert_array_equal(found[name].fetch(), frame[name].to_numpy())
        assert found[name].dtype.kind == wanted.dtype.kind
    np.testing.assert_array_equal(found["n"].fetch().mask, HOLES)
    assert found["f4"].chunks == ((N,),)
    assert mt.from_parquet(tmp_path / "a.parquet", ["f4"], 100)["f4"].chunks == ((100,) * 10,)


def test_files_of_polars_are_read_and_it_reads_ours(cluster, tmp_path, pl):
    frame = pl.DataFrame({"a": [1, None, 3], "b": [0.5, None, float("nan")], "c": [True, False, True]})
    frame.write_parquet(tmp_path / "p.parquet", compression="zstd")
    for found in (mt.from_parquet(tmp_path / "p.parquet"), mt.from_arrow(frame)):
        assert found["a"].fetch().tolist() == [1, None, 3] and found["c"].fetch().tolist() == [True, False, True]
        np.testing.assert_array_equal(found["b"].fetch(), [0.5, np.nan, np.nan])
    mt.to_parquet({name: mt.asarray(x, chunk_size=300) for name, x in NUMBERS.items() if name != "f2"}, tmp_path / "a")
    theirs = pl.read_parquet(str(tmp_path / "a"))
    for name in theirs.columns:
        np.testing.assert_array_equal(theirs[name].to_numpy(), NUMBERS[name].astype(theirs[name].to_numpy().dtype))


def test_row_groups_that_a_selection_touches_are_read_and_only_its_column(tmp_path, monkeypatch):
    pq.write_table(pa.table({"x": np.arange(N), "y": np.arange(N) * 2.0}), tmp_path / "a.parquet", row_group_size=100)
    readers, read, real = [], [], pq.ParquetFile.read_row_group
    monkeypatch.setattr(parquet, "from_blocks", lambda reader, *args, **how: readers.append(reader))
    mt.from_parquet(tmp_path / "a.parquet", ["y"])

    def note(self, group, columns, **how):
        read.append((group, columns))
        return real(self, group, columns, **how)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", note)
    np.testing.assert_array_equal(readers[0]((slice(150, 310),)), np.arange(150, 310) * 2.0)
    assert read == [(1, ["y"]), (2, ["y"]), (3, ["y"])]


@pytest.mark.parametrize("seed", range(6))
def test_drawn_files_and_slices_are_those_of_numpy(cluster, tmp_path, seed):
    rng = np.random.default_rng(seed)
    name = [*NUMBERS][rng.integers(len(NUMBERS))]
    n = int(rng.integers(0, N))
    x, mask = NUMBERS[name][:n], HOLES[:n]
    for k, cut in enumerate(np.split(np.arange(n), np.sort(rng.integers(0, n + 1, 11)))):
        one = pa.table({"x": pa.array(x[cut], mask=mask[cut] if seed % 2 else None)})
        pq.write_table(one, tmp_path / f"part.{k}.parquet", row_group_size=int(rng.integers(1, 200)))
    found = mt.from_parquet(tmp_path, chunk_size=int(rng.integers(1, 300)) if rng.random() < 0.5 else None)["x"]
    if seed % 2:
        kind = x.dtype.kind
        x = (
            np.ma.array(x, mask=mask)
            if kind in "iub"
            else np.where(mask, np.array("NaT" if kind in "mM" else np.nan, x.dtype), x)
        )
    for _ in range(6):
        low, high = (int(v) for v in rng.integers(-n - 2, n + 3, 2))
        index = slice(low, high, int(rng.choice([-3, -1, 1, 2, 7])))
        got, wanted = found[index].fetch(), x[index]
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(np.ma.getmaskarray(got), np.ma.getmaskarray(wanted))
        np.testing.assert_array_equal(np.ma.filled(got, 0), np.ma.filled(wanted, 0))


def test_folders_patterns_lists_and_urls(cluster, tmp_path):
    folder = tmp_path / "rides"
    folder.mkdir()
    for k in (0, 2, 10):  # as Dask names them
        pq.write_table(pa.table({"x": [k, k + 1]}), folder / f"part.{k}.parquet")
    (folder / "_SUCCESS").touch()
    wanted = [0, 1, 2, 3, 10, 11]
    places = [folder, f"{folder}/*.parquet", [folder / f"part.{k}.parquet" for k in (0, 2, 10)], f"file://{folder}"]
    for place in places:
        assert mt.from_parquet(place)["x"].fetch().tolist() == wanted
    assert mt.from_parquet(f"file://{folder}/part.2.parquet", "x")["x"].fetch().tolist() == [2, 3]
    with pytest.raises(FileNotFoundError):
        mt.from_parquet(tmp_path / "none.parquet")
    with pytest.raises(FileNotFoundError, match="no Parquet file"):
        mt.from_parquet(f"{tmp_path}/*.none")
    with pytest.raises(KeyError, match=r"has no column y; it has x"):
        mt.from_parquet(folder, ["y"])
    pq.write_table(pa.table({"x": [0.5]}), folder / "part.11.parquet")
    with pytest.raises(StorageError, match=r"x is int64 in .*part\.0\.parquet and not in .*part\.11\.parquet"):
        mt.from_parquet(folder)
    pq.write_to_dataset(pa.table({"x": [1], "year": [2024]}), tmp_path / "by", partition_cols=["year"])
    with pytest.raises(UnsupportedError, match="partitions"):
        mt.from_parquet(tmp_path / "by")


def test_one_name_is_a_column_and_others_are_told(cluster, tmp_path):
    mt.to_parquet({"km": np.arange(3), "hours": np.ones(3)}, tmp_path / "a")
    assert (
        [*mt.from_parquet(tmp_path / "a", "km")]
        == [*mt.from_arrow(pa.table({"km": [1], "hours": [2]}), "km")]
        == ["km"]
    )
    for columns in ("h", ["km", "h"]):
        with pytest.raises(KeyError, match=r"part-0\.parquet has no column h; it has km, hours"):
            mt.from_parquet(tmp_path / "a", columns)
        with pytest.raises(KeyError, match="the table has no column h; it has km"):
            mt.from_arrow(pa.table({"km": [1]}), columns)


@pytest.mark.parametrize("column", [pa.array([1, None]), pa.chunked_array([[1], [None]]), 5])
def test_a_column_without_a_name_is_told_of_names(column):
    with pytest.raises(TypeError, match=r"give a table, a data frame, or columns by name, \{'a': x\}"):
        mt.from_arrow(column)


def test_a_table_of_text_alone_is_told_of_no_columns():
    with pytest.raises(UnsupportedError, match=r"the columns a \(string\) of the table; read them by pandas or polars"):
        mt.from_arrow(pa.table({"a": ["x"]}))


def test_damaged_files_are_told(cluster, tmp_path):
    path = tmp_path / "a.parquet"
    mt.to_parquet({"x": np.arange(N)}, tmp_path / "a", use_dictionary=False, compression="none")
    whole = (tmp_path / "a" / "part-0.parquet").read_bytes()
    for data in (b"", whole[: N // 2], whole[:-3], b"PAR1 and nothing else"):
        path.write_bytes(data)
        with pytest.raises(StorageError, match=r"a\.parquet cannot be read as Parquet"):
            mt.from_parquet(path)
    path.write_bytes(whole[:2000] + bytes([whole[2000] ^ 1]) + whole[2001:])  # a bit of a page
    with pytest.raises(StorageError, match=r"a\.parquet cannot be read as Parquet.*CRC"):
        mt.from_parquet(path)["x"].fetch()
    path.write_bytes(whole)
    x = mt.from_parquet(path)["x"]
    path.write_bytes(whole[:4] + whole)
    with pytest.raises(StorageError, match=r"a\.parquet has changed"):
        x.fetch()


def fail(block):
    raise ZeroDivisionError("on purpose")


def test_a_folder_is_whole_or_not_there(cluster, tmp_path):
    x = mt.asarray(np.arange(N), chunk_size=300)
    with pytest.raises(ZeroDivisionError):
        mt.to_parquet({"x": x.map_blocks(fail, dtype=x.dtype)}, tmp_path / "a")
    assert os.listdir(tmp_path) == []
    mt.to_parquet({"x": x}, tmp_path / "a")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        mt.to_parquet({"x": x}, tmp_path / "a")
    with pytest.raises(ZeroDivisionError):
        mt.to_parquet({"x": x.map_blocks(fail, dtype=x.dtype)}, tmp_path / "a", overwrite=True)
    own = mt.from_parquet(tmp_path / "a")["x"]
    mt.to_parquet({"x": own * 2}, tmp_path / "a", overwrite=True)  # its own source
    assert mt.from_parquet(tmp_path / "a")["x"].fetch().tolist() == [*range(0, 2 * N, 2)]
    assert os.listdir(tmp_path) == ["a"]
    (tmp_path / "a" / "notes.txt").touch()
    with pytest.raises(FileExistsError, match=r"other files, such as notes\.txt"):
        mt.to_parquet({"x": x}, tmp_path / "a", overwrite=True)


def test_what_no_table_holds_is_refused_before_the_run(tmp_path):
    for columns, error, match in (
        ({"a": np.ones(3), "b": np.ones(4)}, ValueError, r"one length, and not \[3, 4\]"),
        ({}, ValueError, "at least one column"),
        ({"a": np.ones(3, complex)}, UnsupportedError, "no dtype complex128"),
        ({"a": np.ones((2, 2, 2))}, UnsupportedError, "not 3"),
        ({"a": 5}, UnsupportedError, "not 0"),
        (np.ones(3), TypeError, "by name.*not as ndarray"),
        ({7: np.ones(3)}, TypeError, "names of columns are text, and not 7"),
    ):
        with pytest.raises(error, match=match):
            mt.to_parquet(columns, tmp_path / "a")
    with pytest.raises(UnsupportedError, match="written by path"):
        mt.to_parquet({"a": np.ones(3)}, "s3://bucket/a")
    assert os.listdir(tmp_path) == []


def test_no_rows(cluster, tmp_path):
    mt.to_parquet({"x": np.empty(0, "f4"), "v": np.empty((0, 3))}, tmp_path / "a")
    found = mt.from_parquet(tmp_path / "a")
    assert (found["x"].dtype, found["x"].shape, found["v"].shape) == ("f4", (0,), (0, 3))
    pq.write_table(pa.table({"x": pa.array([], pa.int32())}), tmp_path / "b.parquet")
    assert mt.from_parquet(tmp_path / "b.parquet")["x"].fetch().dtype == "i4"


def test_tables_of_arrow_become_tensors(cluster):
    table = pa.table(
        {
            "i": pa.chunked_array([[1, None], [3]]),
            "t": pa.array([1, None, 3], pa.timestamp("s", "Europe/Berlin")),
            "c": pa.array([7, 8, 7]).dictionary_encode(),
            "v": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(6.0)), 2),
            "text": ["a", "b", "c"],
        }
    )
    found = mt.from_arrow(table, ["i", "t", "c", "v"], chunk_size=2)
    assert found["i"].fetch().tolist() == [1, None, 3] and found["i"].chunks == ((2, 1),)
    _same(found["t"].fetch(), np.array([1, "NaT", 3], "M8[s]"))  # UTC
    assert found["c"].fetch().tolist() == [7, 8, 7] and found["v"].chunks == ((2, 1), (2,))
    assert mt.from_arrow(table.slice(1), ["v"])["v"].fetch().tolist() == [[2, 3], [4, 5]]
    with pytest.raises(UnsupportedError, match=r"text \(string\) of the table"):
        mt.from_arrow(table)
    holes = pa.table({"v": pa.array([[1.0, 2.0], None], pa.list_(pa.float64(), 2))})
    with pytest.raises(UnsupportedError, match="v of lists has missing elements"):
        mt.from_arrow(holes)
    assert [*mt.from_arrow(pd.DataFrame({"a": [1, 2]}))] == ["a"]


def test_arrow_and_pandas_take_tensors(cluster):
    x = mt.asarray(np.arange(6.0), chunk_size=4)
    masked = mt.ma.masked_greater(mt.asarray(np.arange(6), chunk_size=4), 3)
    table = pa.table({"x": x, "m": masked, "v": x.reshape(3, 2).repeat(2, axis=0)})
    assert table["x"].to_pylist() == [*range(6)] and table["m"].to_pylist() == [0, 1, 2, 3, None, None]
    assert table["v"].to_pylist()[5] == [4, 5]
    assert pd.DataFrame({"x": x * 2})["x"].tolist() == [*range(0, 12, 2)]
    with pytest.raises(UnsupportedError, match=r"pandas would ignore the mask.*x\.fetch\(\)"):
        pd.Series(masked)
    assert pd.Series(masked.fetch()).isna().tolist() == [False] * 4 + [True] * 2


def test_polars_takes_tensors(cluster, pl):
    x = mt.asarray(np.arange(6.0), chunk_size=4)
    masked = mt.ma.masked_greater(mt.asarray(np.arange(6), chunk_size=4), 3)
    assert pl.DataFrame({"x": x, "m": masked})["m"].to_list() == [0, 1, 2, 3, None, None]
    assert pl.Series(x).to_list() == [*range(6)]


def test_arrow_of_a_large_tensor_warns_as_numpy_does(cluster):
    from jmars.config import config

    with config.using(array_warning=2**10), pytest.warns(UserWarning, match=r"7\.8 KiB are brought"):
        pa.array(mt.zeros(1000))


@pytest.mark.parametrize("x", [mt.arange(4, chunk_size=3), mt.ma.masked_equal(mt.arange(4, chunk_size=3), 1)])
def test_a_mask_beside_a_tensor_is_refused_by_pyarrow(x):
    with pytest.raises(ValueError, match="Cannot specify a mask"):
        pa.array(x, mask=np.arange(4) > 2)
    assert pa.array(x, type=pa.float32()).type == pa.float32()
    assert pa.array(x).null_count == pa.table({"a": x})["a"].null_count == hasattr(x, "mask")
