"""TLS between hosts: only certificates of the cluster's authority count, and they name hosts."""

import datetime
import socket
import ssl
import threading

import pytest

from jmars.actors.tls import (
    Credentials,
    Identity,
    client_context,
    enrolment_context,
    host_name,
    identity_of,
    names_of,
    server_context,
)
from jmars.deploy.ca import CertificateAuthority
from jmars.errors import AuthenticationError, ProtocolError

AUTHORITY = CertificateAuthority("5f3a9c01")
HEAD, HOST = AUTHORITY.issue("head"), AUTHORITY.issue("host-3", incarnation=2)


class Met:
    """What both ends of a connection saw."""

    def __init__(self, server, client, name="head.5f3a9c01.jmars"):
        self.identity = self.refused = self.received = self.head = None
        with socket.create_server(("127.0.0.1", 0)) as listener:
            thread = threading.Thread(target=self._serve, args=(listener, server))
            thread.start()
            try:
                raw = socket.create_connection(listener.getsockname(), timeout=60)
                with raw, client.wrap_socket(raw, server_hostname=name) as one:
                    self.version = one.version()
                    self.head = identity_of(one.getpeercert())
                    self.received = one.recv(100)
            finally:
                thread.join()

    def _serve(self, listener, context):
        raw, _ = listener.accept()
        raw.settimeout(60)
        try:
            with context.wrap_socket(raw, server_side=True) as one:
                self.identity = identity_of(one.getpeercert())
                one.sendall(b"welcome")
        except (ssl.SSLError, ConnectionError) as error:
            raw.close()
            self.refused = error


def test_both_ends_learn_who_the_other_is():
    met = Met(server_context(HEAD), client_context(HOST))
    assert met.identity == Identity(3, 2) and met.head == Identity(0, 1)
    assert met.version == "TLSv1.3" and met.received == b"welcome"


def test_hosts_serve_each_other():
    other = AUTHORITY.issue("host-4")
    met = Met(server_context(HOST), client_context(other), host_name("5f3a9c01", 3))
    assert met.identity == Identity(4, 1) and met.head == Identity(3, 2)


def test_a_client_without_a_certificate_is_refused_at_its_first_read():
    with pytest.raises(ssl.SSLError, match=r"(?i)certificate.required"):
        Met(server_context(HEAD), enrolment_context(AUTHORITY.certificate))


def test_a_stranger_is_accepted_where_strangers_may_enrol():
    met = Met(server_context(HEAD, strangers=True), enrolment_context(AUTHORITY.certificate))
    assert met.identity is None and met.received == b"welcome"


@pytest.mark.parametrize("strangers", [False, True])
def test_a_certificate_of_another_authority_is_refused(strangers):
    other = CertificateAuthority("5f3a9c01").issue("host-3")
    forged = Credentials(other.key, other.certificate, AUTHORITY.certificate)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        Met(server_context(HEAD, strangers), client_context(forged))


def test_a_head_of_another_authority_is_refused():
    with pytest.raises(ssl.SSLCertVerificationError):
        Met(server_context(CertificateAuthority("5f3a9c01").issue("head")), client_context(HOST))


def test_a_host_cannot_be_the_head():
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        Met(server_context(AUTHORITY.issue("host-4")), client_context(HOST))


def test_a_certificate_from_another_time_is_refused():
    for days in (-400, 400):
        then = CertificateAuthority("5f3a9c01", datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=days))
        with pytest.raises(ssl.SSLCertVerificationError, match=r"expired|not yet valid"):
            Met(server_context(then.issue("head")), enrolment_context(then.certificate))


def test_an_older_tls_is_refused():
    old = enrolment_context(AUTHORITY.certificate)
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2
    with pytest.raises((ssl.SSLError, ConnectionError)):
        Met(server_context(HEAD), old)


def test_all_bytes_arrive_though_the_sender_closes_at_once():
    """A socket that is closed with session tickets unread sends RST, and bytes under way are lost."""
    size = 2**20

    def send(address):
        raw = socket.create_connection(address, timeout=60)
        with client_context(HOST).wrap_socket(raw, server_hostname=host_name("5f3a9c01", 0)) as one:
            one.sendall(bytes(size))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=send, args=(listener.getsockname(),))
        thread.start()
        raw, _ = listener.accept()
        received = 0
        with server_context(HEAD).wrap_socket(raw, server_side=True) as one:
            thread.join(0.2)  # the sender fills the buffers of both sockets meanwhile
            while part := one.recv(65536):
                received += len(part)
        thread.join()
    assert received == size


def test_keys_that_are_no_pair_are_named():
    with pytest.raises(ProtocolError, match="no pair"):
        client_context(Credentials(HEAD.key, HOST.certificate, HOST.ca))
    with pytest.raises(ProtocolError, match="authority"):
        enrolment_context(b"\xff")


@pytest.mark.parametrize(
    "names",
    [
        [],
        ["head.5f3a9c01.jmars"],
        ["host-3.5f3a9c01.jmars", "incarnation-2.host-4.5f3a9c01.jmars"],
        ["host-0.5f3a9c01.jmars", "incarnation-2.host-0.5f3a9c01.jmars"],
        ["host-3.5f3a9c01.jmars", "incarnation-0.host-3.5f3a9c01.jmars"],
        ["example.com", "incarnation-1.example.com"],
        [*names_of("5f3a9c01", Identity(1, 1)), "head.5f3a9c01.jmars"],
    ],
)
def test_other_certificates_are_none_of_a_host(names):
    with pytest.raises(AuthenticationError, match="not one of a host"):
        identity_of({"subjectAltName": [("DNS", name) for name in names]})


def test_no_certificate_is_no_identity():
    assert identity_of(None) is None and identity_of({}) is None
