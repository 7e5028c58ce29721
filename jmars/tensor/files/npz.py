"""`.npz` archives: reads arrays lazily, chunk by chunk, and writes archives.

`np.savez` stores .npy files uncompressed, so a chunk of an array is read at its offset in the archive. Arrays of
`np.savez_compressed` cannot be read from the middle: this process reads them whole, up to `config.array_limit` bytes;
larger arrays raise UnsupportedError.
"""

from __future__ import annotations

import math
import os
import struct
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from jmars.errors import UnsupportedError
from jmars.tensor.atomic_file import atomic_file
from jmars.tensor.from_array import array_limit
from jmars.tensor.numpy_modules import as_values
from jmars.tensor.ops.io.npy import create_npy, fill, load_at, read_header
from jmars.tensor.protocols import offers
from jmars.tensor.splits import ChunkSize
from jmars.tensor.tensor import Tensor, as_tensor
from jmars.units import format_bytes

__all__ = ["Archive", "load_npz", "savez", "savez_compressed"]

_LOCAL = struct.Struct("<4s5H3I2H")  # local header of a member; the lengths of its name and extra field come last


class Archive(Mapping[str, Tensor]):
    """Mapping from names to the arrays of an .npz file; arrays are opened on access.

    Examples
    --------
    >>> import tempfile, numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/a.npz", x=np.arange(4), y=np.ones(2))
    ...     found = Archive(f"{folder}/a.npz")
    ...     list(found), found["x"].sum().fetch().item()
    (['x', 'y'], 6)
    """

    def __init__(self, path: str, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> None:
        self._path, self._cut = path, {"chunk_size": chunk_size, "chunks": chunks}
        with zipfile.ZipFile(path) as archive:
            self._members = {
                one.filename.removesuffix(".npy"): one for one in archive.infolist() if one.filename.endswith(".npy")
            }
        self.files = list(self._members)

    def __getitem__(self, name: str) -> Tensor:
        member = self._members.get(name) or self._members.get(name.removesuffix(".npy"))
        if member is None:
            raise KeyError(f"{name} is not in {self._path}; it has {', '.join(self.files)}")
        if member.compress_type != zipfile.ZIP_STORED:
            return as_tensor(_decompressed(self._path, member), **self._cut)
        with open(self._path, "rb") as file:
            file.seek(member.header_offset)
            *_, name_length, extra_length = _LOCAL.unpack(file.read(_LOCAL.size))
        return load_at(self._path, member.header_offset + _LOCAL.size + name_length + extra_length, **self._cut)

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing, since no file is kept open; exists for NumPy's interface. Arrays stay usable."""

    def __repr__(self) -> str:
        return f"Archive({self._path!r}) with {', '.join(self.files)}"


def _decompressed(path: str, member: zipfile.ZipInfo) -> np.ndarray[Any, Any]:
    """Reads a compressed member whole; raises UnsupportedError beyond `array_limit()` bytes."""
    with zipfile.ZipFile(path) as archive:
        with archive.open(member) as stream:
            shape, _, dtype = read_header(stream, path)
        size, limit = math.prod(map(int, shape)) * dtype.itemsize, array_limit()
        if size > limit:
            raise UnsupportedError(
                f"{member.filename} of {path} is compressed, so it is read whole by this process, and its "
                f"{format_bytes(size)} are more than {format_bytes(limit)}; save it by np.savez, and workers read its "
                "chunks one by one, or set jmars.config.array_limit"
            )
        with archive.open(member) as stream:
            found: np.ndarray[Any, Any] = np.lib.format.read_array(stream, allow_pickle=False)
    return found


@offers("savez")
def savez(file: Any, *args: Any, allow_pickle: bool = False, **kwds: Any) -> None:
    """`np.savez`: compute tensors and write them to an .npz file, which appears when it is complete.

    The workers write each array to a temporary file; this process packs the files, block by block.

    Parameters
    ----------
    file
        A path in a folder that all workers can write to; ".npz" is appended if missing.
    *args, **kwds
        Tensors or arrays; unnamed arrays are called arr_0, arr_1, and so on.
    """
    _pack("savez", file, args, kwds, zipfile.ZIP_STORED)


@offers("savez_compressed")
def savez_compressed(file: Any, *args: Any, allow_pickle: bool = False, **kwds: Any) -> None:
    """`np.savez_compressed`: as `savez`, compressed, so that the arrays are read whole, not chunk by chunk."""
    _pack("savez_compressed", file, args, kwds, zipfile.ZIP_DEFLATED)


def _pack(name: str, file: Any, args: tuple[Any, ...], kwds: dict[str, Any], how: int) -> None:
    if not isinstance(file, str | os.PathLike):
        getattr(np, name)(file, *as_values(args), **as_values(kwds))  # from this process
        return
    path = os.path.abspath(os.fspath(file))
    path = path if path.endswith(".npz") else f"{path}.npz"
    arrays = dict(kwds)
    for i, one in enumerate(args):
        if f"arr_{i}" in arrays:
            raise ValueError(f"Cannot use un-named variables and keyword arr_{i}")
        arrays[f"arr_{i}"] = one
    with atomic_file(path) as packed, zipfile.ZipFile(packed, "w", how) as archive:
        for key, one in arrays.items():
            with atomic_file(path, keep=False) as member:
                x = as_tensor(one)
                fill(x, create_npy(x, member))
                archive.write(member, f"{key}.npy")


@offers("load_npz")
def load_npz(path: str, *, chunk_size: ChunkSize = None, chunks: ChunkSize = None) -> Archive:
    """Open an .npz file as a lazy mapping from names to arrays; `np.load` does the same."""
    return Archive(path, chunk_size, chunks)
