"""Cost profile: seconds and bytes of operands on this machine, measured in runs and kept between sessions.

`Profile` smooths the measurements; `profile_file` reads and writes the file. The control process of a host owns the
profile that its jobs update; `annotate` reads costs from a profile.
Source: docs/explanation/seeds.md, "Graph thoughts".
"""

from __future__ import annotations

import math
import warnings
from bisect import bisect_left
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jmars.errors import ClusterError
from jmars.plan.cost.accuracy import Accuracy
from jmars.plan.cost.cost_table import CostTable, KnownCost, is_positive, newest, size_class
from jmars.plan.cost.profile_file import costs_file, read, update
from jmars.plan.cost.roofline import CALL as ROOFLINE_CALL

__all__ = ["KnownCost", "Profile"]

NEWEST = 0.3  # weight of the newest job in the moving average
_HOST = ("dispatch", "disk", "pcie", "touch", "scale", "busy")  # costs of the host itself
SOON = 0.5  # weight of the newest job in averages that change by the minute
JUMP = 4.0  # a measurement counts as at most so many times the average, or as so small a part of the average
FAR = 64.0  # ratio to the largest measured size beyond which the fixed cost of a call is not scaled with the bytes
CALL = 100e-6  # seconds that a call may take whatever its size
MEMORY = 1e-10  # least seconds a byte takes to pass through memory
DEAR = 50.0  # a byte costs at most so many times the roofline's seconds, where only tiny chunks were measured
REMEMBERED = 4000  # keys; the keys that were measured longest ago are dropped


@dataclass
class Profile:
    """Seconds of operands by key and size, and the costs of the host itself.

    Attributes
    ----------
    costs
        By key, then by size class; costs of earlier sessions are parsed on first use of their key.
    dispatch
        Seconds of an executor between two operands: until the report is taken and the next operand is there.
    disk
        Bytes a second, written and read back.
    pcie
        Bytes a second between shared memory and a GPU, through a pinned buffer.
    touch
        Seconds a byte for the first write to a page of memory.
    scale
        Ratio of measured seconds to `roofline.prior`.
    accuracy
        Errors of past predictions.
    busy
        Ratio of wall time to computing time of operands, above 1 where other processes use the cores; of the newest
        jobs.
    results
        By key: bytes of the largest result of the newest job, where the size has no bound before the run. Of this
        session: not in the file.
    changed
        Keys that were measured since the last save.

    Examples
    --------
    >>> profile = Profile()
    >>> profile.observe("add", 8_000_000, 0.004)
    >>> profile.seconds("add", 16_000_000), profile.seconds("sin", 8)
    (0.008, None)
    """

    costs: CostTable = field(default_factory=CostTable)
    dispatch: float = 10e-6
    disk: float = 1e9
    pcie: float = 6e9
    touch: float = 0.3e-9
    scale: float = 1.0
    busy: float = 1.0
    accuracy: Accuracy = field(default_factory=Accuracy)
    results: dict[str, int] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)

    def observe(self, key: str, nbytes: float, seconds: float, *, when: int = 0, fresh: float = 0.0) -> None:
        """Adds the mean seconds that operands of a program and size took in a job.

        The first job pays for imports and compilation, so the second job's measurement replaces the first.

        Parameters
        ----------
        key, nbytes
            `Signature.key` and `Signature.size`.
        seconds
            Mean of the job's operands.
        when
            Seconds since 1970.
        fresh
            Bytes of memory that each operand was the first to touch. Such a measurement counts only until the program
            is measured on memory used before; from then on the difference is the cost of touching memory.
        """
        if not (seconds > 0 and math.isfinite(seconds)):
            return
        classes = self.costs.made(key)
        number = size_class(nbytes)
        known = classes.get(number)
        self.changed.add(key)
        if known is None or (known.first and (not fresh or seconds < known.seconds)):
            classes[number] = KnownCost(nbytes, seconds, when, first=known is None or fresh > 0)
            return
        known.when = max(when, known.when)
        if fresh and not known.first:
            self.observe_touch(fresh, seconds - known.seconds)
            return
        believed = min(max(seconds, known.seconds / JUMP), known.seconds * JUMP)
        known.seconds += NEWEST * (believed - known.seconds)
        known.size += NEWEST * (nbytes - known.size)

    def observe_result(self, key: str, nbytes: int) -> None:
        """Keeps the bytes of the largest result of a program in a job; `key` is a `Signature.key`."""
        self.results.pop(key, None)
        self.results[key] = nbytes
        if len(self.results) > REMEMBERED:
            del self.results[next(iter(self.results))]

    def observe_dispatch(self, seconds: float) -> None:
        """Adds the idle seconds of executors per operand of a job of many short operands."""
        self.dispatch = _mixed(self.dispatch, min(max(seconds, 1e-6), 1e-3))

    def observe_disk(self, nbytes: int, seconds: float) -> None:
        """Adds a measurement of the disk: bytes written or read, and seconds."""
        if seconds > 0:
            self.disk = _mixed(self.disk, min(max(nbytes / seconds, 1e6), 1e11))

    def observe_pcie(self, nbytes: int, seconds: float) -> None:
        """Adds a measurement of copies to and from a GPU: bytes, and seconds."""
        if seconds > 0:
            self.pcie = _mixed(self.pcie, min(max(nbytes / seconds, 1e7), 1e12))

    def observe_busy(self, ratio: float) -> None:
        """Adds the ratio of wall time to computing time of a job's operands."""
        self.busy += SOON * (min(max(ratio, 1.0), 50.0) - self.busy)

    def observe_touch(self, nbytes: float, seconds: float) -> None:
        """Adds the extra seconds of operands that were the first to touch `nbytes` of memory."""
        if nbytes > 0 and seconds > 0:
            self.touch = _mixed(self.touch, min(seconds / nbytes, 5e-9))

    def observe_scale(self, ratio: float) -> None:
        """Adds a ratio of measured seconds to seconds by the roofline."""
        self.scale = math.exp(_mixed(math.log(self.scale), math.log(min(max(ratio, 0.05), 20.0))))

    def seconds(self, key: str, nbytes: float, per_byte: float = 0.0) -> float | None:
        """Predicted seconds of an operand of this key and size; None for an unknown key.

        Between two measured sizes the cost follows the power law through both; beyond them it grows with the bytes.
        A measurement no longer than a call's fixed cost says nothing about bytes, so sizes far beyond the largest
        measured size are predicted at the speed of memory.

        Parameters
        ----------
        key, nbytes
            `Signature.key` and `Signature.size`.
        per_byte
            Seconds a byte by the roofline; 0 where the roofline does not know, as for users' functions. Where the
            largest measured chunk has so few bytes that the call itself takes longer, a larger chunk is predicted to
            cost at most 50 times the roofline: a pause of a tiny operand on a loaded machine is not scaled up.

        Examples
        --------
        >>> profile = Profile()
        >>> profile.observe("ones", 8, 0.001)  # another process had the core
        >>> profile.seconds("ones", 400), f"{profile.seconds('ones', 400, per_byte=1e-10):.6f}"
        (0.05, '0.001002')
        """
        classes = self.costs.of(key)
        if not classes:
            return None
        found = classes.get(size_class(nbytes))
        if found is not None:
            return found.seconds * nbytes / found.size if found.size else found.seconds
        numbers = sorted(classes)
        place = bisect_left(numbers, size_class(nbytes))
        if 0 < place < len(numbers):
            low, high = classes[numbers[place - 1]], classes[numbers[place]]
            if not low.size:  # its size was not known
                return low.seconds + (high.seconds - low.seconds) * nbytes / high.size
            share = math.log(nbytes / low.size) / math.log(high.size / low.size)
            return math.exp((1 - share) * math.log(low.seconds) + share * math.log(high.seconds))
        near = classes[numbers[min(place, len(numbers) - 1)]]
        if not near.size:
            return near.seconds
        if nbytes < near.size:  # a call has a fixed cost, however small its chunk
            return max(near.seconds * nbytes / near.size, min(self.dispatch, near.seconds))
        if 0 < per_byte * near.size < ROOFLINE_CALL:
            dearest = near.seconds + DEAR * per_byte * (nbytes - near.size)
        else:
            dearest = math.inf
        if nbytes <= FAR * near.size:
            return min(dearest, near.seconds * nbytes / near.size)
        scaled = max(near.seconds, nbytes * MEMORY) + max(0.0, near.seconds - CALL) * (nbytes / near.size - 1)
        return min(dearest, scaled)

    @classmethod
    def load(cls, path: Path | None = None) -> Profile:
        """Reads the profile of earlier sessions; an empty profile if there is no file.

        A damaged file or an unusable folder gives a warning and an empty profile.
        """
        profile = cls()
        try:
            profile.refresh(path)
        except (OSError, ClusterError) as error:
            warnings.warn(f"the costs measured in earlier sessions cannot be used: {error}", stacklevel=2)
        return profile

    @classmethod
    def of(cls, data: dict[str, Any]) -> Profile:
        """Builds a profile from the result of `as_data`."""
        profile = cls()
        profile._take(data)
        profile.results.update(data.get("results", {}))
        return profile

    def refresh(self, path: Path | None = None) -> None:
        """Adds the costs measured in earlier sessions.

        Raises
        ------
        OSError, ClusterError
            If no `path` is given and the folder cannot be made, or other users may enter it.
        """
        self._take(read(path if path is not None else costs_file()))

    def save(self, path: Path | None = None, *, host: bool = True) -> None:
        """Writes the measured costs for later sessions; keys that other processes saved meanwhile stay.

        Parameters
        ----------
        path
            None for this machine's cost file.
        host
            Whether to write the costs of the host itself too (`dispatch`, `disk`, `pcie`, `touch`, `scale`, `busy`).
            Workers of an engine, who may be on other machines, measure none of them: False leaves those of the file.

        Raises
        ------
        OSError, ClusterError
            If the file cannot be written; the old one stays.
        """

        changed, self.changed = self.changed, set()  # costs observed during the save belong to the next save

        def joined(stands: dict[str, Any]) -> dict[str, Any]:
            theirs = stands.get("costs")
            own = self.costs.as_data(changed | self.changed)
            rows = {**(theirs if isinstance(theirs, dict) else {}), **own}
            self.forget_oldest()
            self.accuracy.join(stands.get("runs"))
            data = self._as_data(newest(rows, REMEMBERED))  # unparsed: this session uses few of them
            if host:
                return data
            kept = {name: stands[name] for name in _HOST if name in stands}
            return {name: value for name, value in data.items() if name not in _HOST} | kept

        try:
            update(path if path is not None else costs_file(), joined)
        except BaseException:
            self.changed |= changed
            self.forget_oldest()  # bounds a long-lived cluster's memory where saving fails
            raise

    def as_data(self) -> dict[str, Any]:
        """The profile as JSON data, for other processes."""
        return {**self._as_data(self.costs.as_data()), "results": dict(self.results)}

    def _as_data(self, costs: dict[str, Any]) -> dict[str, Any]:
        return {**{name: getattr(self, name) for name in _HOST}, "costs": costs, "runs": self.accuracy.rows}

    def _take(self, data: dict[str, Any]) -> None:
        """Adds the data of a file; skips values that are not numbers above 0."""
        for name in _HOST:
            value = data.get(name)
            if is_positive(value):
                setattr(self, name, float(value))
        self.accuracy.take(data.get("runs"))
        self.costs.take(data.get("costs"))

    def forget_oldest(self) -> None:
        """Drops the keys measured longest ago; safe while another thread observes costs."""
        self.changed.difference_update(self.costs.forget_oldest(REMEMBERED))


def _mixed(known: float, seen: float) -> float:
    return known + NEWEST * (seen - known)
