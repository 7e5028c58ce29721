"""Addressable objects that talk over authenticated frames.

frames.py    messages as length-prefixed msgpack
auth.py      authentication: the peer's user, then a challenge that both ends answer with the cluster's token
mailbox.py   the actors of a process by name, and the methods that messages may call
channel.py   one connection: ask and tell actors of the peer, serve own actors
descriptors.py  a file descriptor handed to another process
registry.py  the clusters of this user, by their registry files
delivery.py  exactly-once, in-order delivery over a transport that loses, doubles and reorders
"""

from jmars.actors.auth import new_token
from jmars.actors.channel import ActorChannel, connect, serve
from jmars.actors.mailbox import Mailbox, remote_method

__all__ = ["ActorChannel", "Mailbox", "connect", "new_token", "remote_method", "serve"]
