"""A long answer lets others have their turn, and is the JSON that it would be in one piece."""

import asyncio
import json

import numpy as np
import pytest

from jmars.web.handlers import PIECE_TOKENS, stream_json


def told(value):
    """The pieces, and how many turns another task had meanwhile."""

    async def story():
        turns, ended = 0, False

        async def other():
            nonlocal turns
            while not ended:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.ensure_future(other())
        pieces = [piece async for piece in stream_json(value)]
        ended = True
        await task
        return pieces, turns

    return asyncio.run(story())


def test_a_long_answer_lets_others_have_their_turn():
    value = [{"id": f"job-{n}", "chunks": [[n] * 100], "error": None} for n in range(200)]
    pieces, turns = told(value)
    assert "".join(pieces) == json.dumps(value)
    assert turns >= len(pieces) > 200 * 100 // PIECE_TOKENS


def test_a_short_answer_is_one_piece_and_numbers_of_numpy_are_numbers():
    pieces, _ = told({"done": np.int64(3), "text": "ü"})
    assert [json.loads(one) for one in pieces] == [{"done": 3, "text": "ü"}]


def test_what_json_does_not_have_is_refused():
    with pytest.raises(ValueError, match="not JSON compliant"):
        told({"progress": float("nan")})
