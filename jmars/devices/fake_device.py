"""A GPU made of NumPy, for tests and for machines without a GPU: same calls, same order of streams, no speed.

The streams do nothing before a call of `synchronise`. Then they run in the worst order that events allow: the awaited
work last and all further work first (`order="early"`), further work as late as possible (`"late"`), or random order (a
number, the seed). A missing event thus gives wrong values. The device can also lose its context.
Source: docs/explanation/devices.md, "What a GPU's process asks of its GPU".
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from jmars.devices.device import Array, Device, DeviceLostError, DeviceMemoryError
from jmars.devices.library import LIBRARY, reduced
from jmars.kernels.cuda_text import cuda_text
from jmars.kernels.expression import Expression
from jmars.kernels.numpy_backend import whole_function


class _Event:
    """An event; `done` once the stream has come to the event."""

    def __init__(self, stream: _Stream) -> None:
        self.stream, self.done, self.time = stream, False, 0.0

    def occur(self) -> None:
        """The stream has come here."""
        self.done, self.time = True, perf_counter()


class _Stream:
    """Work that was given to a stream and has not run: functions, and events to wait for."""

    def __init__(self) -> None:
        self.work: deque[Callable[[], None] | _Event] = deque()

    def blocks(self) -> _Event | None:
        """The event that the stream waits for; None if the stream can run."""
        while self.work and isinstance(self.work[0], _Event):
            if not self.work[0].done:
                return self.work[0]
            self.work.popleft()
        return None


class FakeDevice(Device):
    """A device of `total` bytes.

    Parameters
    ----------
    total
        Bytes of the device.
    order
        "late", "early", or the seed of a random order.
    lost_after
        Number of calls after which the device loses its context; None for never.
    lacks
        Names of functions of `library.LIBRARY` that raise, as a function of CuPy may.

    Examples
    --------
    >>> device = FakeDevice(1 << 20)
    >>> device.reserve(4096)
    >>> stream, bytes_in = device.stream(), device.pinned(8)
    >>> bytes_in[:] = 7
    >>> device.copy_in(64, bytes_in, stream)
    >>> device.view(64, (8,), np.dtype("u1")).any()  # nothing has run yet
    np.False_
    >>> device.synchronise(device.record(stream))
    >>> device.view(64, (8,), np.dtype("u1")).tolist()
    [7, 7, 7, 7, 7, 7, 7, 7]
    """

    name, backend = "FakeDevice", "fake"

    def __init__(
        self, total: int, order: str | int = "late", lost_after: int | None = None, lacks: Sequence[str] = ()
    ) -> None:
        self.calls, self._lacks = 0, lacks
        self._total, self._order, self._lost_after = total, order, lost_after
        self._random = random.Random(order if isinstance(order, int) else 0)
        self._streams: list[_Stream] = []
        self._slab = np.empty(0, np.uint8)
        self._bound = total
        self._pinned: dict[int, int] = {}  # bytes of pinned memory, by address
        self.can_pin = True

    def _check(self) -> None:
        """Count a call; raise if the context is lost."""
        self.calls += 1
        if self._lost_after is not None and self.calls > self._lost_after:
            raise DeviceLostError("the fake device has lost its context; its process must end")

    def lose(self) -> None:
        """Lose the context: every call raises from now on."""
        self._lost_after = 0

    # -- memory
    def memory(self) -> tuple[int, int]:
        """Bytes that the slab leaves, and all bytes."""
        self._check()
        return self._total - self._slab.nbytes, self._total

    def reserve(self, size: int) -> None:
        """Allocate the slab."""
        self._check()
        if size > self._total:
            raise DeviceMemoryError(f"a slab of {size} bytes is more than the device's {self._total}")
        self._slab = np.zeros(size, np.uint8)

    def bound_scratch(self, size: int) -> None:
        """Let library calls have inputs and results of at most `size` bytes together."""
        self._check()
        self._bound = size

    def drop_scratch(self) -> None:
        """Check the context only: no scratch is kept."""
        self._check()

    def pinned(self, size: int) -> Array:
        """Plain memory."""
        self._check()
        memory = np.zeros(size, np.uint8)
        self._pinned[memory.ctypes.data] = size
        return memory

    def pin(self, memory: Array) -> None:
        """Remember the bytes."""
        self._check()
        if not self.can_pin:
            raise OSError("the fake device cannot pin memory")
        assert memory.ctypes.data not in self._pinned
        self._pinned[memory.ctypes.data] = memory.nbytes

    def unpin(self, memory: Array) -> None:
        """Forget the bytes."""
        self._check()
        assert self._pinned.pop(memory.ctypes.data) == memory.nbytes

    def _copy(self, target: Array, source: Array, host: Array) -> None:
        """Copy now, while the host's side is still pinned, in one range."""
        start = host.ctypes.data
        held = any(at <= start and start + host.nbytes <= at + size for at, size in self._pinned.items())
        assert held, "the host's memory is not pinned"
        np.copyto(target, source)

    def view(self, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        """An array in the slab."""
        return np.ndarray(shape, dtype, self._slab.data, offset)

    # -- streams
    def stream(self) -> Any:
        """A stream that runs in `synchronise`."""
        self._check()
        self._streams.append(_Stream())
        return self._streams[-1]

    def record(self, stream: Any, timed: bool = False) -> Any:
        """An event behind all work of the stream."""
        self._check()
        event = _Event(stream)
        stream.work.append(event.occur)
        return event

    def seconds(self, start: Any, end: Any) -> float:
        """Seconds of this machine, in which other streams may have run, too."""
        self._check()
        return float(end.time - start.time)

    def wait(self, stream: Any, event: Any) -> None:
        """Have a stream wait."""
        self._check()
        stream.work.append(event)

    def is_done(self, event: Any) -> bool:
        """Whether an event has occurred; runs no work."""
        self._check()
        return bool(event.done)

    def synchronise(self, event: Any) -> None:
        """Run work until the event occurs."""
        self._check()
        while not event.done:
            self._run_one(event)

    def _run_one(self, event: _Event) -> None:
        """Run a piece of work of the stream that the order chooses."""
        needed, blocked = event.stream, event.stream.blocks()
        while blocked is not None:  # follow the chain to the stream whose work the event needs next
            needed, blocked = blocked.stream, blocked.stream.blocks()
        able = [one for one in self._streams if one.blocks() is None and one.work]
        others = [one for one in able if one is not needed]
        chosen = needed
        if self._order == "early" and others:
            chosen = others[0]
        elif self._order != "late" and isinstance(self._order, int):
            chosen = self._random.choice(able)
        work = chosen.work.popleft()
        assert not isinstance(work, _Event)
        work()

    # -- copies and kernels
    def copy_in(self, offset: int, source: Array, stream: Any) -> None:
        """Copy later, from the bytes in `source` at that time."""
        self._check()
        stream.work.append(partial(self._copy, self._slab[offset : offset + source.size], source, source))

    def copy_out(self, target: Array, offset: int, stream: Any) -> None:
        """Copy later."""
        self._check()
        stream.work.append(partial(self._copy, target, self._slab[offset : offset + target.size], target))

    def launch(
        self, expression: Expression, out: Any, inputs: Sequence[Any], stream: Any, first: int | None = None
    ) -> None:
        """Compute by NumPy's functions."""
        self._check()
        assert cuda_text(expression) is not None
        if first is not None:
            inputs = [*inputs, np.arange(first, first + out.size).reshape(out.shape)]
        run = whole_function(expression, tuple(range(len(inputs))))
        stream.work.append(partial(_quietly, run, out, inputs))

    def reduce(
        self, expression: Expression, ufunc: str, axes: tuple[int, ...], out: Any, inputs: Sequence[Any], stream: Any
    ) -> None:
        """Compute by NumPy's functions."""
        self._check()

        def run(out: Array, inputs: Sequence[Array]) -> None:
            values = np.empty(np.broadcast_shapes(*(one.shape for one in inputs)), expression.dtype)
            whole_function(expression, tuple(range(len(inputs))))(values, inputs)
            reduced(np, ufunc, values, axes, out)

        stream.work.append(partial(_quietly, run, out, inputs))

    def call(self, name: str, out: Any, inputs: Sequence[Any], params: Any, arg: Any, stream: Any) -> None:
        """Call the library's function with NumPy."""
        self._check()
        if name in self._lacks:
            raise NotImplementedError(f"the fake device lacks {name}")
        if out.nbytes + sum(one.nbytes for one in inputs) > self._bound:
            raise DeviceMemoryError(f"{name} takes more than the {self._bound} bytes of scratch")
        stream.work.append(partial(_quietly, LIBRARY[name], np, out, inputs, params, arg))

    def close(self) -> None:
        """Forget all work and memory."""
        self._streams.clear()
        self._slab = np.empty(0, np.uint8)


def _quietly(function: Callable[..., Any], *args: Any) -> None:
    """Call a function without floating point warnings, which a GPU does not give."""
    with np.errstate(all="ignore"):
        function(*args)
