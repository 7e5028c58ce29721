"""Events to wait for before bytes of a slab are read or written, against a plain model of single bytes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jmars.devices.runner import DeviceContents

RANGES = st.tuples(st.integers(0, 30), st.integers(1, 10)).map(lambda pair: (pair[0], pair[0] + pair[1]))
STEPS = st.lists(st.tuples(st.sampled_from(["read", "write"]), RANGES), max_size=40)


@given(STEPS)
def test_all_earlier_uses_of_each_byte_are_waited_for(steps: list[tuple[str, tuple[int, int]]]) -> None:
    contents = DeviceContents()
    written: dict[int, int] = {}  # by byte: the last write
    reads: dict[int, set[int]] = {}  # by byte: reads since
    for event, (kind, (start, stop)) in enumerate(steps):
        writes = {written[byte] for byte in range(start, stop) if byte in written}
        assert writes <= set(contents.before_read(start, stop))
        if kind == "read":
            contents.read(start, stop, event)
            for byte in range(start, stop):
                if byte in written:
                    reads[byte].add(event)
            continue
        used = set().union(*(reads[byte] for byte in range(start, stop) if byte in written))
        assert writes | used <= set(contents.before_write(start, stop))
        contents.wrote(start, stop, event, event)
        for byte in range(start, stop):
            written[byte], reads[byte] = event, set()


def test_what_is_written_over_is_gone() -> None:
    contents = DeviceContents()
    contents.wrote(0, 64, 5, "first")
    assert contents.holds(0, 5)
    contents.wrote(32, 96, 6, "second")
    assert not contents.holds(0, 5)
    assert contents.holds(32, 6)
    contents.void(32, 5)
    assert contents.holds(32, 6)
    contents.void(32, 6)
    assert not contents.holds(32, 6)
    assert "second" in contents.before_write(0, 100), "the bytes are in use until then all the same"
