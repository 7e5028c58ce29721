"""What is believed of measurements, and what a file of them survives."""

import json
import math
import multiprocessing
import warnings
from pathlib import Path

import pytest

from jmars.errors import ClusterError
from jmars.plan import Profile
from jmars.plan.costs import NEWEST, REMEMBERED


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JMARS_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def the_file(cache: Path) -> Path:
    (found,) = cache.glob("costs-*.json")
    return found


def of(key: str, nbytes: float, seconds: float, **more: float) -> Profile:
    """A profile that has seen two jobs."""
    profile = Profile(**more)
    profile.observe(key, nbytes, seconds)
    profile.observe(key, nbytes, seconds)
    return profile


def test_the_second_job_replaces_the_first_as_a_measurement():
    profile = Profile()
    profile.observe("add", 1000, 9.0)
    assert profile.seconds("add", 1000) == 9.0
    profile.observe("add", 1000, 1.0)
    assert profile.seconds("add", 1000) == 1.0


def test_from_then_on_the_newest_job_counts_three_tenths():
    profile = of("add", 1000, 1.0)
    profile.observe("add", 1000, 2.0)
    assert profile.seconds("add", 1000) == pytest.approx(1 + NEWEST)


def test_of_jobs_on_fresh_memory_the_fastest_is_believed():
    profile = Profile()
    for seconds in (9.0, 2.0, 2.5):
        profile.observe("sort", 1000, seconds, fresh=1000)  # its scratch is given back each time
    assert profile.seconds("sort", 1000) == pytest.approx(2.0 + NEWEST * 0.5)


def test_one_odd_job_is_not_believed_but_many_are():
    profile = of("add", 1000, 0.001)
    profile.observe("add", 1000, 10.0)  # the machine slept
    assert profile.seconds("add", 1000) < 0.002
    for _ in range(30):
        profile.observe("add", 1000, 10.0)
    assert profile.seconds("add", 1000) == pytest.approx(10.0, rel=0.01)


def test_what_was_seen_on_fresh_memory_gives_way_to_what_was_not():
    profile = Profile()
    profile.observe("add", 1000, 0.009, fresh=1000)
    assert profile.seconds("add", 1000) == 0.009  # better than nothing
    profile.observe("add", 1000, 0.001)
    touch = profile.touch
    profile.observe("add", 1000, 0.001 + 1e-6, fresh=1000)
    assert profile.seconds("add", 1000) == 0.001
    assert profile.touch == pytest.approx(touch + NEWEST * (1e-9 - touch))  # what it took longer, a byte


def test_sizes_between_those_seen_grow_by_the_power_that_fits():
    profile = Profile()
    profile.observe("matmul", 1e4, 1.0)
    profile.observe("matmul", 1e6, 1000.0)  # size to the power of 1.5
    assert profile.seconds("matmul", 1e5) == pytest.approx(1000**0.5)
    assert profile.seconds("matmul", 1e7) == pytest.approx(1e4)
    assert profile.seconds("matmul", 1e3) == pytest.approx(0.1)


def test_a_small_chunk_costs_at_least_a_call():
    profile = Profile(dispatch=1e-5)
    profile.observe("add", 8e6, 0.001)
    assert profile.seconds("add", 8) == 1e-5


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf])
def test_no_time_at_all_teaches_nothing(seconds: float):
    profile = Profile()
    profile.observe("add", 8, seconds)
    assert profile.seconds("add", 8) is None


def test_what_the_host_takes_is_learnt_within_bounds():
    profile = Profile()
    for _ in range(50):
        profile.observe_disk(10**9, 0.5)
        profile.observe_dispatch(100.0)
        profile.observe_touch(10**6, 10**-3)
        profile.observe_scale(2.0)
    profile.observe_disk(10, 0.0)
    assert profile.disk == pytest.approx(2e9)
    assert profile.dispatch == pytest.approx(1e-3)
    assert profile.touch == pytest.approx(1e-9)
    assert profile.scale == pytest.approx(2.0)


def test_the_next_session_knows_what_this_one_learnt(cache: Path):
    profile = Profile(disk=2e9)
    profile.observe("cpu add float64 1f", 8e6, 0.25, when=7)
    profile.observe("cpu add float64 1f", 8e7, 2.5, when=7, fresh=8)
    profile.save()
    again = Profile.load()
    assert again == Profile(costs=profile.costs, disk=2e9)
    assert not profile.changed


def test_nobody_else_may_read_the_file(cache: Path):
    Profile().save()
    assert the_file(cache).stat().st_mode & 0o777 == 0o600
    assert cache.stat().st_mode & 0o777 == 0o700


def test_a_folder_that_others_may_enter_is_refused(cache: Path):
    cache.mkdir(mode=0o755)
    cache.chmod(0o755)
    with pytest.raises(ClusterError, match="JMARS_CACHE_DIR"):
        Profile().save()
    with pytest.warns(UserWarning, match="JMARS_CACHE_DIR"):
        assert Profile.load() == Profile()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 99}', "[" * 100_000, '"\\ud800"', "\x00\xff", '{"version": 1'], ids=range(8)
)
def test_a_damaged_file_warns_and_is_learnt_anew(cache: Path, text: str):
    Profile().save()
    the_file(cache).write_text(text, encoding="latin-1")
    with pytest.warns(UserWarning, match="measured anew"):
        assert Profile.load() == Profile()
    profile = Profile()
    profile.observe("add", 8, 1.0)
    with pytest.warns(UserWarning, match="measured anew"):
        profile.save()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Profile.load().seconds("add", 8) == 1.0


def test_rows_that_are_no_numbers_are_passed_over(cache: Path):
    Profile().save()
    costs = {"good": [[8, 1.0, 0, 0]], "bad": [[8, -1, 0, 0], [8, "1", 0, 0], [1], 7, None, [8, 1e999, 0, 0]], "odd": 3}
    the_file(cache).write_text(json.dumps({"version": 1, "disk": -5, "touch": None, "costs": costs}))
    profile = Profile.load()
    assert [key for key in ("good", "bad", "odd") if profile.seconds(key, 8) is not None] == ["good"]
    assert profile.disk == Profile().disk


def test_no_file_is_no_reason_to_warn(cache: Path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Profile.load() == Profile()


def test_what_is_remembered_is_bounded(cache: Path):
    profile = Profile()
    for number in range(REMEMBERED + 10):
        profile.observe(f"{number}", 8, 1.0, when=number + 1)
    profile.save()
    assert len(Profile.load().costs) == REMEMBERED
    assert Profile.load().seconds("9", 8) is None
    assert Profile.load().seconds("10", 8) == 1.0


def test_what_is_learnt_is_bounded_where_it_cannot_be_saved_too(tmp_path: Path):
    profile = Profile()
    for number in range(REMEMBERED + 10):
        profile.observe(f"{number}", 8, 1.0, when=number + 1)
    (tmp_path / "taken").touch()
    with pytest.raises(OSError):
        profile.save(tmp_path / "taken" / "costs.json")
    assert len(profile.costs) == len(profile.changed) == REMEMBERED and "9" not in profile.costs


def test_costs_of_other_sessions_stay_in_the_file_and_out_of_this_one(cache: Path):
    ours, theirs = Profile(), Profile()
    theirs.observe("theirs", 8, 1.0, when=1)
    theirs.save()
    ours.observe("ours", 8, 1.0, when=2)
    ours.save()
    assert list(ours.costs) == ["ours"]
    assert set(Profile.load().costs) == {"ours", "theirs"}


def test_a_file_with_rows_of_nonsense_is_saved_to_all_the_same(cache: Path):
    Profile().save()
    junk = {f"{n}": [[8, 1.0, 5, 0]] for n in range(REMEMBERED)} | {"a": 3, "b": [[1, 2]], "c": [[8, 1.0, "x", 0]]}
    the_file(cache).write_text(json.dumps({"version": 1, "costs": junk}))
    profile = Profile()
    profile.observe("ours", 8, 1.0, when=6)
    profile.save()
    kept = json.loads(the_file(cache).read_text())["costs"]
    assert len(kept) == REMEMBERED and "ours" in kept and not {"a", "b", "c"} & kept.keys()


def learn_apart(path: Path, writer: int) -> None:
    profile = Profile.load(path)
    for turn in range(20):
        profile.observe(f"writer {writer}", 8, writer + 1.0)
        profile.observe(f"writer {writer} turn {turn}", 8, 1.0)
        profile.save(path)


def test_sessions_that_save_at_once_keep_what_each_learnt(tmp_path: Path):
    context = multiprocessing.get_context("fork")
    path = tmp_path / "costs.json"
    writers = [context.Process(target=learn_apart, args=(path, writer)) for writer in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
        writer.close()
    found = Profile.load(path)
    assert [found.seconds(f"writer {writer}", 8) for writer in range(3)] == pytest.approx([1.0, 2.0, 3.0])
    assert len(found.costs) == 3 * 21
    assert sorted(path.name for path in tmp_path.iterdir()) == ["costs.json", "costs.lock"]


def test_without_a_home_the_error_says_what_to_set(monkeypatch: pytest.MonkeyPatch):
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("JMARS_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", nowhere)
    with pytest.raises(OSError, match="JMARS_CACHE_DIR"):
        Profile().save()
    with pytest.warns(UserWarning, match="JMARS_CACHE_DIR"):
        assert Profile.load() == Profile()  # plans are made without


def test_a_cost_learnt_without_a_size_serves_for_any_size():
    profile = Profile()
    profile.observe("f", 0, 2.0)
    assert profile.seconds("f", 0) == profile.seconds("f", 10**6) == 2.0
    profile.observe("f", 10**6, 4.0)
    assert profile.seconds("f", 10**3) == pytest.approx(2.002) and profile.seconds("f", 10**6) == 4.0


def test_what_is_observed_while_the_oldest_are_forgotten_disturbs_nobody():
    profile = Profile()

    class Seen:
        """A cost whose reading lets another thread observe something."""

        @property
        def when(self):
            profile.observe("meanwhile", 8, 1.0, when=9)
            return 1

    for number in range(REMEMBERED + 10):
        profile.observe(f"program-{number}", 8, 1.0, when=5)
    profile.costs.known["program-7"] = {1: Seen()}
    profile.costs.known["begun"] = {}  # another thread is about to put something in
    profile.forget_oldest()
    assert "program-7" not in profile.costs and {"meanwhile", "begun"} <= set(profile.costs)
    assert len(profile.costs) == REMEMBERED + 1


def test_what_a_call_takes_is_not_taken_for_the_time_of_its_bytes():
    profile = Profile()
    profile.observe("sum", 40, 60e-6)
    assert profile.seconds("sum", 24e6) < 0.01  # and not 36 s
    profile.observe("slow", 40, 1.0)
    assert profile.seconds("slow", 400_000) > 9_000  # what takes a second for 40 bytes is no call's overhead


def test_results_of_this_session_go_to_other_processes_and_not_to_the_file(tmp_path):
    profile = Profile()
    for nbytes in (20, 10):
        profile.observe_result("f", nbytes)
    assert Profile.of(profile.as_data()).results == {"f": 10}
    profile.save(tmp_path / "costs.json")
    assert "results" not in json.loads((tmp_path / "costs.json").read_text())
    stands = json.loads((tmp_path / "costs.json").read_text())
    (tmp_path / "costs.json").write_text(json.dumps(stands | {"results": [1]}))
    assert Profile.load(tmp_path / "costs.json").results == {}


def test_results_of_few_programs_are_kept():
    profile = Profile()
    for number in range(REMEMBERED + 1):
        profile.observe_result(str(number), 1)
    assert len(profile.results) == REMEMBERED and "0" not in profile.results
