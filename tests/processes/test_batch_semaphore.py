"""Tokens: what was offered is taken once, by one of two processes."""

import os

from jmars.processes.executor import BatchSemaphore


def test_each_token_is_taken_once():
    semaphore = BatchSemaphore()
    assert not semaphore.acquire()
    semaphore.post()
    semaphore.post()
    assert [semaphore.acquire() for _ in range(3)] == [True, True, False]
    semaphore.close()
    assert not semaphore.acquire()


def test_of_two_processes_that_take_at_once_each_token_goes_to_one():
    semaphore = BatchSemaphore()
    tokens = 20_000
    start, go = os.pipe()
    answer, tell = os.pipe()
    child = os.fork()
    if not child:
        os.read(start, 1)
        os.write(tell, sum(semaphore.acquire() for _ in range(tokens)).to_bytes(4, "little"))
        os._exit(0)
    for _ in range(tokens):
        semaphore.post()
    os.write(go, b"x")
    ours = sum(semaphore.acquire() for _ in range(tokens))
    theirs = int.from_bytes(os.read(answer, 4), "little")
    os.waitpid(child, 0)
    while semaphore.acquire():
        ours += 1
    assert ours + theirs == tokens
    semaphore.close()
    for fd in (start, go, answer, tell):
        os.close(fd)
