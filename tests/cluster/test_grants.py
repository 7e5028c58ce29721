"""Functions of users that want more memory than there is: they fail alone, by name, and nobody else is harmed."""

import os
import sys
import time

import numpy as np
import psutil
import pytest

import jmars.tensor as mt
from jmars.client import Cluster
from jmars.errors import MemoryLimitError, WorkerLostError
from jmars.remote import spawn

MiB = 2**20
LIMIT = 400 * MiB


def test_a_function_that_wants_six_gigabytes_fails_by_name():
    def grab(block):
        return block + np.ones(6 * 2**30, np.uint8)[: len(block)]

    with Cluster(n_workers=2, memory_limit=LIMIT) as cluster:
        good = cluster.submit(mt.map_blocks(lambda block: block + 1, mt.arange(40, chunk_size=1), dtype=int))
        job = cluster.submit(mt.map_blocks(grab, mt.arange(4.0, chunk_size=2), dtype=float))
        begun = time.monotonic()
        with pytest.raises(MemoryLimitError) as caught:
            job.result(30)
        assert time.monotonic() - begun < 10
        for part in ("grab", "it ran alone", "6.00 GiB", "leaves", "chunk_size"):
            assert part in str(caught.value), str(caught.value)
        assert good.result(30).tolist() == list(range(1, 41))


def test_a_function_that_grows_in_pieces_is_held_near_the_limit():
    def hoard(block):
        kept = [np.ones(2**20, np.uint8)]
        while len(kept) < 6 * 1024:
            kept.append(np.ones(2**20, np.uint8))
        return block

    with Cluster(n_workers=2, memory_limit=LIMIT) as cluster:
        job = cluster.submit(mt.map_blocks(hoard, mt.arange(4, chunk_size=2), dtype=int))
        peak = 0
        while job.state in ("preparing", "running", "cancelling"):
            peak = max(peak, cluster.info()["memory"]["resident"])
            time.sleep(0.02)
        with pytest.raises(MemoryLimitError, match="hoard wants more memory than there is"):
            job.result(30)
        assert max(peak, cluster.info()["memory"]["peak"]) <= 1.1 * LIMIT


def test_a_large_function_runs_again_alone_and_its_like_reserve_as_much(tmp_path):
    def much(block, folder):
        import os
        import uuid

        import numpy as np

        open(os.path.join(folder, uuid.uuid4().hex), "w").close()
        return block + np.ones(150 * 2**20, np.uint8)[0]

    with Cluster(n_workers=2, memory_limit=LIMIT) as cluster:
        x = mt.arange(6, chunk_size=1)
        job = cluster.submit(mt.map_blocks(much, x, dtype=int, folder=str(tmp_path)))
        assert job.result(60).tolist() == list(range(1, 7))
        runs = len(os.listdir(tmp_path))
        assert 7 <= runs <= 10, runs  # those that ran before it was known, at most, ran twice


@pytest.mark.long
def test_memory_freed_by_functions_does_not_stay_beside_new_chunks():
    def pieces(block):
        kept = [np.ones(2**17) for _ in range(120)]  # 120 MiB, too small each to be a mapping of its own
        return block + len(kept)

    with Cluster(n_workers=2, memory_limit=LIMIT) as cluster:
        cluster.submit(mt.map_blocks(pieces, mt.ones(12, chunk_size=1), dtype=float)).result(60)
        cluster.submit(mt.ones(LIMIT // 8, chunk_size=2**17) + 1).wait(60)
        assert cluster.info()["memory"]["peak"] <= 1.1 * LIMIT


@pytest.mark.long
def test_free_memory_parted_by_a_view_gives_a_function_the_larger_part():
    with Cluster(n_workers=1, memory_limit=LIMIT):
        chunks = [(mt.ones(2**21, chunk_size=2**21) + number).execute() for number in range(20)]  # 16 MiB each
        view = chunks[10].fetch(copy=False)
        del chunks
        much = mt.map_blocks(lambda block: block + np.ones(110 * MiB // 8)[0], mt.ones(2, chunk_size=1), dtype=float)
        assert much.fetch().tolist() == [2, 2] and view[0] == 11


IMPORTED = """
import numpy as np
try:
    np.ones(130 * 2**20, np.uint8)
except MemoryError:
    raise SyntaxError("expected ':'") from None
"""


@pytest.mark.parametrize(("source", "calls"), [(IMPORTED, 2), ("import no_such_library", 1)])
def test_an_import_that_fails_for_memory_runs_again_whatever_it_raises(tmp_path, source, calls):
    (tmp_path / "a_library.py").write_text(source)

    def imports(folder):
        with open(os.path.join(folder, "calls"), "a") as file:
            file.write("x")
        sys.path.insert(0, folder)
        try:
            return __import__("a_library").__name__
        finally:
            sys.path.remove(folder)

    with Cluster(n_workers=2, memory_limit=LIMIT):
        task = spawn(imports, (str(tmp_path),))
        if calls == 2:
            assert task.fetch() == "a_library"
        else:
            with pytest.raises(ModuleNotFoundError, match="no_such_library"):
                task.fetch()
    assert (tmp_path / "calls").read_text() == "x" * calls


def test_an_import_that_fails_with_all_memory_has_its_own_error(tmp_path):
    (tmp_path / "a_library.py").write_text("x = = 1")

    def imports(folder):
        sys.path.insert(0, folder)
        return __import__("a_library")

    with Cluster(n_workers=1, memory_limit=LIMIT), pytest.raises(SyntaxError, match=r"a_library\.py, line 1"):
        spawn(imports, (str(tmp_path),)).fetch()


def test_a_spawned_function_and_one_for_lines_are_held_too():
    def large(*_):
        return np.ones(2**33, np.uint8)[:2]

    with Cluster(n_workers=1, memory_limit=LIMIT) as cluster:
        with pytest.raises(MemoryLimitError, match="large"):
            cluster.submit(
                mt.apply_gufunc(large, "(n)->()", mt.ones((4, 4), chunk_size=(2, 4)), output_dtypes=float)
            ).result(30)
        with pytest.raises(MemoryLimitError, match="large"):
            cluster.submit(spawn(large)).result(30)


@pytest.mark.long
def test_one_that_takes_memory_by_its_children_is_ended_and_named():
    def breed(block):
        import subprocess
        import sys

        code = "import time; x = bytearray(60 * 2**20); time.sleep(30)"
        children = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(20)]
        try:
            for child in children:
                child.wait()
        finally:
            for child in children:
                child.kill()
        return block

    match = "breed of line .* took more memory than there is and was ended"
    with Cluster(n_workers=1, memory_limit=LIMIT) as cluster, pytest.raises(MemoryLimitError, match=match):
        cluster.submit(mt.map_blocks(breed, mt.arange(2, chunk_size=2), dtype=int)).result(60)


def test_a_function_may_start_threads_though_memory_is_short():
    def threaded(block):
        import threading

        barrier = threading.Barrier(9)
        threads = [threading.Thread(target=barrier.wait) for _ in range(8)]
        for thread in threads:
            thread.start()
        barrier.wait()
        for thread in threads:
            thread.join()
        return block + 1

    with Cluster(n_workers=2, memory_limit=LIMIT) as cluster:
        held = cluster.submit(mt.ones(180 * MiB // 8, chunk_size=2**20))  # so that no function gets more than it says
        held.wait(30)
        job = cluster.submit(mt.map_blocks(threaded, mt.arange(20, chunk_size=1), dtype=int))
        assert job.result(30).tolist() == list(range(1, 21))
        assert all(worker["restarts"] == 0 for worker in cluster.info()["workers"])


def test_a_memory_error_of_the_users_own_comes_back_as_one():
    def refuse(block):
        raise MemoryError("I do not want to")

    with Cluster(n_workers=1, memory_limit=LIMIT) as cluster, pytest.raises(MemoryError, match="I do not want to"):
        cluster.submit(mt.map_blocks(refuse, mt.arange(2, chunk_size=2), dtype=int)).result(30)


def test_the_cap_ends_with_the_function():
    def fail(block):
        raise ValueError("mine")

    with Cluster(n_workers=1, memory_limit=LIMIT) as cluster:
        with pytest.raises(ValueError, match="mine"):
            cluster.submit(mt.map_blocks(fail, mt.arange(2, chunk_size=2), dtype=int)).result(30)
        pid = cluster.info()["workers"][0]["pid"]
        assert psutil.Process(pid).rlimit(psutil.RLIMIT_DATA)[0] == psutil.RLIM_INFINITY


@pytest.mark.long
def test_zarr_with_its_own_threads_is_read_though_memory_is_short(tmp_path):
    zarr = pytest.importorskip("zarr", reason="zarr is not installed")
    stored = zarr.create_array(str(tmp_path / "a.zarr"), shape=(1000, 1000), chunks=(250, 250), dtype="f8")
    stored[:] = 1.5
    with Cluster(n_workers=2, memory_limit=LIMIT) as cluster:
        held = cluster.submit(mt.ones(180 * MiB // 8, chunk_size=2**20))  # so that no function gets more than it says
        held.wait(30)
        assert cluster.submit((mt.from_zarr(str(tmp_path / "a.zarr")) + 1).sum()).result(60) == 2.5e6
    sys.modules["zarr.core.sync"].cleanup_resources()  # its threads in this process


def test_a_leaking_function_does_not_grow_its_process_without_end():
    def leak(block):
        import sys

        sys.modules.setdefault("leaked", []).append(np.ones(12 * MiB, np.uint8))
        return block + 1

    with Cluster(n_workers=1, memory_limit=LIMIT) as cluster:
        x = mt.map_blocks(leak, mt.arange(40, chunk_size=1), dtype=int)
        assert np.array_equal(cluster.submit(x).result(60), np.arange(1, 41))
        info = cluster.info()
        assert info["memory"]["peak"] <= 1.1 * LIMIT, "480 MiB were left behind in all"
        (worker,) = info["workers"]
        assert 1 <= worker["restarts"] <= 12
        assert not any("died" in line or "lost" in line for line in cluster.why().splitlines())


@pytest.mark.long
def test_what_functions_share_with_others_counts_as_left_behind():
    def leak(block):
        import mmap
        import sys

        shared = mmap.mmap(-1, 12 * MiB)  # MAP_SHARED: no limit of the system counts it
        shared[:] = bytes(12 * MiB)
        sys.modules.setdefault("shared", []).append(shared)
        time.sleep(0.3)
        return block + 1

    with Cluster(n_workers=1, memory_limit=LIMIT) as cluster:
        x = mt.map_blocks(leak, mt.arange(10, chunk_size=1), dtype=int)
        assert np.array_equal(cluster.submit(x).result(60), np.arange(1, 11))
        assert cluster.info()["workers"][0]["restarts"] >= 1


@pytest.mark.long
def test_a_library_that_asks_for_memory_for_ever_is_ended():
    pytest.importorskip("scipy")

    def loads(value):
        import pathlib
        import resource

        import numpy as np

        taken = int(pathlib.Path("/proc/self/statm").read_text().split()[5]) * 4096
        kept = np.zeros(max(0, resource.getrlimit(resource.RLIMIT_DATA)[0] - taken - 20 * 2**20), np.uint8)
        import scipy.linalg  # its OpenBLAS wants 32 MiB as it is loaded, and asks again and again

        return value + len(kept) + len(scipy.linalg.__name__)

    with Cluster(n_workers=2, memory_limit=LIMIT) as cluster:
        job = cluster.submit(spawn(loads, args=(1,)))
        with pytest.raises((MemoryLimitError, WorkerLostError), match=r"loads[\s\S]*memory"):
            job.result(60)
        assert cluster.submit(spawn(abs, args=(-3,))).result(30) == 3


@pytest.mark.long
def test_after_one_large_call_the_next_ones_run_beside_each_other():
    def once_much(block):
        import time

        import numpy as np

        assert block[0, 0] or np.ones(150 * 2**20, np.uint8)[0]
        begun = time.monotonic()
        time.sleep(0.05)
        return np.array([[begun, time.monotonic()]])

    with Cluster(n_workers=2, memory_limit=LIMIT) as cluster:
        x = mt.arange(60, chunk_size=1)[:, None] * mt.ones(2, chunk_size=2)
        begun, ended = cluster.submit(mt.map_blocks(once_much, x, dtype=float)).result(60).T
        order = np.argsort(begun)
        beside = begun[order][1:] < ended[order][:-1]
        assert beside[-20:].sum() >= 8, beside
