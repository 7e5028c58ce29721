"""Zarr groups: several arrays with attributes and consolidated metadata, by zarr (extra `io`).

Arrays are written in one job, each whole or not there (whole_zarr.py); attributes and consolidated metadata come last.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from jmars.errors import UnsupportedError
from jmars.tensor.atomic_file import atomic_folder, claimed
from jmars.tensor.files import regular_size
from jmars.tensor.protocols import call, offers
from jmars.tensor.tensor import Tensor, as_tensor
from jmars.tensor.whole_zarr import node_folder, replaced_group
from jmars.tensor.zarr_arrays import (
    opens_on_workers,
    refuse_own_source,
    store_place,
    write_zarr,
    zarr_library,
    zarr_store,
)


class ZarrGroup(Mapping[str, Tensor]):
    """Mapping from paths to the arrays of a Zarr group, also of those in groups below; arrays are opened on access."""

    def __init__(self, group: Any) -> None:
        zarr = zarr_library()
        self._group, self.attrs = group, group.attrs.asdict()
        self._arrays = {name: one for name, one in group.members(max_depth=None) if isinstance(one, zarr.Array)}

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._arrays:
            raise KeyError(f"{self._group.store_path} has no array {name}; it has {', '.join(self._arrays)}")
        found: Tensor = call("from_zarr", self._arrays[name])
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def attributes(self, name: str) -> dict[str, Any]:
        """Attributes of an array."""
        return dict(self._arrays[name].attrs.asdict())

    def __repr__(self) -> str:
        return f"ZarrGroup({str(self._group.store_path)!r}) with {', '.join(self._arrays)}"


def open_group(url: Any, component: str | None, options: Mapping[str, Any] | None) -> Any:
    """The Zarr group at a place, to be read, by consolidated metadata where there are some."""
    zarr, store = zarr_library(), zarr_store(url, options)
    if isinstance(url, zarr.Group):
        return url[component] if component else url
    given = dict(options) if options else None
    try:
        return zarr.open_group(store, path=component, mode="r", storage_options=given)
    except zarr.errors.ContainsArrayError:
        what = f"there is no Zarr group at /{component or ''} in {url}, but an array: open the array by from_zarr"
        raise FileNotFoundError(what) from None


@contextmanager
def new_group(tensors: Iterable[Tensor], url: Any, overwrite: bool, version: Literal[2, 3] | None,
              options: Mapping[str, Any] | None) -> Iterator[Any]:  # fmt: skip
    """Make a Zarr group for tensors; in a folder it appears when complete, elsewhere it is removed after an error."""
    zarr = zarr_library()
    if version is None:
        version = url.metadata.zarr_format if isinstance(url, zarr.Group) else 3
    if version not in (2, 3):
        raise ValueError(f"zarr_format is 2 or 3, not {version!r}")
    for one in tensors:
        refuse_own_source(one, url, None, options)
    place = store_place(url, None, options)
    if not opens_on_workers(place):
        raise UnsupportedError(
            f"workers cannot write to a {type(place.store).__name__} in memory or of a session; give a folder, a URL, "
            "or the store of a fork of the session"
        )
    if (folder := node_folder(place)) is None:
        with replaced_group(place, "over" if overwrite else "new") as mode:
            group = zarr.open_group(place, mode=mode, zarr_format=version)
            try:
                yield group
            except BaseException:
                if mode != "a":
                    zarr.core.sync.sync(group.store.delete_dir(group.path))
                raise
        return
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with claimed(folder):
        if not overwrite and os.path.isdir(folder) and os.listdir(folder):
            raise FileExistsError(f"{folder} has files; give overwrite=True to replace them, or another place")
        with atomic_folder(folder, overwrite, "zarr.json" if version == 3 else ".zgroup") as part:
            yield zarr.open_group(part, mode="w-", zarr_format=version)


@offers("from_zarr_group")
def from_zarr_group(url: Any, component: str | None = None, *,
                    storage_options: Mapping[str, Any] | None = None) -> ZarrGroup:  # fmt: skip
    """Open a Zarr group: a mapping from paths to lazy arrays, with `attrs` and `attributes(name)`.

    Parameters
    ----------
    url, component, storage_options
        Store and path of the group; see `from_zarr`.

    Raises
    ------
    ImportError
        If zarr is not installed.
    FileNotFoundError
        If the group does not exist.
    """
    return ZarrGroup(open_group(url, component, storage_options))


@offers("to_zarr_group")
def to_zarr_group(arrays: Mapping[str, Any], url: Any, *, attributes: Mapping[str, Any] | None = None,
                  array_attributes: Mapping[str, Mapping[str, Any]] | None = None, overwrite: bool = False,
                  zarr_format: Literal[2, 3] | None = None, consolidated: bool = True,
                  storage_options: Mapping[str, Any] | None = None, **options: Any) -> None:  # fmt: skip
    """Compute tensors and write them to a new Zarr group, in one job, from the workers; after an error there is none.

    Parameters
    ----------
    arrays
        Tensors or arrays by path in the group, such as "t2m" or "quality/flags".
    url, storage_options
        Path, URL or store of the group, or a `zarr.Group`; see `to_zarr`.
    attributes, array_attributes
        Attributes of the group, and of arrays by path.
    overwrite
        Whether to replace an existing group: in a folder when the new one is complete, in an object store before.
    zarr_format, consolidated
        Version of the format, by default that of a `zarr.Group`, else 3; and whether to write consolidated metadata, so
        that a reader opens the group by one request.
    **options
        Options of `zarr.create_array` for all arrays: `chunks=...`, `compressors=...`.

    Raises
    ------
    ImportError
        If zarr is not installed.
    FileExistsError
        If the place has files or objects, unless `overwrite`.
    StorageError
        If another process writes to the place.
    UnsupportedError
        For stores that only this process can write.
    ValueError
        If an array is computed from one in the group, or the store or `zarr.Group` is open for reading only.
    """
    zarr, further = zarr_library(), array_attributes or {}
    if not isinstance(arrays, Mapping):
        raise TypeError(f"arrays is a {type(arrays).__name__}; give a dict from paths to tensors")
    if unknown := further.keys() - arrays.keys():
        raise ValueError(f"array_attributes names {', '.join(sorted(unknown))}, which are no arrays of the group")
    tensors: dict[str, Tensor] = {name: as_tensor(one) for name, one in arrays.items()}
    with new_group(tensors.values(), url, overwrite, zarr_format, storage_options) as group:
        parts = []
        for name, tensor in tensors.items():
            if "/" in name:
                group.require_group(name.rpartition("/")[0])
            own = {
                "chunks": regular_size(tensor.chunks) if tensor.ndim else (),
                "attributes": dict(further.get(name, {})),
            }
            made = group.create_array(name, shape=tensor.shape, dtype=tensor.dtype, **own | options)
            parts.append((tensor, made, (0,) * tensor.ndim))
        write_zarr(parts)
        group.attrs.update(attributes or {})
        if consolidated:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Consolidated metadata is currently not part")  # of Zarr 3
                zarr.consolidate_metadata(group.store, path=group.path or None)
