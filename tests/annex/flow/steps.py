"""Real code, one step of one thread at a time: `in_every_order` runs threads in every order of their steps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any


class Steps:
    """Gives the turn to one thread at a time; where several wait for it, `choices` says which, and then the first."""

    def __init__(self, choices: list[int]) -> None:
        self.choices = choices
        self.open: list[int] = []  # threads that waited at each step
        self._taken: list[int] = []
        self._waiting: dict[int, threading.Semaphore] = {}
        self._alive = 0
        self._lock = threading.Lock()

    def run(self, acts: list[Callable[[], Any]]) -> list[Any]:
        """Results of the acts, each in a thread of its own."""
        self._alive = len(acts)
        results: list[Any] = [None] * len(acts)

        def act(place: int) -> None:
            self(place)
            try:
                results[place] = acts[place]()
            finally:
                with self._lock:
                    self._alive -= 1
                    self._next()

        threads = [threading.Thread(target=act, args=(place,), name=str(place)) for place in range(len(acts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return results

    def __call__(self, place: int | None = None) -> None:
        """A step: waits for the turn; nothing in a thread that is not one of them."""
        name = threading.current_thread().name
        if not name.isdecimal():
            return
        turn = threading.Semaphore(0)
        with self._lock:
            self._waiting[int(name)] = turn
            self._next()
        turn.acquire()

    def _next(self) -> None:
        if self._waiting and len(self._waiting) == self._alive:
            step, able = len(self._taken), sorted(self._waiting)
            choice = self.choices[step] if step < len(self.choices) else 0
            self._taken.append(choice)
            self.open.append(len(able))
            self._waiting.pop(able[choice]).release()

    def following(self) -> list[int] | None:
        """The choices of the next order; None after the last."""
        taken = self._taken
        for step in reversed(range(len(taken))):
            if taken[step] + 1 < self.open[step]:
                return [*taken[:step], taken[step] + 1]
        return None


class Tokens(list[Any]):
    """A list whose changes and looks are steps."""

    def __init__(self, values: list[Any], step: Callable[[], None]) -> None:
        super().__init__(values)
        self._step = step

    def pop(self, *place: Any) -> Any:
        self._step()
        return super().pop(*place)

    def __len__(self) -> int:
        self._step()
        return super().__len__()

    def append(self, value: Any) -> None:
        self._step()
        super().append(value)


class Flags(bytearray):
    """Flags whose reads and writes of some places are steps."""

    step: Callable[[], None]
    places: set[int]

    def __getitem__(self, place: Any) -> Any:
        if place in self.places:
            self.step()
        return super().__getitem__(place)

    def __setitem__(self, place: Any, value: Any) -> None:
        if place in self.places:
            self.step()
        super().__setitem__(place, value)


def flags(values: bytearray, places: set[int], step: Callable[[], None]) -> Flags:
    """The same flags with steps."""
    made = Flags(values)
    made.step, made.places = step, places
    return made


def in_every_order(acts: Callable[[Steps], list[Callable[[], Any]]]) -> Iterator[list[Any]]:
    """Results of the acts, for each order of their steps; `acts` makes them anew for each."""
    choices: list[int] | None = []
    while choices is not None:
        steps = Steps(choices)
        yield steps.run([partial(act) for act in acts(steps)])
        choices = steps.following()
