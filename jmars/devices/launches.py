"""Sizes launches of the loops of `kernels.cuda_text`, and keeps the machine code of GPU kernels between processes.

Arrays lie in C's order; an input of a map may be broadcast.

Machine code is kept in a folder of the user, so that the next process need not compile. A folder that cannot be read or
written costs a compilation in each process, no operand; the log says why.
"""

from __future__ import annotations

import logging
import math
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from jmars.config import cache_dir
from jmars.errors import ClusterError

BLOCKS = 4096  # blocks of a reduction that keep a GPU busy
THREADS = 256  # of a block of a reduction
MIN_PART_ELEMENTS = 8  # elements of a part for a thread
Shape = tuple[int, ...]


class Broadcast(NamedTuple):
    """Strides of the inputs of a map.

    Attributes
    ----------
    flat
        For each input, whether the input has as many elements as the output.
    lengths
        Lengths of the dimensions, merged where all inputs allow; empty if all inputs are flat.
    strides
        For each input, elements between neighbours in each dimension.
    """

    flat: tuple[bool, ...]
    lengths: Shape
    strides: tuple[Shape, ...]


def broadcast(shape: Shape, shapes: Sequence[Shape]) -> Broadcast:
    """Strides of inputs of these shapes for a map of shape `shape`.

    Examples
    --------
    >>> broadcast((2, 3, 4), [(2, 3, 4), (3, 4), (2, 1, 1)])
    Broadcast(flat=(True, False, False), lengths=(2, 12), strides=((12, 1), (0, 1), (1, 0)))
    """
    flat = tuple(math.prod(one) == math.prod(shape) for one in shapes)
    if all(flat):
        return Broadcast(flat, (), ((),) * len(shapes))
    all_strides = [_strides(shape, one) for one in shapes]
    lengths, strides = list[int](), list[list[int]]()  # the last dimension first
    for axis in reversed(range(len(shape))):
        if shape[axis] == 1:
            continue
        here = [one[axis] for one in all_strides]
        if lengths and all(now == before * lengths[-1] for now, before in zip(here, strides[-1], strict=True)):
            lengths[-1] *= shape[axis]
        else:
            lengths.append(shape[axis])
            strides.append(here)
    return Broadcast(flat, tuple(reversed(lengths)), tuple(zip(*reversed(strides))))


def _strides(shape: Shape, own: Shape) -> Shape:
    """Strides of an array of shape `own`, broadcast to `shape`: 0 along broadcast dimensions."""
    own = (1,) * (len(shape) - len(own)) + own
    return tuple(0 if length == 1 else math.prod(own[axis + 1 :]) for axis, length in enumerate(own))


class ReductionLaunch(NamedTuple):
    """A launch: (rows, depth, width) to (rows, parts, width), each part of at most `part` along the depth."""

    rows: int
    depth: int
    width: int
    part: int
    block: tuple[int, int]  # threads along the width and the depth

    @property
    def parts(self) -> int:
        """Parts of the depth."""
        return -(-self.depth // self.part)

    @property
    def size(self) -> int:
        """Elements of the output."""
        return self.rows * self.parts * self.width

    @property
    def blocks(self) -> int:
        """Blocks of the launch."""
        return self.rows * self.parts * -(-self.width // self.block[0])


def reductions(shape: Shape, axes: Sequence[int]) -> list[ReductionLaunch]:
    """The launches of a reduction along axes; each launch reads the output of the launch before.

    Examples
    --------
    >>> [(one.rows, one.depth, one.width, one.parts) for one in reductions((10**6, 100), (0,))]
    [(1, 1000000, 100, 1024), (1, 1024, 100, 1)]
    >>> [(one.rows, one.depth, one.width, one.parts) for one in reductions((8, 500, 9), (0, 2))]
    [(4000, 9, 1, 1), (1, 8, 500, 1)]
    """
    found, lengths = list[ReductionLaunch](), list(shape)
    reduced = [axis in axes for axis in range(len(shape))]
    stop = len(shape)
    while stop:
        start = stop - 1
        while start and reduced[start - 1] == reduced[start]:
            start -= 1
        depth = math.prod(lengths[start:stop])
        if reduced[start] and depth > 1:
            found += _of_one_run(math.prod(lengths[:start]), depth, math.prod(lengths[stop:]))
        if reduced[start]:
            lengths[start:stop] = [1] * (stop - start)
        stop = start
    return found or [_launch(1, 1, math.prod(shape), 1)]


def _of_one_run(rows: int, depth: int, width: int) -> list[ReductionLaunch]:
    whole = _launch(rows, depth, width, depth)
    parts = min(-(-BLOCKS // whole.blocks), depth // (whole.block[1] * MIN_PART_ELEMENTS))
    if parts < 2:
        return [whole]
    first = _launch(rows, depth, width, -(-depth // parts))
    return [first, _launch(rows, first.parts, width, first.parts)]


def _launch(rows: int, depth: int, width: int, part: int) -> ReductionLaunch:
    across = min(32, THREADS, 1 << (width - 1).bit_length())
    along = min(THREADS // across, 1 << (part - 1).bit_length())
    return ReductionLaunch(rows, depth, width, part, (across, along))


log = logging.getLogger("jmars.worker")

LIMIT = 256 * 2**20  # bytes of all files: some ten thousand kernels


def find_kernel(name: str) -> bytes | None:
    """The machine code kept under `name`, which counts as used now; None if there is none.

    Examples
    --------
    >>> keep_kernel("0123456789abcdef", b"machine code")
    >>> find_kernel("0123456789abcdef"), find_kernel("fedcba9876543210")
    (b'machine code', None)
    """
    try:
        path = _folder() / name
        code = path.read_bytes()
        os.utime(path)
    except FileNotFoundError:
        return None
    except (OSError, ClusterError) as error:
        _warn(error)
        return None
    return code


def keep_kernel(name: str, code: bytes) -> None:
    """Writes machine code, mode 0600; removes the files that were not used for longest beyond LIMIT bytes in all."""
    try:
        folder = _folder()
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            try:
                file.write(code)
                file.flush()
                os.replace(file.name, folder / name)
            except OSError:
                os.unlink(file.name)
                raise
        _remove_oldest(folder)
    except (OSError, ClusterError) as error:
        _warn(error)


def _folder() -> Path:
    folder = cache_dir() / "gpu-kernels"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _remove_oldest(folder: Path) -> None:
    files = []
    for entry in os.scandir(folder):
        try:
            status = entry.stat()
        except FileNotFoundError:  # removed by another process
            continue
        files.append((status.st_mtime_ns, status.st_size, entry.path))
    beyond = sum(size for _, size, _ in files) - LIMIT
    for _, size, path in sorted(files):
        if beyond <= 0:
            break
        Path(path).unlink(missing_ok=True)
        beyond -= size


def _warn(error: Exception) -> None:
    log.warning("kernels of GPUs are compiled anew in each process: %s", error)
