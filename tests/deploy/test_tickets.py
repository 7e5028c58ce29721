"""A ticket is read from a private place, says clearly what is wrong with it, and never shows its secret."""

import io
import json
import os
import pickle
import traceback
from base64 import b64encode

import pytest
from msgspec.structs import replace

from jmars.actors.tls import Identity
from jmars.deploy.ca import CertificateAuthority
from jmars.deploy.tickets import Ticket, read_ticket
from jmars.errors import AuthenticationError, ClusterStartError, ProtocolError

SECRET = bytes(range(32))
TICKET = Ticket(
    cluster="5f3a9c01",
    name="node-7",
    host=3,
    incarnation=2,
    head=("10.0.0.1:4711", "[::1]:4711"),
    ca=CertificateAuthority("5f3a9c01").certificate,
    secret=SECRET,
    limit="8GiB",
    workers=4,
    threads=1,
    spill="/tmp",
    lease=30.0,
)


def write(path, text=None, mode=0o600):
    path.write_bytes(TICKET.line() if text is None else text)
    path.chmod(mode)
    return str(path)


def changed(**fields):
    return json.dumps(json.loads(TICKET.line()) | fields).encode()


def shows_nothing(text):
    """Whether no part of the secret is in a text."""
    return not any(part in text for part in (SECRET.hex()[:16], b64encode(SECRET).decode()[:12]))


def test_a_ticket_comes_back_from_its_line(tmp_path):
    assert TICKET.line().count(b"\n") == 1 and TICKET.line().endswith(b"\n")
    assert read_ticket(write(tmp_path / "ticket")) == TICKET
    assert read_ticket("-", io.BytesIO(TICKET.line() + b"what the host reads next\n")) == TICKET
    assert TICKET.identity == Identity(3, 2)


def test_a_ticket_of_a_guest_has_no_secret():
    guest = replace(TICKET, secret=None)
    assert Ticket.of(guest.line()) == guest


def test_only_one_line_of_standard_input_is_read():
    stream = io.BytesIO(TICKET.line() + b"more")
    read_ticket("-", stream)
    assert stream.read() == b"more"


def test_what_a_host_may_choose_may_be_left_out():
    least = {name: None for name in ("limit", "workers", "threads", "spill")}  # noqa: C420
    found = Ticket.of(changed(**least))
    assert (found.limit, found.workers, found.threads, found.spill) == (None, None, None, None)
    assert Ticket.of(changed(limit=2**30, kernel=5)).limit == 2**30  # fields of later versions are ignored


def test_the_secret_is_not_shown():
    shown = repr(TICKET) + str(TICKET) + f"{TICKET}"
    assert shows_nothing(shown) and repr(SECRET) not in shown and "CERTIFICATE" not in shown
    assert getattr(TICKET, "__rich_repr__", None) is None
    assert "node-7" in shown
    assert pickle.loads(pickle.dumps(TICKET)) == TICKET


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o622])
def test_a_file_that_others_may_open_is_refused(tmp_path, mode):
    with pytest.raises(AuthenticationError, match=f"mode {mode:04o}.*keep it 0600"):
        read_ticket(write(tmp_path / "ticket", mode=mode))


def test_a_file_of_another_user_is_refused(tmp_path, monkeypatch):
    path = write(tmp_path / "ticket")
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(AuthenticationError, match="belongs to another user"):
        read_ticket(path)


def test_no_file_and_no_regular_file_are_named(tmp_path):
    with pytest.raises(ClusterStartError, match="No such file"):
        read_ticket(str(tmp_path / "nothing"))
    (tmp_path / "link").symlink_to(write(tmp_path / "ticket"))
    with pytest.raises(ClusterStartError, match="cannot be read"):
        read_ticket(str(tmp_path / "link"))
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(AuthenticationError, match="is no file"):
        read_ticket(str(tmp_path / "pipe"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "there is no ticket"),
        (b"\n", "there is no ticket"),
        (b"x" * 70_000, "more than"),
        (b"{broken", "no ticket of version 2: JSON is malformed.*; let the cluster make a new ticket, or install"),
        (b"[]", "Expected `object`, got `array`"),
        (TICKET.line().replace(b"node-7", b"\xff"), "utf-8"),
        (b'{"kernel": ' + b"[" * 60_000, "recursion"),
        (changed(v=1), r"Invalid value 1 - at `\$.v`"),
        (changed(cluster="a.b"), "ids of clusters have letters"),
        (changed(name=""), r"\$.name`"),
        (changed(host=-1), r"Expected `int` >= 0 - at `\$.host`"),
        (changed(host=True), r"\$.host`"),
        (changed(incarnation="2"), r"\$.incarnation`"),
        (changed(head=[]), r"length >= 1 - at `\$.head`"),
        (changed(head="10.0.0.1:1"), r"\$.head`"),
        (changed(head=["10.0.0.1"]), "'10.0.0.1' is no address; write host:port"),
        (changed(head=[5]), r"\$.head"),
        (changed(ca="eHh4"), "`ca` is no certificate"),
        (changed(ca="x"), r"\$.ca`"),
        (changed(secret="AAAA"), r"`bytes` of length >= 32 - at `\$.secret`"),
        (changed(secret=5), r"\$.secret`"),
        (changed(limit=0), r"\$.limit`"),
        (changed(workers=-1), r"\$.workers`"),
        (changed(spill=""), r"\$.spill`"),
        (changed(lease=0), r"\$.lease`"),
        (changed(lease=float("nan")), "malformed"),
    ],
)
def test_what_is_wrong_is_named_without_the_secret(text, why):
    with pytest.raises(ProtocolError, match=why) as caught:
        read_ticket("-", io.BytesIO(text))
    assert shows_nothing("".join(traceback.format_exception(caught.value)))


def test_json_that_breaks_off_within_the_secret_does_not_show_it():
    text = TICKET.line()
    broken = text[: text.index(b64encode(SECRET)) + 30]
    with pytest.raises(ProtocolError) as caught:
        Ticket.of(broken)
    assert shows_nothing("".join(traceback.format_exception(caught.value)))
