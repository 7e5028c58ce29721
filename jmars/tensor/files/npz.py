"""`.npz` archives: their arrays one by one, lazily, without reading what is not asked for.

`np.savez` stores .npy files side by side in one file, so an array of it is an .npy file that begins later. What
`np.savez_compressed` packed is one stream that cannot be entered in the middle; it is refused with what to do.
"""

from __future__ import annotations

import os
import struct
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

from jmars.errors import UnsupportedError
from jmars.tensor.atomic_file import atomic_file
from jmars.tensor.ops.io.npy import create_npy, fill, load_at
from jmars.tensor.protocols import offers
from jmars.tensor.splits import ChunkSize
from jmars.tensor.tensor import Tensor, as_tensor

__all__ = ["Archive", "load_npz", "savez", "savez_compressed"]

_LOCAL = struct.Struct("<4s5H3I2H")  # a member's own header; lengths of its name and of what is extra come last


class Archive(Mapping[str, Tensor]):
    """The arrays of an .npz file by name; each is made when it is asked for.

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
            raise KeyError(f"{name} is not in {self._path}; there are {', '.join(self.files)}")
        if member.compress_type != zipfile.ZIP_STORED:
            raise UnsupportedError(
                f"{name} of {self._path} is compressed, so its chunks cannot be read one by one; save it with "
                "np.savez, or load it with NumPy and give the array"
            )
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
        """As NumPy's archives have it; nothing is kept open here, and arrays that were asked for stay."""

    def __repr__(self) -> str:
        return f"Archive({self._path!r}) with {', '.join(self.files)}"


@offers("savez")
def savez(file: Any, *args: Any, allow_pickle: bool = False, **kwds: Any) -> None:
    """`np.savez`: computes tensors and writes them into one .npz file, which appears when it is complete.

    The workers write each array to a file of its own beside it; these are then packed here, block by block.

    Parameters
    ----------
    file
        A path that all workers can write beside; ".npz" is put behind it where it is missing.
    *args, **kwds
        Tensors or arrays; those without a name are called arr_0, arr_1, and so on.
    """
    _pack("savez", file, args, kwds, zipfile.ZIP_STORED)


@offers("savez_compressed")
def savez_compressed(file: Any, *args: Any, allow_pickle: bool = False, **kwds: Any) -> None:
    """`np.savez_compressed`: as `savez`, packed tightly; its arrays cannot be read chunk by chunk afterwards."""
    _pack("savez_compressed", file, args, kwds, zipfile.ZIP_DEFLATED)


def _pack(name: str, file: Any, args: tuple[Any, ...], kwds: dict[str, Any], how: int) -> None:
    if not isinstance(file, str | os.PathLike):
        raise UnsupportedError(f"np.{name} writes by path in jmars, so that workers can write too; give the path")
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
    """The arrays of an .npz file by name, lazily; `np.load` gives the same."""
    return Archive(path, chunk_size, chunks)
