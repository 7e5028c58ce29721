"""Connections between hosts: both ends prove their names, and say whom they expect."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading

import pytest

from jmars.errors import AuthenticationError, ProtocolError
from jmars.transport import tls_sockets, wire
from jmars.transport.tls_sockets import accept, dial, listen
from tests.transport.certificates import identity


@contextlib.contextmanager
def greeting(server, refusal=lambda *who: "", to=None):
    """A host that greets one connection; yields its address and what came of it."""
    listener = listen("127.0.0.1:0")
    outcome = {}

    def serve():
        raw, _ = listener.accept()
        try:
            outcome["link"], outcome["hello"] = accept(server.context(is_server=True), server, raw, refusal)
        except (OSError, ProtocolError) as error:
            outcome["error"] = error

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}", outcome, thread
    finally:
        thread.join()
        listener.close()
        if "link" in outcome:
            outcome["link"].close()


def call(address, who, host=1, incarnation=1):
    return dial(who.context(is_server=False), who, host, incarnation, address)


def test_two_hosts_know_each_other_and_talk_tls_1_3():
    with greeting(identity(1)) as (address, outcome, thread):
        link = call(address, identity(0, incarnation=7))
        thread.join()
        assert outcome["hello"][1:3] == (0, 7)
        assert link.version() == outcome["link"].version() == "TLSv1.3"
        link.sendall(b"hello")
        assert outcome["link"].recv(5) == b"hello"
        for end in (link, outcome["link"]):
            assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 8000
            assert end.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert end.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        link.close()


def test_a_server_sends_no_session_tickets():
    """Unread ones would reset a connection that is closed, and lose bytes."""
    assert identity(0).context(is_server=True).num_tickets == 0


@pytest.mark.parametrize(
    "who, expected",
    [
        (identity(0, ca="other"), OSError),  # a CA that the server does not know
        (identity(0, named=(2, 1)), AuthenticationError),  # says to be host 0 with the certificate of host 2
        (identity(0, incarnation=2, named=(0, 1)), AuthenticationError),
        (identity(0, cluster="another"), OSError),  # the server's name is not that of this cluster
    ],
)
def test_a_host_with_a_wrong_proof_is_refused(who, expected):
    with greeting(identity(1)) as (address, outcome, thread):
        with pytest.raises(expected):
            call(address, who)
        thread.join()
        assert "error" in outcome and "link" not in outcome


def test_a_host_without_a_certificate_is_refused():
    with greeting(identity(1)) as (address, outcome, thread):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=identity(0).ca.decode())
        with pytest.raises(OSError):
            dial(context, identity(0), 1, 1, address)
        thread.join()
        assert "certificate" in str(outcome["error"]).lower()


def test_a_server_whose_certificate_names_another_host_is_refused():
    with greeting(identity(1, named=(3, 1))) as (address, _, _), pytest.raises(ssl.SSLCertVerificationError):
        call(address, identity(0))


def test_a_server_of_another_ca_is_refused():
    with greeting(identity(1, ca="other")) as (address, _, _), pytest.raises(ssl.SSLCertVerificationError):
        call(address, identity(0))


def test_tls_1_2_is_refused():
    with greeting(identity(1)) as (address, outcome, thread):
        context = identity(0).context(is_server=False)
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
        with pytest.raises(OSError):
            dial(context, identity(0), 1, 1, address)
        thread.join()
        assert "error" in outcome


def test_the_reason_of_a_refusal_is_told():
    server = greeting(identity(1), lambda host, incarnation: f"{host}.{incarnation} is gone")
    with server as (address, _, _), pytest.raises(AuthenticationError, match=r"0\.4 is gone"):
        call(address, identity(0, incarnation=4))


def test_a_host_that_came_anew_is_not_the_one_that_was_meant():
    server = greeting(identity(1, incarnation=2))
    with server as (address, _, _), pytest.raises(AuthenticationError, match="incarnation=2"):
        call(address, identity(0), incarnation=1)


def test_a_stranger_is_cut_off(monkeypatch):
    monkeypatch.setattr(tls_sockets, "HELLO_SECONDS", 0.05)
    with greeting(identity(1)) as (address, outcome, thread):
        host, port = address.split(":")
        with socket.create_connection((host, int(port))):
            thread.join()
        assert isinstance(outcome["error"], OSError)


@pytest.mark.parametrize("said", [b"x" * 100, wire.beat(3), wire.Hello(bytes(16), 0, 1, 1, 1).pack()])
def test_what_is_no_hello_is_refused(said):
    with greeting(identity(1)) as (address, outcome, thread):
        host, port = address.split(":")
        raw = socket.create_connection((host, int(port)))
        link = identity(0).context(is_server=False).wrap_socket(raw, server_hostname="host-1.test-cluster.jmars")
        link.sendall(said)
        thread.join()
        link.close()
        assert isinstance(outcome["error"], ProtocolError | AuthenticationError)


def test_a_key_is_in_no_text_of_an_identity():
    assert "PRIVATE" not in repr(identity(0)) and "host=0" in repr(identity(0))
