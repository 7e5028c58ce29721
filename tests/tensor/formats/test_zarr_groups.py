"""Zarr groups, and arrays behind references: attributes, consolidated metadata, written whole or not at all."""

import json

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import UnsupportedError

zarr = pytest.importorskip("zarr")

FIELD = np.random.default_rng(1).normal(280, 10, (12, 20, 30)).astype("f4")


@pytest.mark.parametrize("version", [2, 3])
def test_groups_go_there_and_back(cluster, tmp_path, version):
    x = mt.asarray(FIELD, chunk_size=(5, 7, 30))
    arrays = {"t2m": x, "anomaly": x - x.mean(axis=0), "quality/flags": np.arange(12)}
    facts = {"attributes": {"title": "air"}, "array_attributes": {"t2m": {"units": "K"}}}
    mt.to_zarr_group(arrays, tmp_path / "a", zarr_format=version, **facts)
    group = zarr.open_group(tmp_path / "a", mode="r", use_consolidated=True)
    assert group.attrs["title"] == "air" and group["t2m"].attrs["units"] == "K" and group["t2m"].chunks == (5, 7, 30)
    assert group.metadata.zarr_format == version and group.metadata.consolidated_metadata.metadata.keys() >= {"t2m"}
    found = mt.from_zarr_group(tmp_path / "a")
    assert set(found) == set(arrays) and len(found) == 3 and found.attrs == {"title": "air"}
    assert found.attributes("t2m") == {"units": "K"} and "with" in repr(found)
    np.testing.assert_array_equal(found["t2m"][::5, 3, ::-4], FIELD[::5, 3, ::-4])
    np.testing.assert_array_equal(found["anomaly"], arrays["anomaly"])
    np.testing.assert_array_equal(mt.from_zarr_group(tmp_path / "a", "quality")["flags"], np.arange(12))
    with pytest.raises(KeyError, match="has no array u; it has"):
        found["u"]
    for place in (tmp_path / "a", group):
        for component, has in (
            (None, "anomaly.*quality"),
            ("quality", "/quality has flags;"),
            ("u", "anomaly.*quality"),
            ("quality/u", "/quality has flags;"),
            ("quality/u/v", "/quality has flags;"),
        ):
            with pytest.raises(FileNotFoundError, match=f"no Zarr array at /{component or ''} in .*{has}"):
                mt.from_zarr(place, component)
    with pytest.raises(FileExistsError):
        mt.to_zarr_group(arrays, tmp_path / "a")
    mt.to_zarr_group({"z": FIELD}, tmp_path / "a", overwrite=True, consolidated=False)
    assert [*mt.from_zarr_group(tmp_path / "a")] == ["z"]
    with pytest.raises(zarr.errors.ContainsGroupError):
        mt.to_zarr(FIELD, zarr.open_group(tmp_path / "a"))
    with pytest.raises(FileExistsError):
        mt.to_zarr_group(arrays, zarr.open_group(tmp_path / "a"))
    mt.to_zarr_group({"w": FIELD}, zarr.open_group(tmp_path / "a"), overwrite=True)
    assert [*mt.from_zarr_group(tmp_path / "a")] == ["w"]
    read = [zarr.open_group(tmp_path / "a", mode="r"), zarr.storage.LocalStore(tmp_path / "a", read_only=True)]
    for place in read:
        with pytest.raises(ValueError, match="open for reading only"):
            mt.to_zarr_group(arrays, place, overwrite=True)
    with pytest.raises(ValueError, match="open for reading only"):
        mt.to_zarr(FIELD, read[0], "w", overwrite=True)
    with pytest.raises(ValueError, match="2 or 3"):
        mt.to_zarr_group(arrays, tmp_path / "a", overwrite=True, zarr_format=7)
    assert [*mt.from_zarr_group(tmp_path / "a")] == ["w"]
    for given in ({}, {"zarr_format": 5 - version}):
        place = zarr.open_group(tmp_path / "v", mode="w", zarr_format=version)
        mt.to_zarr_group(arrays, place, overwrite=True, **given)
        assert zarr.open_group(tmp_path / "v").metadata.zarr_format == given.get("zarr_format", version)
    with pytest.raises(ValueError, match="names y"):
        mt.to_zarr_group({"z": FIELD}, tmp_path / "b", array_attributes={"y": {}})


@pytest.mark.parametrize("make", [str, zarr.open_group, lambda place: zarr.open_group(place)["a"]])
def test_options_of_urls_are_refused_elsewhere(tmp_path, make):
    zarr.open_group(tmp_path / "s", mode="w")["a"] = np.ones(3)
    place, options = make(tmp_path / "s"), {"storage_options": {"anon": True}}
    for call in (
        lambda: mt.from_zarr(place, **options),
        lambda: mt.to_zarr(np.ones(3), place, **options),
        lambda: mt.from_zarr_group(place, **options),
        lambda: mt.to_zarr_group({"a": np.ones(3)}, place, **options),
    ):
        with pytest.raises(ValueError, match="storage_options are for a URL"):
            call()


def test_a_group_that_was_not_written_whole_is_not_there(cluster, tmp_path):
    def fail(block):
        raise ZeroDivisionError("on purpose")

    broken = mt.asarray(FIELD, chunk_size=10).map_blocks(fail, dtype="f4")
    with pytest.raises(ZeroDivisionError):
        mt.to_zarr_group({"a": FIELD, "b": broken}, tmp_path / "a")
    with pytest.raises(FileNotFoundError):
        mt.from_zarr_group(tmp_path / "a")
    with pytest.raises(TypeError):
        mt.to_zarr_group({"a": FIELD}, tmp_path / "a", no_option=1)
    assert not [*tmp_path.iterdir()]
    mt.to_zarr_group({"a": FIELD}, tmp_path / "a", consolidated=False)
    with pytest.raises(UnsupportedError, match="workers cannot write to a MemoryStore"):
        mt.to_zarr_group({"a": FIELD}, zarr.storage.MemoryStore())


WRITERS = {
    "group": lambda x, place, **options: mt.to_zarr_group({"0": x}, place, **options),
    "image": lambda x, place, **options: mt.to_ome_zarr(x, place, **options),
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=[*WRITERS])
def test_a_group_is_not_written_over_its_source_nor_lost_by_an_error(cluster, tmp_path, write):
    def fail(block):
        np.testing.assert_array_equal(zarr.open_array(tmp_path / "a/0"), FIELD)  # readers find the old group
        raise ZeroDivisionError("on purpose")

    write(mt.asarray(FIELD, chunk_size=10), tmp_path / "a")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    x = mt.from_zarr_group(tmp_path / "a")["0"] * 2
    for place in ("a", "link", "../" + tmp_path.name):
        with pytest.raises(ValueError, match="the data are computed from"):
            write(x, tmp_path / place, overwrite=True)
    with pytest.raises(ZeroDivisionError):
        write(mt.asarray(FIELD).map_blocks(fail, dtype="f4"), tmp_path / "a", overwrite=True)
    with pytest.raises(FileExistsError):
        write(FIELD, tmp_path / "a")
    np.testing.assert_array_equal(mt.from_zarr(tmp_path / "a", "0"), FIELD)
    write(x.execute(), tmp_path / "link", overwrite=True)
    np.testing.assert_array_equal(mt.from_zarr(tmp_path / "a", "0"), FIELD * 2)
    assert (tmp_path / "link").is_symlink() and sorted(one.name for one in tmp_path.iterdir()) == ["a", "link"]
    (tmp_path / "file").write_text("text")
    with pytest.raises(FileExistsError):
        write(FIELD, tmp_path / "file", overwrite=True)
    assert (tmp_path / "file").read_text() == "text"


@pytest.mark.parametrize("write", WRITERS.values(), ids=[*WRITERS])
def test_a_group_in_memory_is_refused_before_it_is_removed(cluster, write):
    store = zarr.storage.MemoryStore()
    zarr.create_array(store, name="0", data=FIELD)
    with pytest.raises(UnsupportedError, match="workers cannot write to a MemoryStore"):
        write(FIELD, store, overwrite=True)
    np.testing.assert_array_equal(zarr.open_array(store, path="0"), FIELD)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_arrays_behind_references_are_read(cluster, tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("t", data=FIELD, chunks=(4, 20, 30))
        places = [data.id.get_chunk_info(k) for k in range(3)]
    meta = {"zarr_format": 2, "shape": FIELD.shape, "chunks": (4, 20, 30), "dtype": "<f4", "order": "C"}
    meta |= {"compressor": None, "filters": None, "fill_value": 0}
    refs = {".zgroup": json.dumps({"zarr_format": 2}), "t/.zarray": json.dumps(meta)}
    refs |= {f"t/{k}.0.0": [f"{tmp_path}/a.h5", one.byte_offset, one.size] for k, one in enumerate(places)}
    (tmp_path / "a.json").write_text(json.dumps({"version": 1, "refs": refs}))
    x = mt.from_zarr("reference://", "t", storage_options={"fo": str(tmp_path / "a.json")})
    np.testing.assert_array_equal(x, FIELD)
    np.testing.assert_array_equal(x[3:9, ::5, 2], FIELD[3:9, ::5, 2])
    found = mt.from_zarr_group("reference://", storage_options={"fo": str(tmp_path / "a.json")})
    assert [*found] == ["t"] and found["t"].shape == FIELD.shape


def test_an_array_that_cannot_be_reached_is_not_said_to_be_missing(tmp_path):
    zarr.open_group(tmp_path, mode="w").create_array("a", data=np.arange(3))

    class Lost(zarr.storage.LocalStore):
        asked = 0

        async def get(self, key, *args, **kwargs):
            Lost.asked += 1
            if Lost.asked == 1:
                raise ConnectionError("the network is down") from OSError("no route")
            return await super().get(key, *args, **kwargs)

    with pytest.raises(ConnectionError, match="down") as found:
        mt.from_zarr(Lost(tmp_path), "a")
    assert "no route" in str(found.value.__cause__)


def test_errors_say_what_is_there_in_place_of_a_group(cluster, tmp_path):
    mt.to_zarr(mt.ones(3), tmp_path / "a")
    with pytest.raises(FileNotFoundError, match=r"no Zarr group at / in .*, but an array: open the array by from_zarr"):
        mt.from_zarr_group(tmp_path / "a")
    with pytest.raises(TypeError, match="arrays is a list; give a dict from paths to tensors"):
        mt.to_zarr_group([mt.ones(3)], tmp_path / "b")
