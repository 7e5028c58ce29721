"""Forty faults of one line: what is changed, where, and what breaks by it.

A row names its line by text and not by number, so that it survives renames: its file is whichever matches the pattern
and has the text, once. `.ci/faults` sows them (study.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Fault:
    """One wrong line."""

    files: str  # glob below the root
    old: str
    new: str
    breaks: str

    def places(self) -> list[Path]:
        """Files that have the text, as often as they have it."""
        return [path for path in sorted(ROOT.glob(self.files)) for _ in range(path.read_text().count(self.old))]

    def path(self) -> Path:
        """The file, relative to the root."""
        (path,) = self.places()
        return path.relative_to(ROOT)

    def line(self) -> int:
        """The number of the line, from 1."""
        text = (ROOT / self.path()).read_text()
        begin = text.index(self.old)
        return text.count("\n", 0, begin + len(self.old) - len(self.old.lstrip())) + 1


FAULTS = (
    Fault("jmars/**/*.py", "    if value < 0.1:", "    if value < 0.01:", "a duration is told in the wrong unit"),
    Fault(
        "jmars/tensor/**/*.py",
        '    if dtype is None and x.dtype.kind in "biu":',
        '    if dtype is None and x.dtype.kind in "iu":',
        "a result of booleans has the wrong dtype",
    ),
    Fault(
        "jmars/graph.py",
        "        return self.succ_idx[self.succ_ptr[vertex] : self.succ_ptr[vertex + 1]]",
        "        return self.succ_idx[self.succ_ptr[vertex] : self.succ_ptr[vertex + 1] - 1]",
        "a vertex loses its last successor",
    ),
    Fault(
        "jmars/flow.py",
        "                left = consumers[source] - 1",
        "                left = consumers[source] - 2",
        "a value is released before its last reader",
    ),
    Fault(
        "jmars/flow.py",
        "                waiting[user] += 1",
        "                waiting[user] += 0",
        "what is computed again is not waited for",
    ),
    Fault(
        "jmars/kernels/*.py",
        "distance * (n2 / n)",
        "distance * (n1 / n)",
        "means of parts are weighted the wrong way round",
    ),
    Fault(
        "jmars/kernels/*.py",
        '            takes |= ties & (other["index"] < into["index"])',
        '            takes |= ties & (other["index"] > into["index"])',
        "of equal extrema the last one is given",
    ),
    Fault(
        "jmars/kernels/*.py",
        "    if buffer is None or buffer.nbytes < size:",
        "    if buffer is None or buffer.nbytes < size - 64:",
        "scratch is up to 64 bytes too short",
    ),
    Fault(
        "jmars/tensor/**/*.py",
        'low, high = np.searchsorted(run, cuts, "left"), np',
        'low, high = np.searchsorted(run, cuts, "right"), np',
        "one part of a sample sort gets all equal elements",
    ),
    Fault(
        "jmars/tensor/**/*.py",
        "            first, last = -((begin + length - 1 - start) // -step), (start - begin) // -step + 1",
        "            first, last = -((begin + length - start) // -step), (start - begin) // -step + 1",
        "slices with negative steps are off by one",
    ),
    Fault(
        "jmars/tensor/**/*.py",
        "np.minimum(first + 1, count - 1), at - below",
        "np.minimum(first + 1, count - 1), below - at",
        "quantiles interpolate the wrong way",
    ),
    Fault(
        "jmars/tensor/**/*.py",
        "    wrong = found[(found < -length) | (found >= length)]",
        "    wrong = found[(found < -length) | (found > length)]",
        "an index one past the end is not refused",
    ),
    Fault(
        "jmars/tensor/**/*.py",
        "    ascending = bool((np.diff(positions) >= 0).all())",
        "    ascending = bool((np.diff(positions) <= 1).all())",
        "take believes that positions ascend",
    ),
    Fault(
        "jmars/tensor/**/*.py",
        "slice(None)] * (len(shape) - used)",
        "slice(None)] * (len(shape) - used - 1)",
        "an ellipsis stands for one axis too few",
    ),
    Fault(
        "jmars/optimize/*.py",
        "    if np.bincount(end, minlength=1).max(initial=0) > longest:",
        "    if np.bincount(end, minlength=1).max(initial=0) > 10**9:",
        "chains are fused without a limit",
    ),
    Fault(
        "jmars/optimize/*.py",
        "    drawn &= again < graph.nbytes",
        "    drawn &= again > graph.nbytes",
        "what is dear is computed twice and what is cheap is stored",
    ),
    Fault(
        "jmars/plan/**/*.py",
        "                self._unread[chunk] -= 1",
        "                self._unread[chunk] -= 2",
        "a simulated chunk is freed before its last reader",
    ),
    Fault(
        "jmars/plan/simulation.py",
        "    far = (where[src] != where[dst]) & (where[src] >= 0)",
        "    far = (where[src] == where[dst]) & (where[src] >= 0)",
        "only what stays in place is counted as moved",
    ),
    Fault(
        "jmars/plan/**/*.py",
        "        if self.fast_bytes + size > self.capacity:",
        "        if size > self.capacity:",
        "the simulator forgets what memory holds already",
    ),
    Fault(
        "jmars/actors/*.py",
        "            while len(buffer) - start >= 4:",
        "            while len(buffer) - start > 4:",
        "an empty frame at the end of a read is not seen",
    ),
    Fault(
        "jmars/actors/*.py",
        "                answer = self._answers.pop(-number, None)",
        "                answer = self._answers.get(-number, None)",
        "answers are kept for ever",
    ),
    Fault(
        "jmars/storage/*.py",
        "        self.used -= slot\n",
        "        pass\n",
        "bytes given back still count as used",
    ),
    Fault(
        "jmars/scheduler/*.py",
        "            self._log.append(events.OPERANDS_SPREAD, self._job,",
        "            (events.OPERANDS_SPREAD, self._job,",
        "an event is not sent",
    ),
    Fault(
        "jmars/storage/*.py",
        "        self.pins[chunk] = self.pins.get(chunk, 0) + 1",
        "        self.pins[chunk] = 1",
        "a chunk that two read is let go by the first",
    ),
    Fault(
        "jmars/storage/*.py",
        "c for c in movable if uses[c] > rank), key=uses.__getitem__, reverse=True",
        "c for c in movable if uses[c] > rank), key=uses.__getitem__",
        "what is read next is evicted first",
    ),
    Fault(
        "jmars/memory/*.py",
        "        for slot in self._slots.pop((job, operand), ()):",
        "        for slot in self._slots.pop((job, operand), ())[1:]:",
        "a slot of the memory promised to an operand is never released",
    ),
    Fault(
        "jmars/dispatch/*.py",
        "            self._ahead += -seconds if",
        "            self._ahead += seconds if",
        "the first job never gives way to others",
    ),
    Fault(
        "jmars/dispatch/*.py",
        "            return one, key & _MASK",
        "            return one, key >> _BITS",
        "the queue hands out ranks for operands",
    ),
    Fault(
        "jmars/dispatch/*.py",
        "            seen.next += 0.1 * (seconds - seen.next)",
        "            seen.next += 0.1 * (seconds + seen.next)",
        "estimates grow without end",
    ),
    Fault(
        "jmars/processes/*.py",
        "            os.eventfd_read(self.fd)",
        "            self.fd < 0",
        "two sides own one batch",
    ),
    Fault(
        "jmars/processes/*.py",
        "        if step is HealthAction.FENCE and case.seconds < FENCE_SECONDS:",
        "        if step is HealthAction.FENCE and case.seconds > FENCE_SECONDS:",
        "a stopped process is fenced at once, a hung one never",
    ),
    Fault(
        "jmars/scheduler/*.py",
        "after == S.READY and what in REPORTS and not inputs_there",
        "after == S.READY and what in REPORTS and inputs_there",
        "an operand whose inputs are lost is submitted",
    ),
    Fault(
        "jmars/scheduler/*.py",
        "FIRST_DELAY * DELAY_FACTOR ** min(tries - 1, 20)",
        "FIRST_DELAY * DELAY_FACTOR ** min(tries + 10, 20)",
        "a retry waits for half a minute",
    ),
    Fault(
        "jmars/scheduler/*.py",
        "make_rows(Counters(prepared.flow), ",
        "make_rows(prepared.__dict__.setdefault('counters', Counters(prepared.flow)), ",
        "jobs of one structure share their counters",
    ),
    Fault(
        "jmars/scheduler/*.py",
        "            self._held -= left",
        "            self._held -= 0",
        "the event log forgets too much",
    ),
    Fault(
        "jmars/web/*.py",
        "        if len(data) > self.left:",
        "        if len(data) > self.left + 1:",
        "an upload may be a byte too long",
    ),
    Fault(
        "jmars/web/*.py",
        "            ranges.append(range(index % length, index % length + 1))",
        "            ranges.append(range(index % length, index % length + 2))",
        "an index over HTTP gives two rows",
    ),
    Fault(
        "jmars/deploy/*.py",
        "        return now >= self._ends",
        "        return now > self._ends + 3600",
        "a lease ends an hour late",
    ),
    Fault(
        "jmars/client/*.py",
        "            if group and (held + size > self._window or len(group) == BATCH):",
        "            if held + size < 0:",
        "a fetch pins all chunks at once",
    ),
    Fault(
        "jmars/notebook/*.py",
        "    if not text.isdecimal() or int(text) < 1:",
        "    if not text.isdecimal() or int(text) < 0:",
        "a cell accepts -w 0",
    ),
)
