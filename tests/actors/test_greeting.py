"""Greetings: both ends prove the token, in pieces of any size, and no byte behind the handshake is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jmars.actors.greeting import UnixGreeting
from jmars.errors import ProtocolError


def feed(greeting, data, sizes):
    """Pass `data` in pieces; returns the bytes that the greeting sent, and those behind the handshake."""
    sent, rest, pieces = b"", None, list(sizes)
    while data:
        size = min(pieces.pop() if pieces else len(data), len(data))
        part, data = data[:size], data[size:]
        if rest is None:
            more, rest = greeting.take(part)
            sent += more
        else:
            rest += part
    return sent, rest


@given(st.lists(st.integers(1, 90)), st.lists(st.integers(1, 90)), st.binary(max_size=9))
def test_the_ends_prove_the_token_in_pieces_of_any_size(to_server, to_client, behind):
    client, server = UnixGreeting("secret", server=False), UnixGreeting("secret", server=True)
    proof, rest = feed(client, server.challenge(), to_client)
    assert rest is None
    answer, rest = feed(server, proof + behind, to_server)
    assert rest == behind
    assert feed(client, answer + behind, to_client) == (b"", behind)


def test_a_client_with_another_token_is_refused():
    client, server = UnixGreeting("wrong", server=False), UnixGreeting("secret", server=True)
    with pytest.raises(ProtocolError, match="a client did not prove"):
        server.take(client.take(server.challenge())[0])


def test_a_server_with_another_token_is_refused():
    client, server = UnixGreeting("secret", server=False), UnixGreeting("secret", server=True)
    client.take(server.challenge())
    with pytest.raises(ProtocolError, match="the cluster did not prove"):
        client.take(b"x" * 32)


def test_a_listener_of_another_protocol_is_refused():
    with pytest.raises(ProtocolError, match="no jmars cluster"):
        UnixGreeting("secret", server=False).take(b"HTTP/1.1 400 Bad Request".ljust(100))
