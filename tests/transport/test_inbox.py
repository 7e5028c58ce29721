"""Inbox: no message is lost or doubled, and a waiting thread hears of each."""

from __future__ import annotations

import select
import threading

from jmars.transport.lanes import Inbox


def test_messages_of_many_threads_come_once_and_in_order():
    inbox, found, senders = Inbox(), [], 4

    def send(number):
        for at in range(2000):
            inbox.put((number, at))
        inbox.put((number, None))

    threads = [threading.Thread(target=send, args=(number,)) for number in range(senders)]
    for thread in threads:
        thread.start()
    ends = 0
    while ends < senders:
        assert select.select([inbox.fd], [], [], 60.0)[0], "nobody rang for a message"
        for message in inbox.take():
            ends += message[1] is None
            found.append(message)
    for thread in threads:
        thread.join()
    for number in range(senders):
        assert [at for sender, at in found if sender == number] == [*range(2000), None]
    assert not select.select([inbox.fd], [], [], 0)[0]
    inbox.close()


def test_a_closed_inbox_takes_messages_in_vain():
    inbox = Inbox()
    inbox.put(1)
    inbox.close()
    inbox.put(2)
    inbox.close()
    assert inbox.fd == -1
