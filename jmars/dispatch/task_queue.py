"""Ready operands that wait for a worker, by job and rank.

Only decides the order. `fair_share` chooses the job; without a choice the earliest job goes first. Of a job a worker
takes an operand planned for itself, else from the longest queue: chunks of a host lie in memory that all workers share,
so stealing moves no data. While memory is short, rank goes before place: a worker takes the lowest rank of all.
Operands of a job under `dispatch: late`, and pinned operands, are offers to their workers, and no other takes them.

An offer of a ready operand goes to several workers: the first worker that takes the operand has it. An offer stands in
the queues of several workers. The first take withdraws the offer: other workers skip a withdrawn offer, so a late take
gets the next operand, or none. A worker takes an operand just before the run (`dispatch: late`), so an operand never
waits for a blocked worker. An offer to a single worker is a pin.

`FairShare` divides the workers among running jobs: the earliest job gets half of the time, the shortest other job the
rest. So a short job does not wait for a long job, the earliest job is at most twice as late as alone, and all jobs
become the earliest in the end, so that no job starves. Chunks of two jobs are in memory at a time, not of all waiting
jobs; while memory is short dispatch runs the earliest job first instead.
Source: docs/explanation/seeds.md, "Ordering operands", "Operand states" (READY);
docs/decisions/0046-offers-on-request.md; Kleinrock, "Queueing Systems II" (1976), processor sharing; Schrage 1968,
shortest remaining time first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from heapq import heappop, heappush

_BITS = 31  # of an operand and of a rank
_MASK = (1 << _BITS) - 1


class TaskQueue:
    """Heaps by job and worker; a key is (rank, operand) in an integer.

    The last `gpus` of the workers have a GPU; they take no operands of the others, and the others none of theirs.

    Attributes
    ----------
    lost
        Workers without a process; operands pinned to them go where they are pushed to.
    """

    def __init__(self, workers: int, gpus: int = 0) -> None:
        self._workers, self._cores, self._gpus = workers, workers - gpus, gpus
        self.lost: set[int] = set()
        self._jobs: dict[int, list[list[int]]] = {}  # by job number; only jobs with waiting operands
        self._offers: dict[int, Offers] = {}  # by job number; only open jobs that make offers
        self._pinned: dict[int, Mapping[int, int]] = {}
        self._late: set[int] = set()
        self._everyone = range(workers)

    def open_job(self, number: int, late: bool, pinned: Mapping[int, int]) -> None:
        """A job whose operands are offered to all workers (`late`), or some to the worker they are pinned to."""
        if late or pinned:
            self._offers[number], self._pinned[number] = Offers(self._workers), pinned
        if late:
            self._late.add(number)

    def grow(self, workers: int) -> None:
        """There are so many workers now."""
        more = range(self._workers, workers)
        if not more:
            return
        self._workers, self._cores, self._everyone = workers, workers - self._gpus, range(workers)
        for heaps in self._jobs.values():
            heaps += [[] for _ in more]
        for number, offers in self._offers.items():
            offers.grow(workers)
            for key in list(offers) if number in self._late else ():
                if key & _MASK not in self._pinned[number]:
                    offers.make(key, more)

    def redirect(self, worker: int, to: int) -> None:
        """Operands that are planned for a worker are planned for worker `to`."""
        for heaps in self._jobs.values():
            heaps[to] = sorted(heaps[to] + heaps[worker])  # a sorted list is a heap
            heaps[worker] = []

    def close_job(self, number: int) -> None:
        """Forget a job of which no operand waits."""
        self._offers.pop(number, None)
        self._pinned.pop(number, None)
        self._late.discard(number)

    @property
    def jobs(self) -> Collection[int]:
        """Numbers of the jobs with waiting operands."""
        return self._jobs.keys()

    def push(self, worker: int, number: int, rank: int, operand: int) -> None:
        """Add an operand that is planned for `worker`."""
        heaps = self._jobs.get(number)
        if heaps is None:
            heaps = self._jobs[number] = [[] for _ in range(self._workers)]
        if number in self._offers:
            pin = self._pinned[number].get(operand)
            if pin in self.lost:
                pin = None
            if pin is not None or number in self._late:
                to = self._everyone if pin is None else (pin,)
                self._offers[number].make((rank << _BITS) | operand, to)
                return
        heappush(heaps[worker], (rank << _BITS) | operand)

    def pop(
        self,
        worker: int,
        strict: bool = False,
        before: tuple[int, int] | None = None,
        own: bool = False,
        number: int | None = None,
        ready: bool = True,
        only: int | None = None,
    ) -> tuple[int, int] | None:
        """(Job number, operand) that `worker` should run next; None if there is none.

        Parameters
        ----------
        strict
            Whether rank goes before place, as while memory is short.
        before
            Bound: only operands before this (job number, rank).
        own
            Only operands planned for this worker.
        number
            The job to take from; if none of its operands waits, the earliest job.
        ready
            Whether the worker said that it is about to run; else it takes no operand of a job under `dispatch: late`.
        only
            The only job to take from.
        """
        jobs = self._jobs
        for one in sorted(jobs, key=lambda job: (job != number, job)) if len(jobs) > 1 else jobs:
            if only not in (None, one):
                continue
            heaps, offers = jobs[one], self._offers.get(one)
            heap = heaps[worker]
            if strict and not own:
                heap = min([other for other in self._open_to(worker, heaps) if other], default=heap)
            elif not (heap or own):
                heap = max(self._open_to(worker, heaps), key=len)
            offer = offers.best(worker) if offers is not None and (ready or one not in self._late) else None
            if not heap and offer is None:
                continue
            key = heap[0] if offer is None else min([*heap[:1], offer])
            if before is not None and (one, key >> _BITS) >= before:
                return None
            if offers is not None and key == offer:
                offers.take(worker)
            else:
                heappop(heap)
            if not offers and not any(heaps):
                del jobs[one]
            return one, key & _MASK
        return None

    def _open_to(self, worker: int, heaps: list[list[int]]) -> list[list[int]]:
        """The heaps that a worker may take from: those of its kind."""
        if not self._gpus:
            return heaps
        return heaps[self._cores :] if worker >= self._cores else heaps[: self._cores]

    def load(self, worker: int) -> int:
        """Number of operands that wait for a worker."""
        return sum(len(heaps[worker]) for heaps in self._jobs.values())

    def is_offered(self, worker: int) -> bool:
        """Whether operands of jobs under `dispatch: late` wait that this worker may take."""
        return any(self._offers[number].best(worker) is not None for number in self._late)

    def replan(self, number: int, rank: Sequence[int], workers: Sequence[int]) -> None:
        """Give operands of a job new ranks, and new workers where not negative."""
        offered = self._offers[number].withdraw() if number in self._offers else []
        for worker, heap in enumerate(self._jobs.pop(number, ())):
            for operand in (key & _MASK for key in heap):
                self.push(worker if workers[operand] < 0 else workers[operand], number, rank[operand], operand)
        for operand in (key & _MASK for key, _ in offered):
            self.push(0, number, rank[operand], operand)  # to the same workers

    def take_back(self, number: int, operands: Collection[int]) -> list[int]:
        """Remove those of some operands of a job that wait, but no offers; returns them."""
        heaps = self._jobs.get(number, ())
        found: list[int] = []
        for heap in heaps:
            taken = [key for key in heap if key & _MASK in operands]
            if taken:
                found += [key & _MASK for key in taken]
                heap[:] = sorted(set(heap).difference(taken))  # a sorted list is a heap
        if found and not self.size(number):
            del self._jobs[number]
        return found

    def drop(self, number: int) -> list[int]:
        """Remove all operands of a job; returns them."""
        found = self.waiting(number)
        self._jobs.pop(number, None)
        if number in self._offers:
            self._offers[number].withdraw()
        return found

    def waiting(self, number: int) -> list[int]:
        """Waiting operands of a job, in no order."""
        heaps = self._jobs.get(number, ())
        return [key & _MASK for keys in (*heaps, self._offers.get(number, ())) for key in keys]

    def size(self, number: int) -> int:
        """Number of waiting operands of a job."""
        return sum(map(len, self._jobs.get(number, ()))) + len(self._offers.get(number, ()))

    def count(self) -> dict[int, int]:
        """Number of waiting operands, by job number."""
        return {number: self.size(number) for number in self._jobs}

    def __len__(self) -> int:
        return sum(map(self.size, self._jobs))

    def __bool__(self) -> bool:
        return bool(self._jobs)


class Offers:
    """Offers of a job; a key is an operand's place in the order of operands.

    Examples
    --------
    >>> offers = Offers(workers=3)
    >>> offers.make(key=5, to=(0, 2))
    >>> offers.best(1) is None, offers.best(2), offers.take(0), offers.best(2) is None
    (True, 5, 5, True)
    """

    def __init__(self, workers: int) -> None:
        self._heaps: list[list[int]] = [[] for _ in range(workers)]
        self._open: dict[int, Sequence[int]] = {}  # key: workers that have the offer

    def make(self, key: int, to: Sequence[int]) -> None:
        """Offer an operand to workers; a key with an offer gets more workers."""
        known = self._open.get(key, ())
        self._open[key] = (*known, *to)
        for worker in to:
            if worker not in known:
                heappush(self._heaps[worker], key)

    def best(self, worker: int) -> int | None:
        """The lowest key that a worker may take now."""
        heap, is_open = self._heaps[worker], self._open
        while heap and (heap[0] not in is_open or worker not in is_open[heap[0]]):
            heappop(heap)  # taken by a faster worker
        return heap[0] if heap else None

    def take(self, worker: int) -> int:
        """Take the lowest key of a worker, and withdraw the offer from other workers; raises LookupError without
        an offer.
        """
        key = self.best(worker)
        if key is None:
            raise LookupError(f"nothing is offered to worker {worker}")
        del self._open[key]
        heappop(self._heaps[worker])
        return key

    def grow(self, workers: int) -> None:
        """There are so many workers now."""
        self._heaps += [[] for _ in range(workers - len(self._heaps))]

    def withdraw(self) -> list[tuple[int, Sequence[int]]]:
        """Withdraw all offers; returns their keys and workers."""
        found = list(self._open.items())
        self._open.clear()
        for heap in self._heaps:
            heap.clear()
        return found

    def __iter__(self) -> Iterator[int]:
        return iter(self._open)

    def __len__(self) -> int:
        return len(self._open)


class FairShare:
    """Seconds given to jobs while the earliest job and a later job both waited.

    Examples
    --------
    >>> share, operands = FairShare(), {1: 5000, 2: 900, 3: 10}
    >>> share.next({1, 2, 3}, 1, operands.__getitem__)
    1
    >>> share.charge(1, 0.002)
    >>> share.next({1, 2, 3}, 1, operands.__getitem__)
    3
    """

    def __init__(self) -> None:
        self._ahead = 0.0  # seconds that later jobs got beyond the earliest
        self._earliest = 0
        self._both = False  # the earliest job and a later job both waited at the last `next`

    def next(self, waiting: Collection[int], earliest: int, size_of: Callable[[int], int]) -> int:
        """The job that gets a worker next.

        Parameters
        ----------
        waiting
            Numbers of the jobs with waiting operands, at least one.
        earliest
            Number of the earliest open job, with or without waiting operands.
        size_of
            Gives the number of operands of a job.
        """
        if earliest != self._earliest:
            self._earliest, self._ahead = earliest, 0.0
        self._both = len(waiting) > 1 and earliest in waiting
        if self._both and self._ahead >= 0:
            return earliest
        return min((one for one in waiting if one != earliest), key=lambda one: (size_of(one), one), default=earliest)

    def rest(self) -> None:
        """There is no choice of jobs: seconds until the next `next` are charged to no job."""
        self._both = False

    def charge(self, number: int, seconds: float) -> None:
        """A worker got operands of a job that are predicted to take `seconds`."""
        if self._both:
            self._ahead += -seconds if number == self._earliest else seconds
