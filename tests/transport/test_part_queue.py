"""PartQueue: urgent parts first, parts of one piece in order, two buffers for spilled chunks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jmars.storage.spill import CHECKED
from jmars.transport.serving import BUFFERS, PartQueue, ServeJob
from jmars.transport.wire import PART_BYTES

MEMORY = memoryview(bytes(range(256)) * (16 * PART_BYTES // 256))


class Disk:
    """Reads that end when the test says so."""

    def __init__(self):
        self.reads = []
        self.queue = PartQueue(MEMORY, lambda *read: self.reads.append(read))

    def end(self):
        job, start, stop, buffer = self.reads.pop(0)
        buffer[: stop - start] = MEMORY[start:stop]
        self.queue.came(job, start, memoryview(buffer)[: stop - start], buffer)


def in_memory(key, start, stop, urgency=0, offset=0):
    return ServeJob((key, 0), key, urgency, start, stop, offset)


def in_file(key, start, stop, urgency=0):
    return ServeJob((key, 0), key, urgency, start, stop, path="x", size=stop)


@given(st.integers(0, 3 * PART_BYTES), st.integers(0, 3 * PART_BYTES), st.integers(0, 1000))
def test_the_parts_of_a_slot_are_its_bytes_in_order(start, size, offset):
    disk = Disk()
    disk.queue.add(in_memory(1, start, start + size, offset=offset))
    found, at, part = b"", 0, None
    while part is None or not part.is_last:
        part = disk.queue.next()
        assert part.offset == at and len(part.view) <= PART_BYTES
        found, at = found + part.view, at + len(part.view)
    assert found == MEMORY[offset + start : offset + start + size] and disk.queue.next() is None and not len(disk.queue)


@given(st.integers(0, 3 * PART_BYTES), st.integers(0, 3 * PART_BYTES))
def test_the_parts_of_a_file_are_its_bytes_in_order_and_few_are_read_ahead(start, size):
    disk = Disk()
    disk.queue.add(in_file(1, start, start + size))
    found, part = b"", None
    while part is None or not part.is_last:
        part = disk.queue.next()
        if part is None:
            assert 0 < len(disk.reads) <= BUFFERS
            assert all(s // CHECKED * CHECKED + PART_BYTES >= e for _, s, e, _ in disk.reads)
            disk.end()
            continue
        assert part.offset == len(found)
        found += part.view
        disk.queue.give_back(part.buffer)
    assert found == MEMORY[start : start + size] and disk.queue.next() is None


def test_no_block_of_a_file_is_read_twice():
    disk = Disk()
    disk.queue.add(in_file(1, 100, 3 * PART_BYTES))
    assert disk.queue.next() is None
    (_, _, stop, _), (_, start, _, _) = disk.reads
    assert stop == start and not stop % CHECKED


def test_an_urgent_job_goes_between_the_parts_of_another():
    disk = Disk()
    disk.queue.add(in_memory(1, 0, 3 * PART_BYTES, urgency=5))
    assert disk.queue.next().job.request == 1
    disk.queue.add(in_memory(2, 0, 10, urgency=4))
    disk.queue.add(in_memory(3, 0, 10, urgency=6))
    assert [disk.queue.next().job.request for _ in range(4)] == [2, 1, 1, 3]


def test_memory_does_not_wait_for_the_disk_and_read_parts_go_by_urgency():
    disk = Disk()
    disk.queue.add(in_file(1, 0, 10, urgency=1))
    disk.queue.add(in_memory(2, 0, 10, urgency=9))
    disk.queue.add(in_memory(3, 0, 10, urgency=9))
    assert disk.queue.next().job.request == 2  # nothing was read yet
    disk.end()
    assert disk.queue.next().job.request == 1 and disk.queue.next().job.request == 3


def test_a_dropped_job_sends_nothing_more_and_gives_its_buffers_back():
    disk = Disk()
    first, other = in_file(1, 0, 3 * PART_BYTES), in_memory(2, 0, 10)
    disk.queue.add(first)
    disk.queue.add(other)
    assert disk.queue.next().job is other
    assert disk.queue.drop((1, 0)) is first and disk.queue.drop((1, 0)) is None
    disk.end()
    disk.end()
    assert disk.queue.next() is None
    disk.queue.add(in_file(3, 0, 3 * PART_BYTES))
    assert disk.queue.next() is None and len(disk.reads) == BUFFERS


def test_a_file_that_cannot_be_read_ends_its_job_once():
    disk = Disk()
    job = in_file(1, 0, 3 * PART_BYTES)
    disk.queue.add(job)
    assert disk.queue.next() is None
    (_, _, _, buffer), (_, _, _, other) = disk.reads
    assert disk.queue.refused(job, buffer) and not disk.queue.refused(job, other)
    assert (1, 0) not in disk.queue and disk.queue.next() is None
