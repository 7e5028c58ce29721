"""A host gets one certificate for one ticket, once and in time; nobody else gets any."""

import asyncio
import re
from contextlib import asynccontextmanager

import pytest
from msgspec import structs

from jmars.actors import ActorChannel, Mailbox
from jmars.actors.tls import Credentials, Identity, client_context, enrolment_context, server_context
from jmars.actors.tls_link import VISITOR, connect_tls, dial_tls, serve_tls
from jmars.deploy.ca import CertificateAuthority, new_request
from jmars.deploy.tickets import Enrolment, EnrolmentActor, Ticket, enrol, prove, strangers
from jmars.errors import AuthenticationError, ClusterError, ClusterLostError, HostRefusedError
from tests.actors.two_hosts import AUTHORITY, CLUSTER, HEAD, OTHER, TwoHosts, run

WHO = Identity(3, 1)


def asked(secret, identity=WHO, cluster=CLUSTER):
    """A request with its proof."""
    _, request = new_request()
    return identity, request, prove(secret, cluster, identity, request)


# -- who is admitted, in virtual time
def test_a_ticket_admits_once():
    enrolment = Enrolment(AUTHORITY)
    secret = enrolment.invite(WHO, now=100.0)
    found = enrolment.admit(*asked(secret), now=160.0)
    assert found.certificate.startswith(b"-----BEGIN CERTIFICATE-----") and found.identity == WHO and not found.left
    with pytest.raises(HostRefusedError, match=r"host 3 \(incarnation 1\) was used already"):
        enrolment.admit(*asked(secret), now=161.0)


def test_the_same_request_gets_the_same_answer_while_the_ticket_is_valid():
    enrolment = Enrolment(AUTHORITY)
    again = asked(enrolment.invite(WHO, now=0.0))
    certificate = enrolment.admit(*again, now=1.0)
    assert enrolment.admit(*again, now=2.0) == certificate  # of no use without the key, which no wire has seen
    with pytest.raises(HostRefusedError, match="valid until 1 s ago"):
        enrolment.admit(*again, now=61.0)


def test_a_late_ticket_is_refused_and_a_jobs_may_be_valid_for_longer():
    enrolment = Enrolment(AUTHORITY)
    late, patient = enrolment.invite(WHO, now=0.0), enrolment.invite(Identity(4, 1), now=0.0, seconds=3600)
    with pytest.raises(HostRefusedError, match="valid until 5 s ago"):
        enrolment.admit(*asked(late), now=65.0)
    assert enrolment.admit(*asked(patient, Identity(4, 1)), now=3599.0)


def test_wrong_secrets_hosts_and_changed_requests_are_refused_alike():
    enrolment = Enrolment(AUTHORITY)
    secret = enrolment.invite(WHO, now=0.0)
    identity, request, proof = asked(secret)
    _, other = new_request()
    wrong = [
        asked(bytes(32)),
        asked(secret, Identity(4, 1)),
        asked(secret, Identity(3, 2)),
        asked(secret, cluster="00000000"),
        (identity, other, proof),
        (identity, request, b""),
    ]
    for one in wrong:
        with pytest.raises(HostRefusedError, match="is unknown here, or its secret is wrong"):
            enrolment.admit(*one, now=1.0)
    assert enrolment.admit(identity, request, proof, now=2.0)  # others' attempts take nothing from who has the secret


def test_a_false_request_does_not_use_the_ticket_up():
    enrolment = Enrolment(AUTHORITY)
    secret = enrolment.invite(WHO, now=0.0)
    with pytest.raises(AuthenticationError, match="request for a certificate is refused"):
        enrolment.admit(WHO, b"x", prove(secret, CLUSTER, WHO, b"x"), now=1.0)
    assert enrolment.admit(*asked(secret), now=2.0)


def test_an_incarnation_is_invited_once():
    enrolment = Enrolment(AUTHORITY)
    enrolment.invite(WHO, now=0.0)
    with pytest.raises(ValueError, match="incarnation 1 before"):
        enrolment.invite(WHO, now=1000.0)


def test_a_ticket_for_several_hosts_gives_each_its_number_and_no_host_more():
    enrolment, numbers = Enrolment(AUTHORITY), iter([Identity(5, 1), Identity(6, 1)])
    ticket = Identity(0, 1)
    secret = enrolment.invite(ticket, now=0.0, seconds=1e6, hosts=2, seat=lambda: next(numbers))
    with pytest.raises(AuthenticationError, match="request for a certificate is refused"):
        enrolment.admit(ticket, b"x", prove(secret, CLUSTER, ticket, b"x"), now=1.0)
    found = [enrolment.admit(*asked(secret, ticket), now=5e5) for _ in range(2)]
    assert [(one.identity, one.left) for one in found] == [(Identity(5, 1), 1), (Identity(6, 1), 0)]
    with pytest.raises(HostRefusedError, match="the ticket was used already"):
        enrolment.admit(*asked(secret, ticket), now=5e5)


# -- over TLS
@asynccontextmanager
async def head_and_ticket():
    """A head that lets hosts enrol, and a ticket of it."""
    head = TwoHosts()
    enrolment = Enrolment(AUTHORITY)
    await head.serve(strangers(enrolment))
    secret = enrolment.invite(Identity(3, 2), asyncio.get_running_loop().time())
    try:
        address = (f"127.0.0.1:{head.server.port}",)
        yield head, Ticket(CLUSTER, "node-7", 3, 2, address, AUTHORITY.certificate, secret)
    finally:
        for channel in head.channels.values():
            channel.close()
        head.server.close()
        await head.proxy.close()


def test_a_host_enrols_and_then_links(caplog):
    caplog.set_level("DEBUG")
    tickets = []

    async def test():
        async with head_and_ticket() as (head, ticket):
            tickets.append(ticket)
            identity, credentials, left = await enrol(ticket)
            assert isinstance(credentials, Credentials) and credentials.ca == ticket.ca
            assert (identity, left) == (ticket.identity, 0)
            channel = head.new_channel()
            await connect_tls(channel, ticket.head, client_context(credentials), CLUSTER)
            assert await channel.ask("register", "note", "here") == "here"
            channel.close()
            await asyncio.wait([channel.keeper])

    run(test)
    assert "host 3 (incarnation 2) has its certificate" in caplog.text
    assert tickets[0].secret.hex() not in caplog.text and not re.search("PRIVATE|BEGIN", caplog.text)


def test_a_host_whose_answer_is_lost_asks_again(monkeypatch, caplog):
    real, answered = EnrolmentActor.enrol, []

    async def test():
        async with head_and_ticket() as (head, ticket):

            def cut(self, *request):
                answered.append(real(self, *request))
                if len(answered) < 3:
                    for transport in list(head.server._unknown):
                        transport.abort()
                return answered[-1]

            cut.is_remote = True
            monkeypatch.setattr(EnrolmentActor, "enrol", cut)
            enrolled = await enrol(ticket)
            assert answered == [(3, 2, enrolled.credentials.certificate, 0)] * 3
            answered.clear()
            with pytest.raises(HostRefusedError, match="was used already"):  # by another key
                await enrol(ticket)

    run(test)
    assert "has not answered, and is asked again" in caplog.text


def test_a_head_that_never_answers_is_an_error(monkeypatch):
    async def never(self, *request):
        await over.wait()

    over = asyncio.Event()  # an event of the call's own would go with its task, which the loop reports as a fault
    never.is_remote = True
    monkeypatch.setattr(EnrolmentActor, "enrol", never)
    monkeypatch.setattr("jmars.deploy.tickets.ENROLMENT_SECONDS", 0.1)

    async def test():
        async with head_and_ticket() as (_head, ticket):
            with pytest.raises(ClusterLostError, match="has not answered 3 times"):
                await enrol(ticket)
            over.set()

    run(test)


def test_a_used_ticket_is_refused_and_the_log_says_so(caplog):
    async def test():
        async with head_and_ticket() as (_head, ticket):
            await enrol(ticket)
            with pytest.raises(HostRefusedError, match="was used already; start the host again"):
                await enrol(ticket)
            with pytest.raises(HostRefusedError, match="unknown here, or its secret is wrong"):
                await enrol(structs.replace(ticket, secret=bytes(32)))

    run(test)
    assert "a host is refused: the ticket of host 3 (incarnation 2) was used already" in caplog.text
    assert "or its secret is wrong" in caplog.text


def test_a_head_of_another_authority_learns_no_proof():
    async def test():
        async with head_and_ticket() as (_head, ticket):
            with pytest.raises(AuthenticationError, match=r"is not head.5f3a9c01.jmars of this cluster"):
                await enrol(structs.replace(ticket, ca=OTHER.certificate))
            assert await enrol(ticket)  # the ticket was not used

    run(test)


def test_no_head_is_an_error_that_names_the_address():
    async def test():
        async with head_and_ticket() as (head, ticket):
            head.server.close()
            with pytest.raises(ClusterLostError, match=rf"{ticket.head[0]}: "):
                await enrol(ticket)

    run(test)


def test_a_head_that_takes_no_strangers_refuses_at_the_first_read():
    async def test():
        server = await serve_tls("127.0.0.1", 0, server_context(HEAD), TwoHosts().accept)
        secret = Enrolment(AUTHORITY).invite(WHO, 0.0)
        ticket = Ticket(CLUSTER, "node-7", 3, 1, (f"127.0.0.1:{server.port}",), AUTHORITY.certificate, secret)
        with pytest.raises(ClusterLostError, match="hung up; its log says why"):
            await enrol(ticket)
        server.close()

    run(test)


def test_a_stranger_can_say_nothing_else():
    async def test():
        async with head_and_ticket() as (head, ticket):
            channel = await dial_tls(
                ticket.head,
                enrolment_context(ticket.ca),
                f"head.{CLUSTER}.jmars",
                VISITOR,
                lambda greeting: ActorChannel(Mailbox(), greeting),
            )
            for actor, method in [("register", "note"), ("enrolment", "invite"), ("actors", "create")]:
                with pytest.raises(ClusterError, match=r"no actor|no remote method"):
                    await channel.ask(actor, method, 1)
            for arguments in [(3, 2, "x", b""), (3, 2, b"", None), (True, 2, b"", b""), (2**63, 1, b"", b"")]:
                with pytest.raises(HostRefusedError):
                    await channel.ask("enrolment", "enrol", *arguments)
            channel.close()
            assert head.at_head.noted == []

    run(test)


def test_without_the_package_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cryptography.x509", None)
    with pytest.raises(ClusterError, match=r"pip install 'jmars\[remote\]'"):
        CertificateAuthority(CLUSTER)
    with pytest.raises(ClusterError, match=r"pip install 'jmars\[remote\]'"):
        new_request()
