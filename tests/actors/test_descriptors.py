"""A descriptor goes to who proves the token, and to nobody else."""

import asyncio
import os

import pytest

from jmars.actors import Mailbox, new_token, remote_method, serve
from jmars.actors.channel import Descriptor, received
from jmars.errors import AuthenticationError, ClusterError, ClusterLostError, ProtocolError


class Memory:
    def __init__(self, fd):
        self.fd = fd

    @remote_method
    def descriptor(self):
        return Descriptor(self.fd)

    @remote_method
    def number(self):
        return 5

    @remote_method
    async def never(self):
        await asyncio.sleep(3600)  # the loop refers to it; a task that waits for an event of its own is collected


def asked(tmp_path, method, token=None, timeout=60.0):
    """What `received` gives, asked in a thread of a cluster that serves a Memory of the text "shared"."""

    async def ask():
        fd = os.memfd_create("test")
        os.write(fd, b"shared")
        secret = new_token()
        mailbox = Mailbox()
        mailbox.add("memory", Memory(fd))
        channels = []
        server = await serve(tmp_path / "s", mailbox, secret, channels.append)
        try:
            return await asyncio.to_thread(received, tmp_path / "s", token or secret, "memory", method, timeout)
        finally:
            os.close(fd)
            server.close()
            for channel in channels:
                channel.close()
            await asyncio.sleep(0.01)  # lets both ends see the end of the connection

    return asyncio.run(ask())


def test_the_same_memory_comes_out_at_the_other_end(tmp_path):
    fd = asked(tmp_path, "descriptor")
    assert os.pread(fd, 100, 0) == b"shared"
    assert not os.get_inheritable(fd)
    os.close(fd)


def test_without_the_token_there_is_none(tmp_path):
    with pytest.raises((AuthenticationError, ClusterLostError)):
        asked(tmp_path, "descriptor", token=new_token())


def test_an_actor_that_hands_nothing_over_is_an_error(tmp_path):
    with pytest.raises(ProtocolError, match=r"0 descriptors"):
        asked(tmp_path, "number")


def test_an_error_of_the_actor_is_told(tmp_path):
    with pytest.raises(ClusterError, match=r"no remote method .nothing."):
        asked(tmp_path, "nothing")


def test_a_silent_cluster_is_an_error_in_time(tmp_path):
    with pytest.raises(ClusterLostError, match=r"has not answered for 0\.1 s"):
        asked(tmp_path, "never", timeout=0.1)


def test_nobody_listens(tmp_path):
    with pytest.raises(ClusterLostError, match="no cluster answers"):
        received(tmp_path / "s", new_token(), "memory", "descriptor")
