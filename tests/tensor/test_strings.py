"""Functions of text beside np.strings and np.char, over odd cuts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jmars.tensor as mt
from jmars.errors import UnsupportedError
from jmars.tensor.protocols import FUNCTIONS
from jmars.tensor.strings import FUNCTIONS_OF_TEXT
from tests.cases import numpy_before
from tests.tensor.cut import cut, same, shapes

ARGUMENTS = {
    "find": ("b",), "rfind": ("b", 1), "count": ("a",), "startswith": ("a",), "endswith": ("c",), "index": ("",),
    "rindex": ("",), "ljust": (9,), "rjust": (9, "*"), "center": (8,), "zfill": (7,), "slice": (1, 3),
    "replace": ("a", "long"), "multiply": (3,), "expandtabs": (4,),
    "translate": (str.maketrans("ab", "xy"),), "strip": ("a",),
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in FUNCTIONS_OF_TEXT if name not in ("decode", "mod")])  # below
@settings(max_examples=15)
@given(st.data())
def test_functions_of_text(name, data):
    a = np.random.default_rng(0).choice(["", "abc", "B c", " 12", "aXb "], data.draw(shapes(1, 2, 5))).astype("U6")
    x = data.draw(cut(a))
    more = ARGUMENTS.get(name, ())
    if name == "add" or FUNCTIONS_OF_TEXT[name] == "bool" and hasattr(np, name):
        more = (np.flip(a),)
    for prefix, module in (("strings", np.strings), ("char", np.char)):
        if hasattr(module, name) and (
            a.size or FUNCTIONS_OF_TEXT[name] not in ("wide", "values")
        ):  # where NumPy itself fails
            same(FUNCTIONS[f"{prefix}.{name}"](x, *more), getattr(module, name)(a, *more))
    if name in ("upper", "isalpha", "str_len") and not numpy_before("2.3.0"):  # its functions of text ask no argument
        same(getattr(np.strings, name)(x), getattr(np.strings, name)(a))  # by NumPy's protocols


def test_lengths_of_results_that_depend_on_values():
    a = np.array([["aXb", "b"], ["", "aa"]])
    x = mt.asarray(a, chunk_size=1)
    count = np.array([[1, 2], [3, 0]])
    for name, more in (
        ("replace", ("a", ["xyz", "u"])),
        ("multiply", (count,)),
        ("expandtabs", ()),
        ("encode", ("utf8",)),
    ):
        same(getattr(mt.strings, name)(x, *more), getattr(np.strings, name)(a, *more))
    same(mt.strings.mod(mt.asarray(["%d!", "<%d>"]), [5, 123]), np.strings.mod(np.array(["%d!", "<%d>"]), [5, 123]))
    same(mt.strings.decode(mt.asarray([b"ab", b""])), np.strings.decode(np.array([b"ab", b""])))
    assert isinstance(np.strings.replace(x, "a", "b"), np.ndarray if numpy_before("2.3.0") else mt.Tensor)


def test_lists_of_words_are_numpys_objects():
    a = np.array(["a b", "c"])
    for name in ("split", "rsplit", "splitlines"):
        found, expected = FUNCTIONS[f"char.{name}"](mt.asarray(a)), getattr(np.char, name)(a)
        assert found.tolist() == expected.tolist() and found.dtype == object


@pytest.mark.parametrize("name", ["partition", "rpartition"])
def test_text_is_divided_at_a_separator(name):
    a = np.array(["a-b-c", "cd", "", "-long"])
    x = mt.asarray(a, chunk_size=2)
    np.testing.assert_array_equal(FUNCTIONS[f"char.{name}"](x, "-"), getattr(np.char, name)(a, "-"), strict=True)
    for ours, theirs in zip(FUNCTIONS[f"strings.{name}"](x, "-"), getattr(np.strings, name)(a, "-"), strict=True):
        np.testing.assert_array_equal(ours, theirs, strict=True)


def test_what_depends_on_values_is_refused_by_name():
    x = mt.asarray(np.array(["abc", "d"]), chunk_size=1)
    with pytest.raises(AttributeError, match="no attribute 'join'"):
        mt.strings.join("-", x)
    with pytest.raises(UnsupportedError, match=r"strings\.zfill"):
        mt.strings.zfill(x, 2)
    with pytest.raises(TypeError, match="takes text"):
        mt.strings.upper(mt.ones(3))
    if not numpy_before("2.3.0"):
        with pytest.raises(UnsupportedError, match="join"):
            np.char.join("-", x)
    same(mt.map_blocks(np.strings.replace, x, "a", "bb", dtype="U4"), np.array(["bbbc", "d"]))
