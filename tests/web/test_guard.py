"""Who may ask: the holder of the token, by the gateway's own name, from no other site; who guesses waits."""

from __future__ import annotations

import pytest

from jmars.web.gateway import FAILURES, Guard, Refusal

HOST, TOKEN = "127.0.0.1:8000", "t" * 64


def status(guard, host=HOST, origin=None, authorization=f"Bearer {TOKEN}", port=8000):
    try:
        guard.check(port, host, origin, authorization)
    except Refusal as refusal:
        assert refusal.hint and TOKEN not in str(refusal)
        return refusal.status
    return 200


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, 200),
        ({"host": "localhost:8000"}, 200),
        ({"host": "[::1]:8000"}, 200),
        ({"origin": "http://127.0.0.1:8000"}, 200),
        ({"authorization": f"bearer {TOKEN}"}, 200),
        ({"authorization": None}, 401),
        ({"authorization": "Bearer "}, 401),
        ({"authorization": f"Basic {TOKEN}"}, 401),
        ({"authorization": f"Bearer {TOKEN}x"}, 401),
        ({"host": None}, 403),
        ({"host": "127.0.0.1"}, 403),
        ({"host": "127.0.0.1:80"}, 403),
        ({"host": "evil.example:8000"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "https://127.0.0.1:8000"}, 403),
        ({"origin": "http://127.0.0.1:9"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://["}, 403),
    ],
)
def test_headers_decide(given, expected):
    assert status(Guard(TOKEN), **given) == expected


def test_who_guesses_waits_a_second():
    time = [0.0]
    guard = Guard(TOKEN, now=lambda: time[0])
    assert [status(guard, authorization="Bearer guess") for _ in range(FAILURES + 1)] == [401] * FAILURES + [429]
    assert status(guard) == 200  # nobody locks out who has the token
    time[0] = 1.0
    assert status(guard, authorization="Bearer guess") == 401


def test_who_forgets_the_token_does_not_lock_others_out():
    guard = Guard(TOKEN, now=lambda: 0.0)
    assert {status(guard, authorization=None) for _ in range(50)} == {401}
    assert status(guard) == 200
