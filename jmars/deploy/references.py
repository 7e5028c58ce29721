"""References: clients' holds on tensors that they computed, uploaded or attached to.

A tensor without a holder is dropped. A client's end ends all holds of the client; on a cluster that outlives clients,
results that the client still held stay with the jobs that made them, for as long as these jobs are remembered. Decides
alone; `clients` acts. Source: docs/decisions/0026-whose-tensors.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jmars.model.limits import REMEMBERED_JOBS

__all__ = ["References"]


class References:
    """Holders of tensors.

    Parameters
    ----------
    outlives
        Whether results stay with their jobs when their client is gone.

    Examples
    --------
    >>> held = References(outlives=False)
    >>> held.hold(1, ["a"])
    >>> held.hold(2, ["a"])
    >>> held.drop(1, ["a"]), held.drop(2, ["a"])
    ([], ['a'])
    """

    def __init__(self, outlives: bool) -> None:
        self._outlives = outlives
        self._holders: dict[str, set[int | str]] = {}  # key: numbers of clients, and ids of jobs
        self._owner: dict[str, set[int]] = {}  # job that has not ended: clients that want its results
        self._results: dict[str, list[str]] = {}  # ended job: keys that it left, oldest job first
        self._inputs: dict[str, list[str]] = {}  # job that has not ended: what its client held as it went

    def hold(self, client: int, keys: Iterable[str]) -> None:
        """Add a client's hold on tensors."""
        for key in keys:
            self._holders.setdefault(key, set()).add(client)

    def drop(self, holder: int | str, keys: Iterable[str]) -> list[str]:
        """End a holder's hold on tensors; returns tensors without a holder now."""
        free = []
        for key in keys:
            holders = self._holders.get(key, set())
            holders.discard(holder)
            if not holders:
                self._holders.pop(key, None)
                free.append(key)
        return free

    def wants(self, client: int, job: str) -> None:
        """A client has submitted or attached to a job: the client holds the results, now or when they come."""
        if job in self._results:
            self.hold(client, self.results(job))
        else:
            self._owner.setdefault(job, set()).add(client)

    def ended(self, job: str, results: Sequence[str]) -> list[str]:
        """Add the results of an ended job; returns keys without a holder."""
        if job in self._results:
            return []  # told twice
        owners = self._owner.pop(job, set())
        free = []
        for key in results:
            if owners:
                self._holders.setdefault(key, set()).update(owners)
            elif self._outlives:
                self._holders.setdefault(key, set()).add(job)
            elif key not in self._holders:
                free.append(key)
        kept = self._inputs.pop(job, ())
        free += self.drop(job, [key for key in kept if key not in results])
        self._results[job] = list(results)
        while len(self._results) > REMEMBERED_JOBS:
            free += self.forget(next(iter(self._results)))
        return free

    def forget(self, job: str) -> list[str]:
        """End a job's hold on results; returns keys without a holder now."""
        return self.drop(job, self._results.pop(job, ()))

    def left(self, client: int) -> list[str]:
        """End all holds of a client; returns keys without a holder now."""
        wanted = [job for job, owners in self._owner.items() if client in owners]  # they may read what it holds
        for job in wanted:
            self._owner[job].discard(client)
        held = [key for key, holders in self._holders.items() if client in holders]
        if self._outlives:
            giver = {key: job for job, keys in self._results.items() for key in keys}
            for key in held:
                if key in giver:
                    self._holders[key].add(giver[key])
            for job in wanted:
                self.keep_for(job, held)
        return self.drop(client, held)

    def keep_for(self, job: str, keys: Sequence[str]) -> None:
        """Hold tensors for a job until its end, since a job that has not begun yet may read them."""
        for key in keys:
            self._holders[key].add(job)
        self._inputs.setdefault(job, []).extend(keys)

    def is_held(self, key: str) -> bool:
        """Whether a tensor has a holder."""
        return key in self._holders

    def results(self, job: str) -> list[str]:
        """Results of a job that have a holder."""
        return [key for key in self._results.get(job, ()) if key in self._holders]
