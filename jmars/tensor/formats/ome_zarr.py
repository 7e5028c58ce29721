"""OME-Zarr images: groups of Zarr arrays, the levels of a pyramid, by zarr (extra `microscopy`).

Levels are Zarr arrays, read and written as in zarr_arrays.py: all levels in one job, so that the image is computed
once. The group's metadata come last; readers find no image before all levels are whole.
Source: https://ngff.openmicroscopy.org/0.4/ and https://ngff.openmicroscopy.org/0.5/.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from jmars.errors import StorageError
from jmars.tensor.files import regular_size
from jmars.tensor.formats.common import pyramid
from jmars.tensor.formats.zarr_groups import new_group, open_group
from jmars.tensor.protocols import call, offers
from jmars.tensor.splits import ChunkSize
from jmars.tensor.tensor import Tensor, as_tensor
from jmars.tensor.zarr_arrays import write_zarr

COARSEST_AXIS = 512  # rows and columns of the coarsest level, by default
TYPES = {"t": "time", "c": "channel"}  # of axes; all others are of space


@offers("from_ome_zarr")
def from_ome_zarr(url: Any, level: int = 0, image: int = 0, component: str | None = None, chunk_size: ChunkSize = None,
                  *, chunks: ChunkSize = None, storage_options: Mapping[str, Any] | None = None) -> Tensor:  # fmt: skip
    """Read a level of an OME-Zarr image lazily, of metadata 0.1 to 0.5: workers read the pieces that they need.

    Parameters
    ----------
    url, storage_options
        Store of the image; see `from_zarr`.
    level
        Level of the pyramid; 0 is the largest.
    image
        Number of the image in the group's list `multiscales`.
    component
        Path of the group in the store, such as "labels/nuclei", or "A/1/0" of a plate.
    chunk_size, chunks
        Chunk sizes; by default whole pieces, up to the default chunk size.

    Raises
    ------
    ImportError
        If zarr is not installed.
    FileNotFoundError, IndexError
        If the group, the image or the level does not exist.
    StorageError
        For a group without the metadata of an image, or whose metadata name an array that is missing.
    """
    group = open_group(url, component, storage_options)
    images = _ome(group).get("multiscales")
    try:
        levels = [[one["path"] for one in found["datasets"]] for found in images]
    except (TypeError, LookupError) as error:
        raise StorageError(f"{group.store_path} has no metadata of an OME-Zarr image; it has {[*group]}") from error
    if not 0 <= image < len(levels):
        raise IndexError(f"{group.store_path} has {len(levels)} images; there is no image {image}")
    if not 0 <= level < len(levels[image]):
        raise IndexError(f"{group.store_path} has {len(levels[image])} levels; there is no level {level}")
    try:
        array = group[levels[image][level]]
    except KeyError as error:
        raise StorageError(f"{group.store_path} is damaged: level {levels[image][level]} is missing") from error
    found: Tensor = call("from_zarr", array, None, chunk_size, chunks=chunks)
    return found


def _ome(group: Any) -> Any:
    """The metadata: of version 0.5 and later in an entry."""
    return group.attrs.asdict().get("ome", group.attrs.asdict())


@offers("to_ome_zarr")
def to_ome_zarr(x: Any, url: Any, axes: str | None = None, *, levels: int | None = None,
                scale: Sequence[float] | None = None, units: Sequence[str | None] | None = None, name: str = "image",
                version: Literal["0.4", "0.5"] = "0.5", metadata: Mapping[str, Any] | None = None,
                overwrite: bool = False, storage_options: Mapping[str, Any] | None = None,
                **options: Any) -> None:  # fmt: skip
    """Compute a tensor and write an OME-Zarr image with a pyramid, from the workers.

    Parameters
    ----------
    x
        A tensor or array; its chunks become pieces, unless `options` say otherwise.
    url, storage_options
        Path, URL or store of the new group; see `to_zarr`.
    axes
        A letter for each axis; by default the last of "tczyx".
    levels
        Levels of the pyramid: each further one has half the rows and columns (y, x), as means. By default until both
        are at most 512.
    scale, units
        Size of an element along each axis, and its unit, such as "micrometer"; by default 1 and none.
    name
        Name of the image in the metadata.
    version
        Version of the metadata: "0.5" is Zarr 3, "0.4" is Zarr 2.
    metadata
        Further metadata, such as `{"omero": {"channels": [...]}}`.
    overwrite
        Whether to replace an existing group: in a folder when the new one is complete, in an object store before.
    **options
        Options of `zarr.create_array` for all levels: `chunks=(1, 256, 256)`, `shards=...`, `compressors=...`.

    Raises
    ------
    ImportError
        If zarr is not installed.
    FileExistsError
        If the group exists, unless `overwrite`.
    UnsupportedError
        For stores that only this process can write.
    ValueError
        If `x` is computed from an array of the group.
    """
    tensor: Tensor = as_tensor(x)
    letters = "tczyx"[-tensor.ndim :] if axes is None else axes
    _check(tensor, letters, version, scale, units)
    plane = [letters.index("y"), letters.index("x")]
    if levels is None:
        levels = 1 + max(0, *((max(tensor.shape[axis] - 1, 0) // COARSEST_AXIS).bit_length() for axis in plane))
    size = options.pop("chunks", None) or regular_size(tensor.chunks)
    if min(levels, *size) < 1:
        raise ValueError(f"levels={levels} and chunks={size}; give numbers from 1 on")
    images = pyramid(tensor, levels, plane)
    old = version == "0.4"
    own = {"chunk_key_encoding": {"name": "v2", "separator": "/"}} if old else {"dimension_names": [*letters]}
    named = [
        {"name": letter, "type": TYPES.get(letter, "space")} | ({"unit": unit} if unit else {})
        for letter, unit in zip(letters, units or [None] * tensor.ndim)
    ]
    steps = [float(step) for step in scale or [1] * tensor.ndim]
    datasets = [{"path": str(k), "coordinateTransformations": _places(steps, plane, k)} for k in range(levels)]
    image: dict[str, Any] = {"name": name, "axes": named, "datasets": datasets} | ({"version": "0.4"} if old else {})
    found = {**(metadata or {}), "multiscales": [image]}
    with new_group([tensor], url, overwrite, 2 if old else 3, storage_options) as group:
        arrays = []
        for number, one in enumerate(images):
            pieces = tuple(max(1, min(n, length)) for n, length in zip(size, one.shape))
            given = {"shape": one.shape, "dtype": one.dtype, "chunks": pieces, **own, **options}
            arrays.append(group.create_array(str(number), **given))
        write_zarr([(one, array, (0,) * one.ndim) for one, array in zip(images, arrays)])
        group.attrs.update(found if old else {"ome": {"version": "0.5", **found}})


def _check(tensor: Tensor, letters: str, version: str, scale: Any, units: Any) -> None:
    if len(letters) != tensor.ndim or len(set(letters)) != tensor.ndim or not {"y", "x"} <= {*letters}:
        raise ValueError(f"axes={letters!r} does not name {tensor.ndim} axes, y and x among them")
    if version not in ("0.4", "0.5"):
        raise ValueError(f"version is '0.4' or '0.5', not {version!r}")
    for entries in (scale, units):
        if entries is not None and len(entries) != tensor.ndim:
            raise ValueError(f"{entries} has {len(entries)} entries; give one for each of {tensor.ndim} axes")


def _places(steps: Sequence[float], plane: Sequence[int], level: int) -> list[dict[str, Any]]:
    """Where the elements of a level lie: the centre of 2 x 2 elements is between their centres."""
    by = [2**level if axis in plane else 1 for axis in range(len(steps))]
    found: list[dict[str, Any]] = [{"type": "scale", "scale": [step * n for step, n in zip(steps, by)]}]
    shift = [step * (n - 1) / 2 for step, n in zip(steps, by)]
    return [*found, {"type": "translation", "translation": shift}] if level else found
