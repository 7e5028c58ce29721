"""Zarr arrays, versions 2 and 3 of the format, by the `zarr` library; the workers read and write the pieces.

The client opens or makes the array, which travels to the workers pickled, with its store: a folder, fsspec, obstore,
Icechunk. Arrays of objects are refused, so that nothing from the file is unpickled.
"""

from __future__ import annotations

import importlib.util
import io
import math
import os
import pickle
import socket
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from importlib import import_module
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np

from jmars.errors import StorageError, UnsupportedError
from jmars.tensor.engine import current_engine, get_engine
from jmars.tensor.files import aligned_splits, block_writes, moved, regular_size, whole_pieces
from jmars.tensor.operand import Splits, TensorData, check_dtype
from jmars.tensor.ops.chunks import rechunk
from jmars.tensor.ops.map_blocks import unpickled
from jmars.tensor.ops.npy import FromBlocks, from_blocks
from jmars.tensor.protocols import offers
from jmars.tensor.remote_files import is_url
from jmars.tensor.splits import ChunkSize, chunk_bytes
from jmars.tensor.tensor import Tensor, as_tensor
from jmars.tensor.whole_zarr import How, all_at_once, placed, whole_arrays, whole_folder

REQUESTS = 64  # of an object store under way at once
SHARED_STORES = {"LocalStore", "FsspecStore", "ObjectStore", "IcechunkStore"}  # that several processes can write


def zarr_library() -> Any:
    """Import `zarr`; the ImportError names the extra to install."""
    try:
        import zarr
    except ImportError as error:
        raise ImportError("Zarr arrays need the package zarr: pip install 'jmars[io]'") from error
    return zarr


def is_shared(store: Any) -> bool:
    """Whether other processes can open a Zarr store: all but those in the memory of this process."""
    if hasattr(store, "fs") and "memory" in np.ravel(_file_system(store).protocol):
        return False
    return "Memory" not in type(store).__name__ and "Memory" not in type(getattr(store, "store", None)).__name__


def _file_system(store: Any) -> Any:
    """The file system of fsspec below layers."""
    below = store.fs
    while (inner := getattr(below, "fs", None) or getattr(below, "sync_fs", None)) is not None:
        below = inner
    return below


def zarr_store(place: Any, options: Any = None) -> Any:
    """What zarr opens for a path, a URL, a store of zarr or obstore, or a session of Icechunk; refuses idle options."""
    if options and not is_url(place):
        what = "a path" if isinstance(place, str | os.PathLike) else type(place).__name__
        raise ValueError(f"storage_options are for a URL and of no use with {what}; leave them out")
    if isinstance(place, str | os.PathLike):
        text = os.fspath(place)
        return text if "://" in text else os.path.abspath(text)
    library = type(place).__module__.split(".")[0]
    if library == "obstore":
        return zarr_library().storage.ObjectStore(place)
    return place.store if library == "icechunk" and hasattr(place, "store") else place


def zarr_folder(array: Any) -> str | None:
    """The folder of a Zarr array, None in other stores; from here on also for workers, which start elsewhere."""
    if not isinstance(root := getattr(array.store, "root", None), Path):
        return None
    array.store.root = root.absolute()
    return os.path.join(str(array.store.root), str(array.path))


class ZarrReader:
    """Reads boxes of a Zarr array, on a worker."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __call__(self, box: tuple[slice, ...]) -> Any:
        """The elements of a box."""
        with many_requests(self.array):
            return self.array[box]

    def into(self, box: tuple[slice, ...], out: Any) -> None:
        """Write the elements of a box to an array."""
        with many_requests(self.array):
            self.array.get_basic_selection(box, out=zarr_library().core.buffer.cpu.NDBuffer(out))


class PieceReader(ZarrReader):
    """A `ZarrReader` that decodes stored pieces straight into the chunk; zarr decodes into new memory."""

    def __init__(self, array: Any, codec: str, checksum: bool) -> None:
        super().__init__(array)
        self.codec, self.checksum = codec, checksum
        # other stores, as one derived from zarr's, may keep other bytes than they give
        self.folder = zarr_folder(array) if type(array.store).__module__.startswith("zarr.storage.") else None

    def __call__(self, box: tuple[slice, ...], begun: Any = None) -> Any:
        """The elements of a box, of which `begin` has read pieces."""
        out = np.empty([len(range(one.start, one.stop, one.step or 1)) for one in box], self.array.dtype)
        self.into(box, out, begun)
        return out

    def begin(self, box: tuple[slice, ...]) -> Any:
        """The first stored pieces of a box, up to `pieces_at_once`, None for a missing piece; elements for steps."""
        if _has_steps(box):
            return super().__call__(box)
        return self._stored(list(islice(self._places(box), pieces_at_once(self.array))))

    def into(self, box: tuple[slice, ...], out: Any, begun: Any = None) -> None:
        """Write the elements of a box to an array; zarr raises the error for a piece that cannot be decoded."""
        if isinstance(begun, np.ndarray):
            out[...] = begun
        elif _has_steps(box) or not self._decode(box, out, {} if begun is None else begun):
            super().into(box, out)

    def _places(self, box: tuple[slice, ...]) -> Iterator[tuple[int, ...]]:
        """Numbers of the pieces with elements of a box, along each axis."""
        return product(*(range(one.start // n, -(-one.stop // n)) for one, n in zip(box, self.array.chunks)))

    def _stored(self, places: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], Any]:
        """Bytes of pieces in the store."""
        from zarr.core.buffer.cpu import buffer_prototype

        array, folder = self.array, self.folder
        names = [array.metadata.encode_chunk_key(place) for place in places]
        if folder is not None:
            return {place: _file_bytes(os.path.join(folder, name)) for place, name in zip(places, names)}
        get, start = array.store.get, f"{array.path}/".lstrip("/")
        found = all_at_once([get(start + name, buffer_prototype) for name in names])
        return {place: None if one is None else one.as_numpy_array() for place, one in zip(places, found)}

    def _decode(self, box: tuple[slice, ...], out: Any, stored: dict[tuple[int, ...], Any]) -> bool:
        """Decode the pieces of a box into an array; returns whether all pieces were decoded."""
        lengths, places = self.array.chunks, self._places(box)
        piece: Any = None  # elements of a piece that is not whole in `out`, or not in one line
        while some := list(islice(places, 1 if self.folder else pieces_at_once(self.array))):
            for place in some:
                starts = [k * n for k, n in zip(place, lengths)]
                held = [slice(max(b.start, k), min(b.stop, k + n)) for b, k, n in zip(box, starts, lengths)]
                part = out[tuple(slice(one.start - b.start, one.stop - b.start) for one, b in zip(held, box))]
                if self._read_rows(place, held[0].start - starts[0], part):
                    continue
                if place not in stored:
                    stored |= self._stored([one for one in some[some.index(place) :] if one not in stored])
                body = stored.pop(place)
                if body is None:
                    part[...] = self.array.fill_value
                elif part.shape == lengths and part.flags.c_contiguous:
                    if not self._fill(part, body):
                        return False
                else:
                    piece = np.empty(lengths, out.dtype) if piece is None else piece
                    if not self._fill(piece, body):
                        return False
                    part[...] = piece[tuple(slice(one.start - k, one.stop - k) for one, k in zip(held, starts))]
        return True

    def _read_rows(self, place: tuple[int, ...], first: int, part: Any) -> bool:
        """Read rows of an uncompressed piece from a file into a contiguous array; returns whether this was done."""
        n, *lengths = self.array.chunks
        is_coded = self.folder is None or self.codec or self.checksum
        if is_coded or [*part.shape[1:]] != lengths or not part.flags.c_contiguous:
            return False
        path = os.path.join(str(self.folder), self.array.metadata.encode_chunk_key(place))
        row_bytes = part.nbytes // len(part)
        try:
            with open(path, "rb", buffering=0) as file:
                file.seek(first * row_bytes)
                is_whole = os.fstat(file.fileno()).st_size == n * row_bytes
                return is_whole and bool(file.readinto(part.data.cast("B")) == part.nbytes)
        except FileNotFoundError:
            return False

    def _fill(self, piece: Any, body: Any) -> bool:
        """Decode a stored piece; returns False if the checksum or the size is wrong, or the codec raises an error."""
        if self.checksum:
            import google_crc32c

            if google_crc32c.value(body[:-4]) != int.from_bytes(body[-4:].tobytes(), "little"):
                return False
            body = body[:-4]
        size, flat = decoded_size(self.codec, body), piece.reshape(-1).view("u1")
        if size not in (flat.nbytes, -1):
            return False
        try:
            if not self.codec:
                flat[:] = body
            elif size == -1:  # numcodecs does not tell how much of an array it fills
                found = np.frombuffer(import_module(f"numcodecs.{self.codec}").decompress(body), "u1")
                flat[:] = found.reshape(flat.shape)
            else:
                import_module(f"numcodecs.{self.codec}").decompress(body, flat)
        except (RuntimeError, ValueError):
            return False
        return True


def _has_steps(box: tuple[slice, ...]) -> bool:
    return any(one.step not in (None, 1) for one in box)


def _file_bytes(path: str) -> Any:
    """The bytes of a file; None if there is no file."""
    try:
        return np.fromfile(path, "u1")
    except FileNotFoundError:
        return None


def zarr_reader(array: Any) -> ZarrReader:
    """A `PieceReader` where pieces are numbers as in memory, plain or compressed by Zstandard or Blosc."""
    dtype, is_third = array.dtype, array.metadata.zarr_format == 3
    grid = type(getattr(array.metadata, "chunk_grid", None)).__name__
    known = dtype.kind in "biufc" and dtype.isnative and array.size and array.ndim and array.fill_value is not None
    if not known or array.filters or array.shards or array.order != "C" or is_third and grid != "RegularChunkGrid":
        return ZarrReader(array)
    if is_third and type(array.serializer).__name__ != "BytesCodec":
        return ZarrReader(array)
    order = array.serializer.endian if is_third else None  # the dtype of version 2 has it
    names = [type(one).__name__.removesuffix("Codec") for one in array.compressors]
    checksum = names[-1:] == ["Crc32c"] and importlib.util.find_spec("google_crc32c") is not None
    codecs = {(): "", ("Zstd",): "zstd", ("Blosc",): "blosc"}
    codec = codecs.get(tuple(names[: len(names) - checksum]))
    if codec is None or order is not None and order.value != sys.byteorder:
        return ZarrReader(array)
    return PieceReader(array, codec, checksum)


def decoded_size(codec: str, body: Any) -> int:
    """Bytes of a decoded piece, by the header of the stored piece; -1 if the header has no size.

    Sources: RFC 8878, 3.1.1.1 (Zstandard); README_CHUNK_FORMAT of c-blosc.
    """
    if not codec:
        return int(body.nbytes)
    head = body[:18].tobytes()
    if codec == "blosc":
        return int.from_bytes(head[4:8], "little") if len(head) >= 16 else -1
    if len(head) < 6 or head[:4] != b"\x28\xb5\x2f\xfd":
        return -1
    is_single, size = head[4] >> 5 & 1, (0, 2, 4, 8)[head[4] >> 6]
    start = 6 - is_single + (0, 1, 2, 4)[head[4] & 3]
    size = size or is_single
    return int.from_bytes(head[start : start + size], "little") + 256 * (size == 2) if size else -1


def many_requests(array: Any) -> AbstractContextManager[Any]:
    """Within, zarr has many requests to an object store under way."""
    if array is None or zarr_folder(array) is not None:
        return nullcontext()
    return zarr_library().config.set({"async.concurrency": pieces_at_once(array)})  # type: ignore[no-any-return]


def pieces_at_once(array: Any) -> int:
    """Pieces that zarr reads at once: in an object store, `REQUESTS`, if the user has not chosen more."""
    usual = int(zarr_library().config.get("async.concurrency"))
    return usual if zarr_folder(array) is not None else max(REQUESTS, usual)


def opens_on_workers(target: Any) -> bool:
    """Whether a target is a Zarr array that several processes can write: in Icechunk only by a fork of the session."""
    store: Any = getattr(target, "store", None)
    if type(target).__module__.split(".")[0] != "zarr" or type(store).__name__ not in SHARED_STORES:
        return False
    return is_shared(store) and not (type(store).__name__ == "IcechunkStore" and not _fork(target))


def _fork(target: Any) -> Any:
    """The forked session of Icechunk that holds what is written to a Zarr array; None in other stores."""
    session = getattr(target.store, "session", None)
    return session if type(session).__name__ == "ForkSession" else None


class ZarrWriter:
    """Writes blocks into a Zarr array from a worker, moved by the first positions of a region."""

    def __init__(self, target: Any, starts: Sequence[int]) -> None:
        self.target, self.starts, self.folder = target, starts, zarr_folder(target)

    def __call__(self, box: tuple[slice, ...], block: Any) -> bytes:
        """Write a block; returns the change set of Icechunk."""
        if self.folder is not None and not os.path.exists(self.folder):
            raise StorageError(
                f"{self.folder} is not on {socket.gethostname()}, where a worker writes; write to a folder or an "
                "object store that all hosts share"
            )
        forked = _fork(self.target) is not None  # a fresh fork has only this block's changes
        target = pickle.loads(pickle.dumps(self.target)) if forked else self.target
        target[moved(box, self.starts)] = block
        return pickle.dumps(_fork(target)) if forked else b""


Write = tuple[Tensor, Any, Sequence[int]]  # source, Zarr array, first positions there


def write_zarr(parts: Sequence[Write]) -> None:
    """Compute tensors and write them into Zarr arrays; arrays that get all their elements are whole or not there."""
    covered = {
        str(target.store_path): target
        for source, target, _ in parts
        if source.shape == target.shape and _fork(target) is None
    }
    with whole_arrays(list(covered.values()), "found"):
        _write(parts)


def _write(parts: Sequence[Write]) -> None:
    """Write in one job, unless pieces are in several parts."""
    parts = [part for part in parts if part[0].size]
    engine = get_engine()
    for job in [parts] * bool(parts) if len(parts) < 2 else _jobs(parts):
        nodes = [_zarr_writes(*part) for part in job]
        engine.execute(nodes)
        for node, (_, target, _) in zip(nodes, job):
            if (fork := _fork(target)) is not None:
                found = engine.fetch(node)
                changes = io.BytesIO(found.tobytes())
                while changes.tell() < found.size:
                    fork.merge(pickle.load(changes))


def _jobs(parts: Sequence[Write]) -> list[list[Write]]:
    """Parts that are written together, in order: a piece is read, changed and written, so a job writes it once."""
    jobs: list[list[Write]] = []
    met: dict[str, list[tuple[int, Write]]] = {}  # by path of the target: number of the job, and part
    for part in parts:
        beside = met.setdefault(part[1].path, [])
        number = max((k for k, one in beside if _share_pieces(part, one)), default=-1) + 1
        beside.append((number, part))
        jobs += [[]] if number == len(jobs) else []
        jobs[number].append(part)
    return jobs


def _share_pieces(one: Write, other: Write) -> bool:
    (_, target, _), (_, array, _) = one, other
    if (target.path, target.store) != (array.path, array.store):
        return False
    pieces = getattr(target, "shards", None) or target.chunks
    (first, end), (low, high) = ([np.array(x), np.array(x) + s.shape] for s, _, x in (one, other))
    return bool(np.all(first // pieces < -(-high // pieces)) and np.all(low // pieces < -(-end // pieces)))


def _zarr_writes(source: Tensor, target: Any, starts: Sequence[int]) -> TensorData:
    """The node that writes a source; each piece of the target lies in a single chunk."""
    pieces = getattr(target, "shards", None) or target.chunks
    if source.ndim != target.ndim or any(k + n > m for k, n, m in zip(starts, source.shape, target.shape)):
        raise ValueError(f"a source of shape {source.shape} does not fit into the Zarr array of shape {target.shape}")
    splits = tuple(whole_pieces(*axis) for axis in zip(source.chunks, pieces, starts))
    most = max(chunk_bytes(), _largest(source.chunks, source.dtype))
    if _largest(splits, source.dtype) > most:  # joined along one axis, cut along the others
        even = aligned_splits(source.shape, source.dtype, pieces, None, None)
        splits = tuple(whole_pieces(*axis) for axis in zip(even, pieces, starts))
    aligned: Tensor = source if splits == source.chunks else rechunk(source, splits)
    return block_writes(aligned, ZarrWriter(target, starts), "to_zarr", _fork(target) is not None)


def _largest(splits: Splits, dtype: np.dtype[Any]) -> int:
    """Bytes of the largest chunk."""
    return int(math.prod(max(axis, default=0) for axis in splits) * dtype.itemsize)


@offers("from_zarr")
def from_zarr(url: Any, component: str | None = None, chunk_size: ChunkSize = None, *, chunks: ChunkSize = None,
              storage_options: Mapping[str, Any] | None = None) -> Tensor:  # fmt: skip
    """Read a Zarr array lazily: workers read the chunks that they need.

    Parameters
    ----------
    url
        Path or URL of a store that all workers can open; a `zarr.Array` or `zarr.Group`; a store of zarr or obstore; a
        session of Icechunk. It must not change while the tensor is used.
    component
        Path of the array within a group.
    chunk_size, chunks
        Chunk sizes; by default whole pieces of the array, up to the default chunk size.
    storage_options
        Options of fsspec for a URL, such as `{"anon": True}`; workers get them with the array.

    Raises
    ------
    ImportError
        If zarr is not installed.
    FileNotFoundError
        If the array does not exist.
    UnsupportedError
        For objects and text, and for stores in memory.
    """
    array = _opened(url, component, storage_options)
    if not is_shared(array.store):
        raise UnsupportedError("the Zarr array lies in the memory of this process; mt.asarray(array[:]) sends it")
    if _fork(array) is None and not getattr(getattr(array.store, "session", None), "read_only", True):
        raise UnsupportedError("workers cannot open a session of Icechunk that writes; commit, give a readonly_session")
    kind, shape = check_dtype(array.dtype), tuple(int(n) for n in array.shape)
    own = getattr(array, "shards", None) or array.chunks
    splits = aligned_splits(shape, kind, own, chunk_size, chunks)
    folder, pieces = zarr_folder(array), [max(1, n) for n in array.chunks]  # axes without elements may have none
    reader = zarr_reader(array)
    decoding = 0 if isinstance(reader, PieceReader) else kind.itemsize
    return from_blocks(
        reader, shape, kind, splits, name="from_zarr", takes="steps", pieces=pieces,
        holds=(kind.itemsize, decoding, pieces_at_once(array)), pure=folder is not None,
        files=[folder] if folder else [], waits=folder is None,
    )  # fmt: skip


def _opened(url: Any, component: str | None, options: Mapping[str, Any] | None) -> Any:
    """The Zarr array at a place, to be read."""
    zarr, store = zarr_library(), zarr_store(url, options)
    if isinstance(url, zarr.Group):
        store, component = url.store, f"{url.path}/{component or ''}".strip("/")
    if isinstance(url, zarr.Array):
        return url
    mode = "r" if getattr(store, "read_only", True) else "r+"  # a fork of Icechunk opened by "r" is none any more
    given = dict(options) if options else None
    try:
        array = zarr.open_array(store, path=component or "", mode=mode, storage_options=given)
    except (FileNotFoundError, ValueError):  # of zarr: nothing is there, or a group
        if (named := _no_array(store, component or "", given)) is None:
            raise
        raise named from None
    zarr_folder(array)  # of the working directory of today
    return array


def _no_array(store: Any, component: str, options: dict[str, Any] | None) -> FileNotFoundError | None:
    """An error that names what a Zarr group has where an array was expected; None if no group is there."""
    zarr, above = zarr_library(), component.split("/")
    for path in ("/".join(above[:n]) for n in range(len(above), -1, -1)):
        with suppress(Exception):  # the caller has the error of the array
            group = zarr.open_group(store, path=path, mode="r", storage_options=options)
            return FileNotFoundError(
                f"there is no Zarr array at /{component} in {store}: the group {group.name} has "
                f"{', '.join(islice(group.keys(), 20)) or 'nothing'}; give the path of an array as component="
            )
    return None


@offers("to_zarr")
def to_zarr(x: Any, url: Any, component: str | None = None, *, overwrite: bool = False, checksum: bool | None = None,
            storage_options: Mapping[str, Any] | None = None, **options: Any) -> None:  # fmt: skip
    """Compute a tensor and write to a Zarr array; the workers write the pieces.

    Readers see the array when it is complete. After an error there is no new array; another run writes all pieces.

    Parameters
    ----------
    x
        A tensor or array. If its chunks are not whole pieces (or shards) of the Zarr array, it is rechunked, so that
        every piece has a single writer.
    url, component, storage_options
        Store and path of the array; see `from_zarr`. A `zarr.Array` of x's shape is written to, in place if it has
        elements: readers may see old and new pieces. The changes of a session of Icechunk are there after the call;
        commit them.
    overwrite
        Whether to replace an existing array: in a folder when the new one is complete, in an object store before.
    checksum
        Whether each piece ends with a checksum, so that a reader finds wrong bytes (codec `crc32c`); by default in
        object stores, unless `compressors` are given.
    **options
        Options of `zarr.create_array`: `zarr_format=2`, `compressors=...`, `fill_value=...`, `attributes=...`; also
        `chunks=...` (by default the tensor's chunks) and `shards=...`.

    Raises
    ------
    ImportError
        If zarr is not installed.
    zarr.errors.ContainsArrayError, ValueError
        If the array exists and `overwrite` is false, `x` is computed from the array, or the place is read-only, and as
        zarr raises them.
    StorageError
        If another process writes to the place.
    UnsupportedError
        For stores that only this process can write.
    """
    zarr, store = zarr_library(), zarr_store(url, storage_options)
    tensor: Tensor = as_tensor(x)
    refuse_own_source(tensor, url, component, storage_options)
    if isinstance(url, zarr.Array):
        if url.shape != tensor.shape:
            raise ValueError(f"x has shape {tensor.shape}, the Zarr array {url.shape}; give an array of equal shape")
        write_zarr([(tensor, _writable(url), (0,) * tensor.ndim)])
        return
    given: dict[str, Any] = {"chunks": regular_size(tensor.chunks) if tensor.ndim else ()} | options
    given |= {"shape": tensor.shape, "dtype": tensor.dtype}
    if isinstance(url, zarr.Group):
        store, component = url.store, f"{url.path}/{component or ''}".strip("/")
        given["zarr_format"] = url.metadata.zarr_format
    session: Any = getattr(store, "session", None)
    if session is not None:
        fork = session.fork() if type(session).__name__ == "Session" else None
        array = zarr.create_array(fork.store if fork else store, name=component, overwrite=overwrite, **given)
        _write([(tensor, _writable(array), (0,) * tensor.ndim)])
        if fork:
            session.merge(fork)
        return
    place = store_place(store, component, storage_options)
    is_local = type(place.store).__name__ == "LocalStore"
    model = zarr.create_array({}, **given)
    if checksum is None:
        checksum = not is_local and "compressors" not in given and model.metadata.zarr_format == 3
    if checksum:
        model = zarr.create_array({}, **given | {"compressors": [*model.compressors, zarr.codecs.Crc32cCodec()]})
    array = _writable(placed(model, place))
    how: How = "over" if overwrite else "new"
    with whole_folder(array, how) if is_local else whole_arrays([array], how) as target:
        _write([(tensor, target or array, (0,) * tensor.ndim)])


def store_place(url: Any, component: str | None, options: Mapping[str, Any] | None) -> Any:
    """The `StorePath` to write to of a path, URL, store or group, and a path there; makes no folder."""
    zarr, store, given = zarr_library(), zarr_store(url, options), dict(options) if options else None
    if isinstance(store, str) and not is_url(store) and not given:
        return zarr.storage.StorePath(zarr.storage.LocalStore(store), component or "")
    if isinstance(store, zarr.Group):
        place = store.store_path / (component or "")
    else:
        place = zarr.core.sync.sync(zarr.storage._common.make_store_path(store, path=component, storage_options=given))
    if place.read_only:
        raise ValueError(f"{place} is open for reading only; open it for writing, mode='r+'")
    return place


def _writable(array: Any) -> Any:
    if not opens_on_workers(array):
        raise UnsupportedError(
            f"only this process can write to a {type(array.store).__name__} that is in memory or is no folder, no "
            "store of fsspec or obstore and no fork of an Icechunk session; give one of these"
        )
    return array


Place = tuple[Any, str]  # file system or store, and the path there; of local folders None, and a path without links


def refuse_own_source(tensor: Tensor, url: Any, component: str | None, options: Mapping[str, Any] | None) -> None:
    """Refuse to write over a Zarr array that a tensor is computed from, whose elements are read during the write."""
    refuse_sources(tensor, [zarr_place(zarr_store(url), component, options)])


def refuse_sources(tensor: Tensor, places: Iterable[Place]) -> None:
    """Refuse to write over Zarr arrays at places, or within, that a tensor is computed from."""
    for read in sources(tensor):
        if not isinstance(read, str):
            where, path = zarr_place(read)
            for system, target in places:
                if where == system and (not target or f"{path}/".startswith(f"{target}/")):
                    raise ValueError(f"the data are computed from {read.store_path}; write to another place")


def sources(tensor: Tensor) -> Iterator[Any]:
    """Zarr arrays, and paths of xarray's files, that the run of a tensor reads."""
    seen, left, engine = set(), [tensor.data], current_engine()
    for node in left:  # grows during the loop
        if node.key in seen or engine is not None and engine.held(node):
            continue
        seen.add(node.key)
        left += node.op.inputs
        if isinstance(node.op, FromBlocks) and node.op.function in ("from_zarr", "read"):
            read = unpickled(node.op.blob)
            found = read.array if node.op.function == "from_zarr" else getattr(read, "source", None)
            if found is not None:
                yield found


def zarr_place(node: Any, path: str | None = None, options: Mapping[str, Any] | None = None) -> Place:
    """Where an array lies."""
    if is_url(node):
        node = zarr_library().storage.FsspecStore.from_url(node, storage_options=dict(options or {}))
    elif type(node).__module__.split(".")[0] == "zarr" and hasattr(node, "store") and hasattr(node, "path"):
        node, path = node.store, f"{node.path}/{path or ''}"
    root = node if isinstance(node, str) else getattr(node, "path", None) or getattr(node, "root", "")
    system = _file_system(node) if hasattr(node, "fs") else node
    if isinstance(root, Path) or isinstance(node, str) or "file" in np.ravel(getattr(system, "protocol", "")):
        return None, os.path.realpath(f"{root}/{path or ''}")
    if hasattr(node, "fs"):  # the same place whatever options give access
        given = {**(system.storage_options.get("client_kwargs") or {}), **system.storage_options}
        system = np.ravel(system.protocol)[0], given.get("endpoint_url")
    return system, "/".join(part for part in f"{root}/{path or ''}".split("/") if part)
