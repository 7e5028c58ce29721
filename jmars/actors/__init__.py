"""Addressable objects that talk over authenticated frames.

frames.py    messages as length-prefixed msgpack
auth.py      authentication: the peer's user, then a challenge that both ends answer with the cluster's token
mailbox.py   the actors of a process by name, and the methods that messages may call
factory.py   creates and destroys actors of registered classes for peers (ActorFactory)
dialogue.py  asks and tells actors of the peer, serves own actors; over any connection
greeting.py  proves the ends of a connection to each other before any message is decoded
descriptors.py  a file descriptor handed to another process
connection.py  one connection: a greeting, then frames
channel.py   one connection with a dialogue of actors
registry.py  the clusters of this user, by their registry files
tls.py       TLS contexts between hosts, and the identity that a certificate proves
delivery.py  exactly-once, in-order delivery over a transport that loses, doubles and reorders
lasting.py   a dialogue of two hosts that outlives its connections
tls_link.py  a TLS connection of such a dialogue
crowd.py     chooses the connection that gives way where too many peers are unknown
tls_server.py  listens for other hosts, and refuses the hosts that do not belong
tls_dial.py  dials another host, and again whenever the connection breaks
"""

from jmars.actors.auth import new_token
from jmars.actors.channel import ActorChannel, connect, serve
from jmars.actors.factory import ActorFactory
from jmars.actors.greeting import UnixGreeting
from jmars.actors.mailbox import Mailbox, remote_method

__all__ = [
    "ActorChannel",
    "ActorFactory",
    "Mailbox",
    "UnixGreeting",
    "connect",
    "new_token",
    "remote_method",
    "serve",
]
