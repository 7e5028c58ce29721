"""Addressable objects that talk over authenticated frames.

frames.py    messages as length-prefixed msgpack
dialogue.py  asks and tells actors of the peer, serves own actors; over any connection
greeting.py  proves the ends of a connection to each other before any message is decoded
channel.py   one connection with a dialogue of actors
registry.py  the clusters of this user, by their registry files
tls.py       TLS contexts between hosts, and the identity that a certificate proves
lasting.py   a dialogue of two hosts that outlives its connections
tls_link.py  a TLS connection of such a dialogue
"""

from jmars.actors.channel import ActorChannel, connect, serve
from jmars.actors.dialogue import ActorFactory, Mailbox, TurnBatch, actor_proxy, remote_method
from jmars.actors.greeting import UnixGreeting, new_token

__all__ = [
    "ActorChannel",
    "ActorFactory",
    "Mailbox",
    "TurnBatch",
    "UnixGreeting",
    "actor_proxy",
    "connect",
    "new_token",
    "remote_method",
    "serve",
]
