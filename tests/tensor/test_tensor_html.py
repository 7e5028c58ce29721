"""A tensor as a notebook shows it."""

from __future__ import annotations

import base64
import re
from contextlib import contextmanager

import pytest
from IPython.core.formatters import DisplayFormatter

import jmars.tensor as mt
from jmars.tensor.engine import current_engine, set_engine
from jmars.tensor.tensor_text import mimebundle


class Holds:
    """An engine that holds all values."""

    def held(self, data):
        return True

    shows = held


@contextmanager
def all_held():
    before = current_engine()
    set_engine(Holds())
    try:
        yield
    finally:
        set_engine(before)


def svg_of(html):
    return base64.b64decode(re.search(r"base64,([^\"]+)", html)[1]).decode()


def test_a_lazy_tensor_shows_what_is_known_and_its_chunks():
    html = DisplayFormatter().format(mt.ones((4000, 6000), chunk_size=(1000, 3000)))[0]["text/html"]
    for text in (
        "4,000 × 6,000 float64",
        "183.1 MiB",
        "8 of up to 1,000 × 3,000, 22.9 MiB",
        "ones",
        "not computed yet",
    ):
        assert text in html
    assert svg_of(html).count("<line") == 3 + 1


@pytest.mark.parametrize("shape", [(0,), (5, 0), (1,), (7, 1), (3, 4, 5, 6), (10**9, 2)])
def test_any_shape_has_html(shape):
    html = mimebundle(mt.ones(shape, chunk_size=max(1, max(shape) // 3)), "text")["text/html"]
    assert f"{shape[0]:,}" in html
    if 0 not in shape:
        assert "nan" not in svg_of(html)


def test_a_length_that_is_not_known_is_a_question_mark():
    x = mt.random.default_rng(0).random(100, chunk_size=50)
    html = mimebundle(x[x > 0.5], "text")["text/html"]
    assert "? float64" in html and "<img" not in html


def test_a_small_value_is_text_alone():
    small, large = mt.ones(1000), mt.ones(1001)
    with all_held():
        assert mimebundle(small, "array") == {"text/plain": "array"}
        html = mimebundle(large, "<array>")["text/html"]
    assert ">computed<" in html and "&lt;array&gt;" in html


def test_the_text_of_many_chunks_is_short():
    assert len(repr(mt.ones(10_000, chunk_size=1))) < 120
    assert "((2, 2, 1),)" in repr(mt.ones(5, chunk_size=2))


def test_thousands_of_chunks_make_a_small_picture():
    html = mimebundle(mt.ones((3000, 3000), chunk_size=1), "")["text/html"]
    assert len(html) < 20_000
