"""Tokens: what was offered is taken once, by one of two processes."""

import os

from jmars.processes.batch_semaphore import BatchSemaphore


def test_each_token_is_taken_once():
    claims = BatchSemaphore()
    assert not claims.take()
    claims.offer()
    claims.offer()
    assert [claims.take() for _ in range(3)] == [True, True, False]
    claims.close()
    assert not claims.take()


def test_of_two_processes_that_take_at_once_each_token_goes_to_one():
    claims = BatchSemaphore()
    tokens = 20_000
    start, go = os.pipe()
    answer, tell = os.pipe()
    child = os.fork()
    if not child:
        os.read(start, 1)
        os.write(tell, sum(claims.take() for _ in range(tokens)).to_bytes(4, "little"))
        os._exit(0)
    for _ in range(tokens):
        claims.offer()
    os.write(go, b"x")
    ours = sum(claims.take() for _ in range(tokens))
    theirs = int.from_bytes(os.read(answer, 4), "little")
    os.waitpid(child, 0)
    while claims.take():
        ours += 1
    assert ours + theirs == tokens
    claims.close()
    for fd in (start, go, answer, tell):
        os.close(fd)
