"""A function that uses a tensor of its surroundings is refused by name, at the line that hands it over."""

from __future__ import annotations

import functools
from unittest.mock import MagicMock, Mock

import numpy as np
import pytest

import jmars
import jmars.tensor as mt
from jmars.errors import UnsupportedError
from jmars.tensor.closures import closure_error

mean = mt.ones(3).mean()
plain = 2.0


def of_a_global(block):
    return block - mean


def inner(block):
    return [b - mean for b in block]


def of_an_inner_one(block):
    return inner(block)


def by_default(block, shift=mean):
    return block + shift


def by_keyword(block, *, shift=mean):
    return block + shift


def harmless(block):
    return np.sqrt(block) * plain


def free(held):
    def function(block):
        return block + held

    return function


@pytest.mark.parametrize(
    "function, name",
    [
        (of_a_global, "mean"),
        (of_an_inner_one, "mean"),
        (by_default, "shift"),
        (by_keyword, "shift"),
        (free(mean), "held"),
        (free(mt.ma.masked_array(mt.ones(2), [0, 1])), "held"),
        (functools.partial(of_a_global), "mean"),
        (np.vectorize(of_a_global), "mean"),
        ((harmless, {"f": [of_a_global]}), "mean"),
    ],
)
def test_function_and_tensor_are_named(function, name):
    assert f"uses the tensor {name}" in str(closure_error(function))


@pytest.mark.parametrize("function", [harmless, free(3), free(harmless), len, np.add, 5, functools.partial(harmless)])
def test_what_uses_no_tensor_is_not_refused(function):
    assert closure_error(function) is None


def test_an_attribute_of_a_tensors_name_is_not_taken_for_it():
    assert closure_error(of_a_global) is not None
    std = mt.ones(3).std()

    def function(block):
        return (block - block.mean()) / std

    assert "uses the tensor std" in str(closure_error(function))


def test_what_invents_attributes_or_raises_is_no_obstacle():
    mean = mt.ones(3).mean()

    class Raises:
        def __call__(self):
            pass

        @property
        def func(self):
            raise RuntimeError

    def function(block, client):
        return block + mean

    assert closure_error((Mock(), [MagicMock()])) is None
    with pytest.raises(UnsupportedError, match="the function function uses the tensor mean"):
        mt.ones(4).map_blocks(function, client=Mock())
    with pytest.raises(UnsupportedError):
        mt.ones(4).map_blocks(function, client=Raises())


def test_a_function_among_the_arguments_of_a_call_may_use_tensors():
    masked = mt.ma.masked_array(mt.ones(2), [0, 1])
    with pytest.raises(UnsupportedError, match="a masked tensor lives on its cluster"):
        jmars.remote.spawn(len, args=(of_a_global, masked))


def test_functions_that_use_each_other_end():
    def one(block):
        return other(block)

    def other(block):
        return one(block)

    assert closure_error(one) is None


@pytest.mark.parametrize(
    "hand_over",
    [
        lambda f: mt.ones(4).map_blocks(f),
        lambda f: jmars.remote.spawn(f, args=(1,)),
        lambda f: mt.vectorize(f)(mt.ones(4)),
        lambda f: mt.apply_along_axis(f, 0, mt.ones((4, 2))),
    ],
)
def test_it_is_refused_where_it_is_handed_over(hand_over):
    with pytest.raises(UnsupportedError, match=r"the function function uses the tensor held, .* held\.fetch\(\)"):
        hand_over(free(mean))
