"""Packed variables of Zarr stores are read as they are stored, and decoded by fused functions of tensors."""

from __future__ import annotations

import numpy as np
import pytest

import jmars
from jmars.optimize.passes import compile_graph
from jmars.tensor.tensor_graph import TensorGraph

xr = pytest.importorskip("xarray", reason="xarray is not installed (extra jmars[xarray])")
zarr = pytest.importorskip("zarr", reason="zarr is not installed (extra jmars[io])")

DTYPES = [np.dtype(one) for one in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")]
PACKINGS = {  # attributes in the file; "edge" and "other edge" are the least and greatest integer, -inf and NaN
    "plain": {},
    "scale": {"scale_factor": 0.1},
    "scale_in_a_list": {"scale_factor": [0.01]},
    "whole_scale": {"scale_factor": 3},
    "huge_scale": {"scale_factor": -1e300},
    "offset": {"add_offset": 273.15},
    "whole_offset": {"add_offset": 2**60},
    "both": {"scale_factor": 0.1, "add_offset": -0.0},
    "both_whole": {"scale_factor": -2, "add_offset": 7},
    "fill": {"_FillValue": 99},
    "fill_of_edge": {"_FillValue": "edge"},
    "missing": {"missing_value": 1},
    "missing_in_no_element": {"missing_value": -9999.5},
    "fill_of_nan": {"_FillValue": "other edge", "scale_factor": 0.5},
    "missing_text": {"missing_value": "none"},
    "unsigned": {"_Unsigned": "true", "scale_factor": 0.5},
    "signed": {"_Unsigned": "false", "missing_value": 1},
    "several": {"missing_value": [0, 5, 99.0], "_FillValue": "edge"},
    "fill_and_scale": {"scale_factor": 1e-3, "_FillValue": "edge"},
    "fill_and_both_whole": {"scale_factor": 5, "add_offset": -2, "_FillValue": 0},
    "all": {"scale_factor": 0.1, "add_offset": 273.15, "missing_value": 1, "_FillValue": 99},
}
CUTS = {
    "whole": lambda d: d,
    "rows": lambda d: d.isel(x=slice(1, None, 2)),
    "row": lambda d: d.isel(x=3),
    "labels": lambda d: d.assign_coords(x=np.arange(7) * 2).sel(x=slice(4, 9)),
    "list": lambda d: d.isel(y=[0, -1, 2]),
    "turned": lambda d: d.transpose("y", "x"),
}


@pytest.fixture(scope="module")
def cluster():
    with jmars.Cluster(n_workers=2) as here:
        yield here


@pytest.fixture(scope="module", autouse=True)
def stores(tmp_path_factory):
    """Stores of both formats with a variable of each dtype in each packing."""
    folder = tmp_path_factory.mktemp("stores")
    for zarr_format in (2, 3):
        xr.Dataset().to_zarr(folder / str(zarr_format), consolidated=False, zarr_format=zarr_format)
        group = zarr.open_group(folder / str(zarr_format), mode="r+")
        for kind in DTYPES:
            for name, packing in PACKINGS.items():
                _write(group, f"{kind}_{name}", kind, dict(packing), zarr_format)
    yield folder
    zarr.core.sync.cleanup_resources()


def _write(group, name, kind, packing, zarr_format):
    is_float = kind.kind == "f"
    edges = [-np.inf, np.nan, -0.0] if is_float else [np.iinfo(kind).min, np.iinfo(kind).max]
    some = np.random.default_rng(0)
    values = np.concatenate([np.array([*edges, 0, 1, 99], kind), some.integers(0, 100, 77).astype(kind)])[:77]
    fill = packing.pop("_FillValue", None)
    fill = {"edge": edges[0], "other edge": edges[1]}.get(fill, fill)
    if zarr_format == 2:
        how, more = {"fill_value": fill, "compressors": None}, {"_ARRAY_DIMENSIONS": ["x", "y"]}
    else:
        coded = None if fill is None else xr.backends.zarr.FillValueCoder.encode(kind.type(fill), kind)
        how, more = {"dimension_names": ("x", "y")}, {} if coded is None else {"_FillValue": coded}
    array = group.create_array(name, shape=(7, 11), chunks=(2, 4), dtype=kind, attributes=packing | more, **how)
    array[...] = some.permutation(values).reshape(7, 11)


def _programs(variable):
    return compile_graph(TensorGraph.of([variable.data.data]), {}).after.programs


@pytest.mark.filterwarnings("ignore::xarray.SerializationWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize("zarr_format, cut", [(2, "whole"), *((3, cut) for cut in CUTS)])
def test_packed_variables_have_xarrays_bits(cluster, stores, zarr_format, cut):
    for masks in (True, False) if cut == "whole" else (True,):
        how = {"consolidated": False, "mask_and_scale": masks}
        here = CUTS[cut](xr.open_zarr(stores / str(zarr_format), chunks=None, **how))
        wanted = CUTS[cut](xr.open_zarr(stores / str(zarr_format), chunks=None, **how)).compute()
        cut_later = CUTS[cut](xr.open_zarr(stores / str(zarr_format), chunked_array_type="jmars", **how))
        for lazy in (cut_later, here.chunk(y=5, chunked_array_type="jmars")):
            found = lazy.compute()
            for name, one in wanted.items():
                assert (found[name].dtype, found[name].shape) == (one.dtype, one.shape), name
                bits = [x.values.astype(float) if x.dtype == object else x.values for x in (found[name], one)]
                assert bits[0].tobytes() == bits[1].tobytes(), name


@pytest.mark.filterwarnings("ignore::xarray.SerializationWarning")
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_packed_variable_is_read_and_decoded_by_one_operand(stores, zarr_format):
    data = xr.open_zarr(stores / str(zarr_format), chunked_array_type="jmars", consolidated=False)
    for name, variable in data.items():
        if variable.dtype != object and not name.endswith(("text", "signed")):
            assert all(one.name.startswith("from_zarr") for one in _programs(variable)), name
    program, *_ = _programs(data.int32_all)
    assert program.name == "from_zarr+astype+equal+equal+logical_or+where+multiply+add"


def test_a_packed_variable_is_not_written_over_its_source(cluster, tmp_path):
    packing = {"v": {"dtype": "i2", "scale_factor": 0.5, "_FillValue": -1}}
    xr.Dataset({"v": ("x", np.arange(8.0))}).to_zarr(tmp_path / "a", consolidated=False, encoding=packing)
    data = xr.open_zarr(tmp_path / "a", chunked_array_type="jmars", consolidated=False)
    with pytest.raises(ValueError, match=r"the data are computed from .*a/v; write to another place"):
        (data * 2).to_zarr(tmp_path / "a", mode="w", consolidated=False)


def test_a_scale_of_text_is_an_error_when_it_is_used(cluster, tmp_path):
    data = xr.Dataset({"v": ("x", np.ones(8, "f4"), {"scale_factor": "0.1"})})
    data.to_zarr(tmp_path / "a", consolidated=False)
    data = xr.open_zarr(tmp_path / "a", chunked_array_type="jmars", consolidated=False)
    with pytest.raises(TypeError, match="multiply"):
        data.compute()
