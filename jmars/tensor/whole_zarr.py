"""Zarr arrays that are whole or not there: pieces first, metadata last, and one writer at a time.

A new array in a folder is written beside and moved (`whole_folder`). Elsewhere, and where xarray made the array, pieces
are written in place while there is no metadata, so readers find no array (`whole_arrays`).

A claim keeps a second writer of an array, or of a group that is replaced, away: in a folder a lock of the system
(atomic_file.py), in an object store an object `.jmars-claim-0` within, made by a conditional put. The writer renews
the claim every `BEAT` seconds. A claim of a dead process, or of an age of `EXPIRY` seconds, is void: the next writer
makes the claim of the next number. A writer that failed keeps the claim until the pieces are removed, and the claim
says so: the next writer waits.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import secrets
import shutil
import socket
import threading
import time
import warnings
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from jmars.errors import StorageError
from jmars.tensor.atomic_file import atomic_folder, claimed, here

BEAT, EXPIRY = 15.0, 60.0  # seconds
CLEANUP_SECONDS = 10.0  # the longest that a writer waits until a store has removed pieces or a claim
READS = 20  # of a claim that is being written
AT_ONCE = 64  # deletions under way
CLAIM = ".jmars-claim-"
CLAIMED_STORES = ("FsspecStore", "ObjectStore")
PIECE = re.compile("(c|[0-9]+)([./][0-9]+)*")  # of an array of any shape
DOCUMENTS = {"zarr.json", ".zarray", ".zattrs", ".zgroup", ".zmetadata"}
How = Literal["new", "over", "found"]
_held: dict[str, threading.Thread | None] = {}  # claims of this process by token; the thread that removes objects


def _sync(work: Coroutine[Any, Any, Any]) -> Any:
    from zarr.core.sync import sync

    return sync(work)


def _clean(work: Callable[[], None], claims: Sequence[_Claim]) -> str:
    """Call a function that removes objects, and ends the claims; returns the error, or that a thread goes on."""
    failed: list[str] = []

    def run() -> None:
        try:
            _held.update({one.token: thread for one in claims})
            work()
        except Exception as error:
            failed.append(f"{type(error).__name__}: {error}")

    thread = threading.Thread(target=run, daemon=True, name="jmars-cleanup")
    thread.start()
    thread.join(CLEANUP_SECONDS if claims else None)
    goes_on = f"the store did not remove them within {CLEANUP_SECONDS:g} s; the removal goes on, the next write waits"
    return goes_on if thread.is_alive() else "".join(failed)


def all_at_once(work: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Results of coroutines that zarr's thread runs together; raises the first error when all have ended."""
    found: list[Any] = _sync(_all(work))
    return found


async def _all(work: Sequence[Coroutine[Any, Any, Any]]) -> list[Any]:
    """Results of calls at once; raises the first error when all have ended."""
    found = await asyncio.gather(*work, return_exceptions=True)
    for one in found:
        if isinstance(one, BaseException):
            raise one
    return found


def placed(array: Any, place: Any) -> Any:
    """An array with the metadata of `array` at a place; nothing is written."""
    there = array._async_array
    config = there.config if hasattr(there, "config") else there._config
    return type(array)(type(there)(metadata=array.metadata, store_path=place, config=config))


@contextmanager
def whole_folder(array: Any, how: How) -> Iterator[Any]:
    """Yield an array to write; at the end the elements are in the folder of `array`.

    `how`: "new" to refuse an array or group there, "over" to replace an old one.
    """
    from zarr.storage import LocalStore, StorePath

    folder, documents = str(node_folder(array)), _documents(array)
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with claimed(folder):
        if how == "new":
            _refuse_node(array, set(os.listdir(folder) if os.path.isdir(folder) else ()))
            _sync(_remove(array, how))
        _make_parents(array)
        with atomic_folder(folder, how == "over", list(documents)[-1]) as part:
            yield placed(array, StorePath(LocalStore(Path(part))))
            for name, data in documents.items():
                Path(part, name).write_bytes(data.to_bytes())


@contextmanager
def whole_arrays(arrays: Sequence[Any], how: How) -> Iterator[None]:
    """Within, Zarr arrays are written; readers find new arrays when the block ends without an error, until then none.

    `how`: "new" to refuse arrays and groups there, and remove pieces without metadata first; "over" to remove all
    objects there first; "found" for arrays that exist: an array with pieces is written in place, and readers may see
    old and new pieces.
    """
    with ExitStack() as stack, ExitStack() as far:
        checks = [stack.enter_context(claimed(folder)) for one in arrays if (folder := node_folder(one))]
        remote = [one for one in arrays if not node_folder(one)]
        claims = far.enter_context(_claims(remote)) if remote else []
        there: list[set[str]] = _sync(_all([_names(one) for one in arrays]))
        for one, names in zip(arrays, there) if how != "found" else ():
            if how == "new":
                _refuse_node(one, names)
            _make_parents(one)
        fresh = [(one, names) for one, names in zip(arrays, there) if how != "found" or not names - DOCUMENTS]
        documents = [_sync(_stored(one)) if how == "found" else _documents(one) for one, _ in fresh]
        _sync(_all([one.store.delete(_key(one, name)) for one, names in fresh for name in names & DOCUMENTS]))
        _sync(_all([_remove(one, how) for one, names in fresh if names - DOCUMENTS]))
        is_ours = True
        try:
            yield
            is_ours = False
            for check in checks:
                check()
            _sync(_all([one.check() for one in claims]))
            is_ours = True
            _sync(_all([_put(one, found) for (one, _), found in zip(fresh, documents)]))
        except BaseException as error:

            async def remove(is_far: bool) -> None:
                await _all([one.check() for one in claims if is_far and is_ours])
                for one, _ in fresh if is_ours else ():
                    if is_far != bool(node_folder(one)):
                        await _remove(one, how)

            _undo(error, lambda: remove(False), [], stack.pop_all())
            _undo(error, lambda: remove(True), claims, far.pop_all())
            raise


def _undo(error: BaseException, remove: Callable[[], Coroutine[Any, Any, None]], claims: Sequence[_Claim],
          kept: ExitStack) -> None:  # fmt: skip
    """Remove objects that a failed write wrote; claims are kept until the removal ends, so no second writer comes."""

    def work() -> None:
        with kept:
            for claim in claims:
                claim.is_removing = True
            _sync(_all([*(one.beat() for one in claims), remove()]))

    if why := _clean(work, claims):
        error.add_note(f"pieces that were written could not be removed: {why}")


@contextmanager
def replaced_group(place: Any, how: How = "over") -> Iterator[str]:
    """Within, a writer makes a group; gives the mode: "w", or "a" in an object store, where the old one is gone.

    `how`: "over" to replace a group, "new" to refuse objects there. In an object store of local files the claim is a
    lock beside the store; from others all objects are removed after an error.

    Raises
    ------
    FileExistsError
        If `how` is "new" and an object store has objects there.
    StorageError
        If another writer replaces the group or, in an object store, writes to an array within.
    """
    files: Any = getattr(place.store, "store", None)

    def found() -> list[str]:
        keys: list[str] = _after_removal(lambda: _refuse_claims(place))
        if keys and how == "new":
            raise FileExistsError(f"{place} has objects; give overwrite=True to replace them, or another place")
        return keys

    if folder := node_folder(place):
        os.makedirs(os.path.dirname(folder), exist_ok=True)
        with claimed(folder):
            yield "w"
    elif type(files).__name__ == "LocalStore" and files.prefix:  # obstore lists no groups beside a file
        above, name = os.path.split(os.path.realpath(files.prefix))
        inner = f"/{place.path}".rstrip("/")
        os.makedirs(above, exist_ok=True)
        with claimed(f"{above}/{name}{inner}", f"{above}/.{name}{inner.replace('/', '.')}.claim"):
            found()
            yield "w"
    elif type(place.store).__name__ in CLAIMED_STORES:
        with warnings.catch_warnings(), ExitStack() as far:
            warnings.filterwarnings("ignore", rf"Object at .*{re.escape(CLAIM)}\d+ is not recognized as a component")
            claims = far.enter_context(_claims([place]))
            keys = found()
            try:
                _sync(_delete(place.store, keys))
                yield "a"
                _sync(claims[0].check())
            except BaseException as error:
                _undo(error, lambda: _empty(place, claims[0]), claims, far.pop_all())
                raise
    else:
        yield "w" if how == "over" else "w-"


async def _empty(place: Any, claim: _Claim) -> None:
    """Remove all objects in the place of a group but claims, unless another program removed the claim."""
    await claim.check()
    await _delete(place.store, [key for key in await _keys(place) if CLAIM not in key])


async def _refuse_claims(place: Any) -> list[str]:
    """Keys in the place of a group of an object store, but its claim; raises as `_refuse` if an array has a claim."""
    prefix, keys = f"{place.path}/".lstrip("/"), await _keys(place)
    for key in [key for key in keys if f"/{CLAIM}" in key.removeprefix(prefix)]:
        found = await _read_claim(place.store, key)
        if found is not None:
            _refuse(f"{place.store}/{key.rpartition('/')[0]}", found)
    return [key for key in keys if not key.removeprefix(prefix).startswith(CLAIM)]


def remove_left(places: Sequence[Any]) -> None:
    """Remove pieces that killed writers left in places without array, so that a library may make one.

    Raises
    ------
    StorageError
        If a writer writes an array in such a place.
    """
    places = [one for one in places if node_folder(one) or type(one.store).__name__ in CLAIMED_STORES]
    left = [one for one, keys in zip(places, _sync(_all([_left(one) for one in places]))) if keys]
    with ExitStack() as stack:
        for folder in filter(None, map(node_folder, left)):
            stack.enter_context(claimed(folder))
        if remote := [one for one in left if not node_folder(one)]:
            stack.enter_context(_claims(remote))
        for one in left:
            _sync(_delete(one.store, _sync(_left(one))))


async def _left(place: Any) -> list[str]:
    """Keys of pieces in a place without array or group; none of arrays and groups within."""
    if hasattr(place.store, "fs"):
        place.store.fs.invalidate_cache()
    if any(await _all([place.store.exists(_key(place, name)) for name in DOCUMENTS])):
        return []
    prefix, keys = f"{place.path}/".lstrip("/"), await _keys(place)
    nodes = tuple(key.removesuffix(name) for key in keys if (name := key.rpartition("/")[2]) in DOCUMENTS)
    return [key for key in keys if PIECE.fullmatch(key.removeprefix(prefix)) and not key.startswith(nodes)]


def node_folder(node: Any) -> str | None:
    """The folder of an array, or of a place, in a local store; links are followed, so that a new folder lies there."""
    root = getattr(node.store, "root", None)
    return os.path.realpath(root.absolute() / node.path) if isinstance(root, Path) else None


def _documents(array: Any) -> dict[str, Any]:
    """The metadata documents of an array, by name; readers need the last."""
    from zarr.core.buffer import default_buffer_prototype

    found = array.metadata.to_buffer_dict(default_buffer_prototype())
    return {name: found[name] for name in sorted(found, reverse=True)}  # .zattrs is after .zarray


async def _stored(array: Any) -> dict[str, Any]:
    """The metadata documents that are in the store."""
    from zarr.core.buffer import default_buffer_prototype

    names = sorted(array.metadata.to_buffer_dict(default_buffer_prototype()), reverse=True)
    found = [await array.store.get(_key(array, name), default_buffer_prototype()) for name in names]
    return {name: data for name, data in zip(names, found) if data is not None}


async def _put(array: Any, documents: dict[str, Any]) -> None:
    for name, data in documents.items():
        await array.store.set(_key(array, name), data)


def _key(array: Any, name: str) -> str:
    return f"{array.path}/{name}".lstrip("/")


def _refuse_node(array: Any, names: set[str]) -> None:
    """Raise the error of zarr if an array or a group is there."""
    from zarr import errors, open_group

    if not names & {".zarray", ".zgroup", "zarr.json"}:
        return
    kind, advice = errors.ContainsArrayError, "overwrite=True replaces it"
    with suppress(Exception):  # an array, or a document that zarr does not read
        open_group(array.store, path=array.path, mode="r")
        kind, advice = errors.ContainsGroupError, "give the path of a new array in the group as component="
    error = kind(array.store, array.path)
    error.add_note(advice)
    raise error


def _make_parents(array: Any) -> None:
    """Make the groups above an array; raises the error of zarr for an array above."""
    import zarr

    if array.path:
        above, how = array.path.rpartition("/")[0], {"mode": "a", "zarr_format": array.metadata.zarr_format}
        zarr.open_group(array.store, path=above or None, **how)


async def _names(array: Any) -> set[str]:
    """Names of objects and folders directly in the place of an array, without claims."""
    if hasattr(array.store, "fs"):
        array.store.fs.invalidate_cache()  # workers and others write
    return {name async for name in array.store.list_dir(array.path) if not name.startswith(CLAIM)} - {""}


async def _remove(array: Any, how: How) -> None:
    """Remove objects in the place of an array, but claims; of a new array only pieces and documents.

    Raises
    ------
    StorageError
        If `how` is "new" and an array or group has the name of a piece, or of a folder of pieces.
    """
    prefix = f"{array.path}/".lstrip("/")
    if how == "new":
        first = array.metadata.encode_chunk_key((0,) * array.ndim)  # "c/0/0"
        parts = re.escape(first).replace("0", "[0-9]+").split("/")
        piece = re.compile(re.escape(prefix) + "/".join(parts))
        around = re.compile(re.escape(prefix) + "(/".join(parts) + ")?" * (len(parts) - 1))
        found = await _keys(array, first.partition("0")[0].rpartition("/")[0])
        for node, _, name in [key.rpartition("/") for key in found]:
            if name in DOCUMENTS and around.fullmatch(node):
                raise StorageError(
                    f"the array or group {node} lies where {array.store_path} would have its pieces; write it to "
                    "another place"
                )
        keys = [key for key in found if piece.fullmatch(key)]
        keys += [prefix + name for name in await _names(array) & DOCUMENTS]
    elif folder := node_folder(array):
        return await asyncio.to_thread(shutil.rmtree, folder)
    else:
        keys = [key for key in await _keys(array) if not key.removeprefix(prefix).startswith(CLAIM)]
    await _delete(array.store, keys)


async def _keys(node: Any, below: str = "") -> list[str]:
    """Keys of all objects in the place of an array or a group, or in a folder below."""
    if hasattr(node.store, "fs"):
        node.store.fs.invalidate_cache()
    return [key async for key in node.store.list_prefix("".join(f"{one}/" for one in (node.path, below) if one))]


async def _delete(store: Any, keys: Sequence[str]) -> None:
    few = asyncio.Semaphore(AT_ONCE)

    async def delete(key: str) -> None:
        async with few:
            await store.delete(key)

    await asyncio.gather(*map(delete, keys))


class _Claim:
    """The claim of an array, or of the place of a group, in an object store."""

    def __init__(self, array: Any) -> None:
        self.array, self.token = array, secrets.token_hex(8)
        self.void: list[str] = []  # tokens of void claims; the number of this claim is the next
        self.is_taken = False
        self.is_late = False  # whether a renewal took so long that it may have made a removed claim again
        self.is_checked = False  # whether the store had the claim at the end of the write
        self.is_removing = False  # whether the write failed and its pieces are being removed
        self.place = getattr(array, "store_path", array)

    def key(self, number: int) -> str:
        return _key(self.array, f"{CLAIM}{number}")

    def content(self) -> bytes:
        facts = {"writer": f"process {os.getpid()} of {socket.gethostname()}", "token": self.token, "here": here()}
        of_now = {"pid": os.getpid(), "time": time.time(), "removing": self.is_removing, "void": self.void}
        return json.dumps({**facts, **of_now}).encode()

    async def take(self) -> None:
        """Make the claim; raises as `_refuse` if a second writer has a valid claim."""
        while not self.is_taken:
            self.void = []
            while not await _made(self.array.store, self.key(len(self.void)), self.content()):
                found = await self.read()
                if found is not None and found["token"] == self.token:  # the answer of the first try was lost
                    break
                if found is not None:
                    _refuse(self.place, found)
                    self.void.append(found["token"])
            self.is_taken = await self.is_next()
            if not self.is_taken:
                await self.array.store.delete(self.key(len(self.void)))

    async def is_next(self) -> bool:
        """Whether the void claims are there; else a writer removed them, and another may have made claim 0."""
        below = [_read_claim(self.array.store, self.key(number)) for number in range(len(self.void))]
        return [(found or {}).get("token") for found in await _all(below)] == self.void

    async def read(self) -> Any:
        """Facts of the claim's object; None if there is no object."""
        return await _read_claim(self.array.store, self.key(len(self.void)))

    async def beat(self) -> None:
        """Renew the claim; errors are left to the check at the end."""
        from zarr.core.buffer import default_buffer_prototype

        began = time.time()
        with suppress(Exception):
            if self.is_taken and (await self.read() or {}).get("token") == self.token:
                content = default_buffer_prototype().buffer.from_bytes(self.content())
                try:
                    await self.array.store.set(self.key(len(self.void)), content)
                finally:
                    self.is_late = self.is_late or time.time() - began > EXPIRY / 2

    async def check(self) -> None:
        """Raise StorageError if the claim is gone, of a second writer, renewed late, or void with a later writer."""
        if not await self.is_ours():
            raise StorageError(f"another program removed or wrote {self.place} while it was written; write again")

    async def is_ours(self) -> bool:
        """Whether the store has the claim, and no later writer found it void."""
        number = later = len(self.void) + 1
        looks = [self.read(), _read_claim(self.array.store, self.key(later)), self.is_next()]
        own, found, is_next = await _all(looks)
        self.is_checked = is_next and (own or {}).get("token") == self.token and not self.is_late
        while self.is_checked and found is not None:  # perhaps left by a killed writer
            self.is_checked = found.get("void", [])[number - 1 : number] not in ([self.token], [""])
            found, later = await _read_claim(self.array.store, self.key(later + 1)), later + 1
        return self.is_checked

    async def release(self) -> None:
        """Remove the claim, and void ones before it, the first number first; the writer that took over removes all."""
        if self.is_checked or await self.is_ours():
            for number in range(len(self.void) + 1):
                await self.array.store.delete(self.key(number))


async def _read_claim(store: Any, key: str) -> Any:
    from zarr.core.buffer import default_buffer_prototype

    for _ in range(READS):
        found = await store.get(key, default_buffer_prototype())
        if found is None:
            return None
        with suppress(ValueError):  # a file, which the writer renews at this moment
            return json.loads(found.to_bytes())
        await asyncio.sleep(0.05)
    return {"token": "", "here": "", "time": 0.0}  # the writer died at that moment


class _Removing(Exception):
    """The claim of an ended write that removes objects: place, facts of the claim, thread of this process."""


def _refuse(place: Any, found: Any) -> None:
    """Raise StorageError for a claim that is valid, by the facts of the object; `_Removing` if the write has ended."""
    thread, is_valid = _held.get(found["token"]), time.time() - found["time"] < EXPIRY
    if found["here"] == here():
        is_own, runs = found["pid"] == os.getpid(), os.path.exists(f"/proc/{found['pid']}")
        is_valid = found["token"] in _held if is_own else is_valid and runs
    if not is_valid:
        return
    if thread or found.get("removing"):
        raise _Removing(place, found, thread)
    raise StorageError(
        f"{place} is being written by {found['writer']}; wait, or write to another place. If that writer has ended, "
        f"its claim is void after {EXPIRY:.0f} s"
    )


def _after_removal(look: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """The result of a coroutine that meets claims; waits until ended writes have removed their objects.

    Raises
    ------
    StorageError
        If a removal goes on for `EXPIRY` seconds; until then the claim of a dead process becomes void.
    """
    end = time.monotonic() + EXPIRY
    while True:
        left = end - time.monotonic()  # the last look is at the end or later
        try:
            return _sync(look())
        except _Removing as error:
            place, found, thread = error.args
        if left <= 0:
            raise StorageError(
                f"a write to {place} by {found['writer']} has ended, but the store has not removed its objects within "
                f"{EXPIRY:g} s; write again when the store answers, or to another place"
            )
        thread.join(left) if thread else time.sleep(min(BEAT, left))


async def _made(store: Any, key: str, data: bytes) -> bool:
    """Make an object; False if the object exists."""
    try:
        if hasattr(store, "fs"):
            root = store.path.rstrip("/")
            path = f"{root}/{key}" if root else key
            if "local" in store.fs.protocol:  # a folder, which may not be there
                os.makedirs(os.path.dirname(path), exist_ok=True)
            await store.fs._pipe_file(path, data, mode="create")
        else:
            import obstore

            await obstore.put_async(store.store, key, data, mode="create")
    except FileExistsError:
        return False
    except Exception as error:
        if type(error).__name__ != "AlreadyExistsError":  # of obstore
            raise
        return False
    return True


@contextmanager
def _claims(arrays: Sequence[Any]) -> Iterator[list[_Claim]]:
    """Claim arrays of object stores."""
    claims, over = [_Claim(one) for one in arrays], threading.Event()

    def beat() -> None:
        while not over.wait(BEAT):
            with suppress(Exception):
                _sync(_all([one.beat() for one in claims]))

    def release() -> None:
        try:
            thread.join()
            _sync(_all([one.release() for one in claims]))
        finally:  # a claim that stays is void from here on
            for one in claims:
                del _held[one.token]

    thread = threading.Thread(target=beat, daemon=True, name="jmars-claims")
    try:
        _held.update(dict.fromkeys(one.token for one in claims))
        thread.start()
        _after_removal(lambda: _all([one.take() for one in claims]))
        yield claims
    finally:
        over.set()
        _clean(release, claims)
