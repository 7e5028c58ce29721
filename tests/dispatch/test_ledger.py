"""Ledger: what a job took is told when it ends, and learnt; a profile that cannot be kept breaks nothing."""

import asyncio
import logging
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from jmars.dispatch import ledger as module
from jmars.dispatch.ledger import Ledger
from jmars.kernels.expression import Expression, Node
from jmars.kernels.program import Call, ChunkType, Elementwise, Program, single
from jmars.model.limits import PAGE
from jmars.model.messages import JobTable
from jmars.plan import Profile, signature
from jmars.plan.costs import gpu_key
from jmars.plan.devices import gpu_seconds
from jmars.storage.arena import Allocator
from jmars.storage.chunks import Chunks

F8 = np.dtype("f8")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JMARS_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def negative(n: int = 1000) -> Program:
    chunk = ChunkType((n,), F8)
    return single("neg", (chunk,), Elementwise(Expression((F8,), (Node("negative", (0,), F8),)), (0,), chunk))


class Host:
    """A ledger over an arena, with nothing that runs."""

    def __init__(self) -> None:
        self.arena = Allocator(64 * PAGE)
        self.chunks = Chunks(self.arena, lambda chunk: chunk)
        self.disk = SimpleNamespace(seconds=0.0)
        self.ledger = Ledger(self.arena, self.chunks, lambda: self.disk.seconds, 2)
        self.table: JobTable

    def open(self, stored: tuple[int, ...] = (), operands: int = 1) -> None:
        """A job of so many operands, which reads these chunks."""
        n = operands + len(stored)
        lists = {name: [0] * n for name in ("inputs", "nbytes", "work", "rank", "readers")}
        program, chunk = [-1] * len(stored) + [0] * operands, [*stored, *range(1000, 1000 + operands)]
        self.table = JobTable(
            "job", 1, [], program, args=None, base=1000, chunk=chunk, kept=0, stored=range(len(stored)), **lists
        )
        self.ledger.open_job(self.table)

    def close(self) -> dict:
        return self.ledger.close_job(self.table, [negative()])


def test_a_job_tells_the_most_memory_that_it_took_beside_what_lay_there():
    host = Host()
    host.arena.allocate(4 * PAGE)  # the result of another job
    host.open()
    slot = host.arena.allocate(10 * PAGE)
    host.arena.free(slot)
    assert host.close()["peak"] == 10 * PAGE
    host.open()
    assert host.close()["peak"] == 0


def test_chunks_that_a_job_reads_count_as_its_own():
    host = Host()
    host.chunks.memory[7] = host.arena.allocate(4 * PAGE)
    host.open(stored=(7,))
    host.arena.allocate(PAGE)
    assert host.close()["peak"] == 5 * PAGE


def test_a_job_tells_what_was_spilled_while_it_ran():
    host = Host()
    host.chunks.spilled = 100
    host.open()
    host.chunks.spilled += 50
    assert host.close()["spilled"] == 50


def test_operands_teach_the_profile_when_their_job_ends():
    host = Host()
    host.open()
    for seconds in (0.1, 0.2, 0.3):
        host.ledger.estimate.learn(0, seconds)
    known = signature(negative())
    assert host.ledger.profile.seconds(known.key, known.size) is None
    host.close()
    assert host.ledger.profile.seconds(known.key, known.size) == pytest.approx(0.2)
    assert host.ledger.profile.seconds(known.family, known.size) == pytest.approx(0.2)
    assert host.ledger.estimate.take() == {}
    assert host.ledger.estimate.seconds(0) > 0


def test_results_of_unknown_size_teach_the_profile():
    host = Host()
    host.open()
    some = ChunkType((-1,), F8)
    found, bounded = (single("found", (), Call(print, (), (), kind)) for kind in (some, ChunkType((-1,), F8, most=80)))
    for number in range(3):
        host.ledger.estimate.learn(number, 0.1 * number + 0.1)
    host.ledger.close_job(host.table, [found, found, bounded], {0: 800, 1: 9, 2: 70, 3: 10_000})
    assert host.ledger.profile.results == {signature(found).key: 800}


@pytest.mark.parametrize("users", [False, True])
def test_what_a_users_function_takes_says_nothing_of_other_kernels(users):
    host = Host()
    chunk = ChunkType((1000,), F8)
    slept = single("nap", (chunk,), Call(print, (), (0,), chunk, runs_user_code=users))
    host.open()
    host.ledger.estimate.learn(0, 1.0)
    host.ledger.close_job(host.table, [slept])
    assert (host.ledger.profile.scale == 1.0) is users


def test_operands_on_fresh_memory_do_not_spoil_what_is_known():
    host, known = Host(), signature(negative())
    host.open()
    host.ledger.estimate.learn(0, 0.9, fresh=PAGE)
    host.close()
    assert host.ledger.profile.seconds(known.key, known.size) == 0.9
    host.open()
    host.ledger.estimate.learn(0, 0.9, fresh=PAGE)
    host.ledger.estimate.learn(0, 0.1)
    host.close()
    assert host.ledger.profile.seconds(known.key, known.size) == 0.1


def test_disk_and_dispatch_are_learnt_from_jobs_that_use_them():
    host = Host()
    disk, dispatch = host.ledger.profile.disk, host.ledger.profile.dispatch
    host.open()
    host.close()
    assert (host.ledger.profile.disk, host.ledger.profile.dispatch) == (disk, dispatch)
    host.open(operands=module.LEAST_OPERANDS)
    host.chunks.spilled = module.LEAST_MOVED
    host.disk.seconds = 0.001
    host.close()
    assert host.ledger.profile.disk > disk
    assert host.ledger.profile.dispatch != dispatch


def test_waiting_for_a_core_makes_others_busy_not_operands_dear():
    host, known = Host(), signature(negative())
    host.open()
    host.ledger.estimate.learn(0, 0.1)
    host.ledger.waited = 0.1  # as long as it computed
    host.close()
    assert host.ledger.profile.seconds(known.key, known.size) == 0.1
    assert host.ledger.profile.busy == pytest.approx(1.5)  # the newest job counts half
    host.open()
    host.ledger.estimate.learn(0, 0.1)
    host.close()
    assert host.ledger.profile.busy == pytest.approx(1.25)


def test_what_was_learnt_is_there_in_the_next_session():
    host, known = Host(), signature(negative())
    host.open()
    host.ledger.estimate.learn(0, 0.25)
    host.close()
    host.ledger.save()
    other = Host()
    other.ledger.load()
    assert other.ledger.profile.seconds(known.key, known.size) == 0.25


def test_an_unusable_cache_is_logged_once_and_breaks_nothing(cache: Path, caplog):
    cache.write_text("a file where the folder should be")
    host = Host()
    with caplog.at_level(logging.WARNING):
        host.ledger.load()
    assert "what operands cost is not kept" in caplog.text
    assert host.ledger.profile == Profile()
    host.ledger.profile.observe("a", 8, 1.0)
    host.ledger.save()
    assert host.ledger.profile.changed == {"a"}


def test_what_was_learnt_is_saved_when_a_job_ends_but_not_at_every_end(cache: Path):
    async def two_jobs() -> None:
        host = Host()
        host.ledger._saved = -module.SAVE_SECONDS  # long ago
        saves = set()
        for _ in range(2):
            host.open()
            host.ledger.estimate.learn(0, 0.25)
            host.close()
            saves.add(host.ledger._saving)
            await host.ledger._saving
        assert len(saves) == 1  # the second end came too soon
        assert host.ledger.profile.changed  # and what it taught waits

    asyncio.run(two_jobs())
    assert Profile.load().costs


def test_seconds_on_a_gpu_are_learnt_apart_from_those_of_cores():
    host, known = Host(), signature(negative())
    host.open()
    host.ledger.estimate.learn(0, 0.2)
    host.ledger.on_gpu.learn(0, 0.5, fresh=8000)  # with its input copied, that is until there is a better one
    host.close()
    profile = host.ledger.profile
    first = 0.5 - 8000 / profile.pcie
    assert gpu_seconds(negative(), profile) == pytest.approx(first)
    assert profile.seconds(known.key, known.size) == pytest.approx(0.2)
    for seconds in (0.03, 0.01):
        host.open()
        host.ledger.on_gpu.learn(0, seconds)
        host.ledger.on_gpu.learn(0, 9.0, fresh=8000)
        host.close()
    assert gpu_seconds(negative(), profile) < 0.03
    assert profile.seconds(gpu_key(known.family), known.size) == gpu_seconds(negative(), profile)
    assert profile.seconds(known.key, known.size) == pytest.approx(0.2)
    assert profile.scale == pytest.approx(_scale(0.2)), "the ratio of a core to the roofline is one of cores"


def _scale(seconds: float) -> float:
    host = Host()
    host.open()
    host.ledger.estimate.learn(0, seconds)
    host.close()
    return host.ledger.profile.scale


def test_the_speed_of_copies_to_gpus_is_learnt_and_kept():
    host = Host()
    before = host.ledger.profile.pcie
    for nbytes, learnt in ((1000, False), (10**9, True)):
        host.open()
        host.ledger.copied(nbytes, nbytes / 2e10)
        host.close()
        assert (host.ledger.profile.pcie > before) is learnt
    assert host.ledger.profile.pcie == pytest.approx(before + 0.3 * (2e10 - before), rel=1e-4)
    assert Profile.of(host.ledger.profile.as_data()).pcie == host.ledger.profile.pcie
