"""Output of hosts: which line is the answer, which words are shown, and what errors say of them."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jmars.deploy.launch import HostOutput, LastWords, answer_in, no_answer

SECRET = "0123456789abcdef" * 4
TICKET = json.dumps({"host": 3, "secret": SECRET}).encode()
ANSWER = {"host": 3, "pid": 12, "janitor": 13}


class Pieces:
    """A stream of given pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self.pieces = list(pieces)

    async def read(self, n: int = -1, /) -> bytes:
        return self.pieces.pop(0) if self.pieces else b""


def heard(out: Pieces, err: Pieces | None = None) -> tuple[object, str]:
    async def hear() -> tuple[object, str]:
        output = HostOutput(out, err or Pieces(), LastWords(TICKET))
        answer = await output.answer()
        output.stop()
        return answer, output.words.text()

    return asyncio.run(hear())


@given(st.lists(st.binary(max_size=40), max_size=5), st.lists(st.integers(0, 300), max_size=8))
def test_the_answer_is_found_in_any_noise_and_any_pieces(noise, cuts):
    lines = [line.replace(b"\n", b"") for line in noise]
    text = b"".join(line + b"\n" for line in lines if answer_in(line) is None) + json.dumps(ANSWER).encode() + b"\nmore"
    ends = sorted({min(cut, len(text)) for cut in cuts} | {0, len(text)})
    pieces = [text[a:b] for a, b in zip(ends, ends[1:]) if a < b]
    assert heard(Pieces(*pieces))[0] == ANSWER


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"17",
        b'"pid"',
        b"[12, 13]",
        b"{}",
        b'{"pid": 12}',
        b'{"pid": 0, "janitor": 0}',
        b'{"pid": true, "janitor": 0}',
        b'{"pid": -5, "janitor": 0}',
        b'{"pid": "12", "janitor": 0}',
        b'{"error": 3}',
        TICKET,  # an echo of what was sent
        b"\xff\xfe",
    ],
)
def test_other_lines_are_no_answer(line):
    assert answer_in(line) is None
    assert heard(Pieces(line + b"\n"))[0] is None


def test_an_endless_profile_is_not_read_for_ever():
    class Endless:
        async def read(self, n: int = -1, /) -> bytes:
            return b"y\n" * 5000

    answer, words = heard(Endless())
    assert answer is None and words.endswith("y")


def test_output_without_an_answer_gives_all_of_the_last_words():
    assert heard(Pieces(b"begun, "), Pieces(b"no disk", b" left\n")) == (None, "begun, no disk left")


def test_the_secret_and_the_ticket_are_hidden_in_pieces_too():
    words = LastWords(TICKET)
    for piece in (TICKET[:20], TICKET[20:], b" and ", SECRET[:5].encode(), SECRET[5:].encode(), b"\x1b]0;title\x07"):
        words.add(piece)
    assert words.text() == "… and … ]0;title"
    assert SECRET not in repr(words)


def test_only_the_end_of_much_output_is_kept():
    words = LastWords(TICKET)
    for number in range(10_000):
        words.add(b"line %d\n" % number)
    assert words.text().endswith("line 9999") and len(words.text()) <= 2000


@pytest.mark.parametrize(
    "status, words, why",
    [
        (2, "Unknown option: -P", "older than Python 3.11"),
        (1, "/usr/bin/python3: No module named jmars", "has no jmars"),
        (1, "ModuleNotFoundError: No module named 'jmars.deploy.joining'", "with status 1"),
        (1, "usage: python -m jmars status [NAME]", "too old to join"),
        (127, "sh: 1: exec: python3: not found", "no program python3"),
        (126, "sh: 1: exec: python3: Permission denied", "cannot be executed"),
        (-9, "", "ended by signal 9"),
        (None, "", "ended before it answered"),
    ],
)
def test_errors_say_what_is_wrong_there(status, words, why):
    text = str(no_answer("host-3 (far)", "python3", status, words))
    assert text.startswith("host-3 (far) did not start: ") and why in text
    assert text.endswith(words or "(none)")
