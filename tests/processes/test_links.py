"""What a child says is acted on, or the process hears that it could not be."""

import asyncio
import errno
import os
import socket

import pytest

from jmars.actors.frames import pack, unpack
from jmars.errors import StorageError
from jmars.processes import links
from jmars.processes.executor import BatchSemaphore
from jmars.processes.links import ChildLink, Children, ending


@pytest.mark.parametrize("error", [AssertionError("books"), StorageError("an OSError, which asyncio does not report")])
def test_an_error_of_our_own_is_not_taken_for_the_childs(error):
    async def hear() -> list:
        def raise_it(link, message):
            raise error

        heard = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: heard.append(context["exception"]))
        ChildLink("worker-0", raise_it, lambda link, why: None).data_received(pack("report"))
        return heard

    assert asyncio.run(hear()) == [error]


class _Zygote:
    """A zygote's other end, which the test plays."""

    def __init__(self):
        self.pid = 0
        self.link, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.link.setblocking(False)
        self.asked, self.refuse, self.fds = [], [], []

    def fork(self, name, role, fds, *args):
        if self.refuse:
            raise OSError(self.refuse.pop(), "no")
        self.asked.append((name, role))
        self.fds.append([os.dup(fd) for fd in fds])

    def read(self):
        return [unpack(self.link.recv(4096))]

    def say(self, *message):
        self.theirs.send(pack(message)[4:])

    def close(self):
        for fd in (fd for fds in self.fds for fd in fds):
            os.close(fd)
        self.theirs.close()


def with_children(test):
    """A test that runs with a zygote that it plays, and `Children` that retry at once."""

    def run(monkeypatch):
        async def inside():
            monkeypatch.setattr(links, "RETRY_SECONDS", 0.001)
            zygote = _Zygote()
            children = Children(zygote, lambda: None)
            try:
                await test(zygote, children)
            finally:
                children.close()
                zygote.close()

        asyncio.run(inside())

    run.__name__ = test.__name__
    return run


async def until(holds):
    while not holds():
        await asyncio.sleep(0.001)


@with_children
async def test_a_refused_fork_is_tried_again_and_waiting_work_is_sent(zygote, children):
    link = ChildLink("worker-0", lambda *_: None, lambda *_: None)
    zygote.refuse = [errno.EMFILE]
    children.start(link, "executor", 1)
    assert "errno 24" in children.trouble and not zygote.asked
    link.post()
    link.send("run")
    await until(lambda: zygote.asked)
    zygote.say("failed", "worker-0", errno.EAGAIN)
    await until(lambda: len(zygote.asked) == 2)
    assert "errno 11" in children.trouble and not link.pid
    zygote.say("forked", "worker-0", 4242)
    await until(lambda: link.pid)
    assert children.trouble == "" and children.pids() == {"worker-0": 4242}
    child = socket.socket(fileno=os.dup(zygote.fds[1][0]))
    child.setblocking(False)
    loop = asyncio.get_running_loop()
    assert await loop.sock_recv(child, 100) == pack("run")
    child.close()
    theirs = BatchSemaphore(os.dup(zygote.fds[1][1]))
    assert theirs.acquire() and not theirs.acquire()
    theirs.close()


@pytest.mark.timeout(30)
@with_children
async def test_the_output_of_a_child_after_a_refused_fork_is_not_waited_for(zygote, children):
    link, (first, second) = ChildLink("worker-0", lambda *_: None, lambda *_: None), (os.pipe(), os.pipe())
    link.open_output(first[0])
    link.close_output()
    link.open_output(second[0])
    link.data_received(b"")  # the child has printed nothing
    link.close_output()
    for one in (first[1], second[1]):
        os.close(one)


@with_children
async def test_what_was_not_sent_yet_can_be_given_to_others(zygote, children):
    link = ChildLink("worker-0", lambda *_: None, lambda *_: None)
    zygote.refuse = [errno.EAGAIN]
    children.start(link, "executor", 1)
    link.post()
    link.send("run")
    link.unsend()
    await until(lambda: zygote.asked)
    zygote.say("forked", "worker-0", 4242)
    await until(lambda: link.pid)
    assert not link.revoke()
    child = socket.socket(fileno=os.dup(zygote.fds[0][0]))
    child.setblocking(False)
    link.send("other")
    assert await asyncio.get_running_loop().sock_recv(child, 100) == pack("other")
    child.close()


@with_children
async def test_the_end_of_a_process_says_how_and_how_much_it_had(zygote, children):
    ends = []

    async def end(pid, status):
        link = ChildLink(f"worker-{pid}", lambda *_: None, lambda link, why: ends.append((link.how, link.peak, why)))
        children.start(link, "executor", 1)
        zygote.say("forked", link.name, pid)
        await until(lambda: link.pid)
        zygote.say("exited", pid, status, 7 * 2**20)
        await until(lambda: not link.alive)

    for pid, status in ((4001, 9), (4002, 3 << 8), (4003, 11)):
        await end(pid, status)
    assert [how for how, _, _ in ends] == ["signal", "exit", "signal"] and ends[0][1] == 7 * 2**20
    assert "SIGKILL" in ends[0][2] and "exit status 3" in ends[1][2] and "SIGSEGV" in ends[2][2]


@with_children
async def test_slots_of_a_process_that_cannot_die_are_free_when_it_is_gone(zygote, children):
    said = []
    link = ChildLink("worker-0", lambda *_: said.append("heard"), lambda link, why: said.append(why))
    children.start(link, "executor", 1)
    zygote.say("forked", "worker-0", 4242)
    await until(lambda: link.pid)
    children.give_up(link, "frozen", lambda: said.append("free"))
    assert said == ["frozen"] and children.pids() == {}
    link.data_received(pack("late"))
    zygote.say("exited", 4242, 9, 0)
    await until(lambda: "free" in said)
    assert said == ["frozen", "free"]


@pytest.mark.parametrize(
    ("status", "how", "part"),
    [
        (9, "memory", "for the memory that it took (it had 5.0 MiB"),
        (9, "stopped", "did not run any more"),
        (9, "cancelled", "ended by jmars for its cancelled job"),
    ],
)
def test_an_end_that_was_ours_is_told_as_such(status, how, part):
    assert part in ending(status, how, 5 * 2**20)
