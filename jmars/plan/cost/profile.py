"""What operands cost on this machine, learnt from runs and kept between sessions.

`Profile` decides what to believe; `profile_file` reads and writes it. The control process of a host owns the one that
its jobs teach; `cost.annotate` asks it.
Source: PLANNING 7, `cost.py`; seed 004, "Graph Thoughts": costs come from measurements.
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

__all__ = ["KnownCost", "Profile"]

NEWEST = 0.3  # share of the newest job in what is known
_HOST = ("dispatch", "disk", "touch", "scale", "busy")  # what is known of the host itself
SOON = 0.5  # share of the newest job in what changes by the minute
JUMP = 4.0  # times that one job may differ from what is known and be believed
FAR = 64.0  # times larger than what was seen, from where on the seconds of a call are not taken for those of its bytes
CALL = 100e-6  # seconds that a call may take for no byte at all
MEMORY = 1e-10  # seconds a byte takes at least, passing through memory
REMEMBERED = 4000  # keys; those that were seen longest ago are forgotten


@dataclass
class Profile:
    """Seconds of operands by key and size, and what the host itself takes.

    Attributes
    ----------
    costs
        By key, then by size class; what earlier sessions learnt of a key is read when it is asked for.
    dispatch
        Seconds of an executor between two operands: until the report is taken and the next one is there.
    disk
        Bytes a second, written and read back.
    touch
        Seconds a byte of memory that is used for the first time.
    scale
        How many times longer operands take than `roofline.prior` says.
    accuracy
        What was predicted of past runs beside what was measured.
    busy
        How many times longer operands take than they compute, since others use the cores; of the newest jobs.
    changed
        Keys that were observed since the last save.

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
    touch: float = 0.3e-9
    scale: float = 1.0
    busy: float = 1.0
    accuracy: Accuracy = field(default_factory=Accuracy)
    changed: set[str] = field(default_factory=set)

    def observe(self, key: str, nbytes: float, seconds: float, *, when: int = 0, fresh: float = 0.0) -> None:
        """Take in what operands of one program and size took in one job, on average.

        The first job pays for what happens once (modules imported, kernels compiled), so the second one replaces it.

        Parameters
        ----------
        key, nbytes
            `Signature.key` and `Signature.size`.
        seconds
            Mean of the job's operands.
        when
            Seconds since 1970.
        fresh
            Bytes of memory that each was the first to touch; what takes longer for that is believed only until the
            program is seen on memory that was used before, and from then on tells what touching costs.
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

    def observe_dispatch(self, seconds: float) -> None:
        """Take in for how long executors had nothing to do, for each operand of a job of many short ones."""
        self.dispatch = _mixed(self.dispatch, min(max(seconds, 1e-6), 1e-3))

    def observe_disk(self, nbytes: int, seconds: float) -> None:
        """Take in how long chunks were written or read."""
        if seconds > 0:
            self.disk = _mixed(self.disk, min(max(nbytes / seconds, 1e6), 1e11))

    def observe_busy(self, ratio: float) -> None:
        """Take in how many times longer a job's operands took than they computed."""
        self.busy += SOON * (min(max(ratio, 1.0), 50.0) - self.busy)

    def observe_touch(self, nbytes: float, seconds: float) -> None:
        """Take in how much longer operands took that touched fresh memory."""
        if nbytes > 0 and seconds > 0:
            self.touch = _mixed(self.touch, min(seconds / nbytes, 5e-9))

    def observe_scale(self, ratio: float) -> None:
        """Take in how far the prior was off, as measured seconds over predicted ones."""
        self.scale = math.exp(_mixed(math.log(self.scale), math.log(min(max(ratio, 0.05), 20.0))))

    def seconds(self, key: str, nbytes: float) -> float | None:
        """What an operand of this key and size should take; None when nobody has seen the key.

        Between two sizes that were seen the cost grows by a power that fits both, beyond them with the bytes; what took
        no longer than a call takes tells nothing of the bytes, so much larger ones are said to go at memory's speed.
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
            if not low.size:  # nobody knew its size
                return low.seconds + (high.seconds - low.seconds) * nbytes / high.size
            share = math.log(nbytes / low.size) / math.log(high.size / low.size)
            return math.exp((1 - share) * math.log(low.seconds) + share * math.log(high.seconds))
        near = classes[numbers[min(place, len(numbers) - 1)]]
        if not near.size:
            return near.seconds
        if nbytes < near.size:  # a call costs something, however small its chunk
            return max(near.seconds * nbytes / near.size, min(self.dispatch, near.seconds))
        if nbytes <= FAR * near.size:
            return near.seconds * nbytes / near.size
        return max(near.seconds, nbytes * MEMORY) + max(0.0, near.seconds - CALL) * (nbytes / near.size - 1)

    @classmethod
    def load(cls, path: Path | None = None) -> Profile:
        """What earlier sessions learnt; an empty profile where there is no file.

        A file that is damaged, or a folder that cannot be used, is warned of and counts as none.
        """
        profile = cls()
        try:
            profile.refresh(path)
        except (OSError, ClusterError) as error:
            warnings.warn(f"what earlier sessions learnt of costs cannot be used: {error}", stacklevel=2)
        return profile

    @classmethod
    def of(cls, data: dict[str, Any]) -> Profile:
        """The profile that `as_data` told."""
        profile = cls()
        profile._take(data)
        return profile

    def refresh(self, path: Path | None = None) -> None:
        """Take in what earlier sessions learnt.

        Raises
        ------
        OSError, ClusterError
            If no `path` is given and the folder cannot be made, or others may enter it.
        """
        self._take(read(path if path is not None else costs_file()))

    def save(self, path: Path | None = None) -> None:
        """Keep what was learnt for later sessions; what others saved since about other keys stays.

        Raises
        ------
        OSError, ClusterError
            If the file cannot be written; the old one stays.
        """

        changed, self.changed = self.changed, set()  # what is observed while a thread saves counts for the next time

        def joined(stands: dict[str, Any]) -> dict[str, Any]:
            theirs = stands.get("costs")
            own = self.costs.as_data(changed | self.changed)
            rows = {**(theirs if isinstance(theirs, dict) else {}), **own}
            self.forget_oldest()
            self.accuracy.join(stands.get("runs"))
            return self._as_data(newest(rows, REMEMBERED))  # theirs as they stand: most are of no use here

        try:
            update(path if path is not None else costs_file(), joined)
        except BaseException:
            self.changed |= changed
            self.forget_oldest()  # where nothing can be saved, too, what a long-lived cluster learns is bounded
            raise

    def as_data(self) -> dict[str, Any]:
        """As a file holds it, and as it travels."""
        return self._as_data(self.costs.as_data())

    def _as_data(self, costs: dict[str, Any]) -> dict[str, Any]:
        return {**{name: getattr(self, name) for name in _HOST}, "costs": costs, "runs": self.accuracy.rows}

    def _take(self, data: dict[str, Any]) -> None:
        """Take in what a file holds; what is no number above 0 is passed over."""
        for name in _HOST:
            value = data.get(name)
            if is_positive(value):
                setattr(self, name, float(value))
        self.accuracy.take(data.get("runs"))
        self.costs.take(data.get("costs"))

    def forget_oldest(self) -> None:
        """Keep the keys that were seen last; others may be observed meanwhile, in another thread."""
        self.changed.difference_update(self.costs.forget_oldest(REMEMBERED))


def _mixed(known: float, seen: float) -> float:
    return known + NEWEST * (seen - known)
