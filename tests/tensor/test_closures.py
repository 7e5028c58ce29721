"""A function that uses a tensor of its surroundings travels with the value; where there is none, it is refused."""

from __future__ import annotations

import functools
import threading
from unittest.mock import MagicMock, Mock

import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import UnsupportedError
from jmars.remote import spawn
from jmars.tensor.engine import with_placeholders
from jmars.tensor.ops.map_blocks import closure_error

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
    with with_placeholders():
        for client in (Mock(), Raises()):
            with pytest.raises(UnsupportedError):
                mt.ones(4).map_blocks(function, client=client)


def test_functions_that_use_each_other_end():
    def one(block):
        return other(block)

    def other(block):
        return one(block)

    assert closure_error(one) is None


HANDS = [
    lambda f: mt.ones(4).map_blocks(f, dtype=float),
    lambda f: mt.vectorize(f, otypes="d")(mt.ones(4)),
    lambda f: mt.apply_along_axis(f, 0, mt.ones((2, 4)), dtype=float, shape=(2,)),
]


@pytest.mark.parametrize("hand_over", HANDS)
def test_where_no_value_can_be_computed_it_is_refused_by_name(hand_over):
    with with_placeholders(), pytest.raises(UnsupportedError, match=r"the function function uses the tensor held"):
        hand_over(free(mean))


def test_what_cannot_be_pickled_is_refused_by_name():
    held = threading.Lock()

    def locked(block):
        with held:
            return block + 1

    text = r"the function locked uses held, a lock that cannot be sent to workers \(.*\); make it inside the function"
    for send in (lambda f: mt.ones(4).map_blocks(f, dtype=float), spawn, lambda f: spawn(print, args=(f,))):
        with pytest.raises(UnsupportedError, match=text):
            send(locked)
    for args, kwargs, name in ((1, held), {}, r"args\[1\]"), ((), {"end": held}, "end"):
        with pytest.raises(UnsupportedError, match=rf"{name} of print, a lock, cannot be sent to workers \(.*\); make"):
            spawn(print, args=args, kwargs=kwargs)


class Raises:
    """An object whose state raises an error."""

    def __init__(self, error):
        self.error = error

    def __getstate__(self):
        raise self.error


def test_an_error_of_an_argument_is_the_cause():
    error = KeyError("state")
    with pytest.raises(UnsupportedError, match=r"args\[0\] of print, a Raises, .* \(KeyError: 'state'\)") as found:
        spawn(print, args=(Raises(error),))
    assert found.value.__cause__ is error and error.__traceback__.tb_next is not None
    with pytest.raises(MemoryError):
        spawn(print, args=(Raises(MemoryError()),))


class Locked:
    """A callable object with an attribute that cannot be pickled."""

    def __init__(self):
        self.name, self.locks = "counter", [threading.Lock()]

    def __call__(self, block, other=None):
        return block + 1


class Holder:
    """An object that holds such an object."""

    def __init__(self):
        self.worker = Locked()

    def run(self, block):
        return self.worker(block)


def test_an_attribute_that_cannot_be_pickled_is_refused_by_name():
    text = (
        r"the Locked has locks, a list that cannot be sent to workers \(.*lock.*\); leave locks out in its __getstate__"
    )
    parts = functools.partial(Locked().__call__, other=[Holder()])
    given = [Locked(), Holder().run, functools.partial(print, other=Locked()), parts]
    for send in (lambda f: mt.ones(4).map_blocks(f, dtype=float), spawn, lambda f: spawn(print, args=(f,))):
        for one in given:
            with pytest.raises(UnsupportedError, match=text):
                send(one)


@pytest.mark.parametrize("hand_over", HANDS)
def test_a_function_travels_with_the_values_of_its_tensors(hand_over):
    held = mt.asarray([2.0])[0]
    assert (np.asarray(hand_over(free(held))) == 3).all()


def test_the_value_is_that_of_the_call():
    held = mt.zeros(3)
    y = mt.ones(3).map_blocks(free(held), dtype=float)
    held += 5
    assert y.fetch().tolist() == [1, 1, 1]
    assert mt.ones(3).map_blocks(free(held), dtype=float).fetch().tolist() == [6, 6, 6]


def test_a_masked_tensor_travels_with_its_mask():
    held = mt.ma.masked_array(mt.asarray([1.0, 2.0]), [0, 1])
    assert mt.ones(2).map_blocks(lambda block: (block + held).filled(9), dtype=float).fetch().tolist() == [2, 9]


def test_the_function_s_own_exception_arrives():
    class Mine(Exception):
        pass

    def fails(x):
        raise Mine("no")

    for call in (lambda: mt.apply_along_axis(fails, 1, mt.ones((2, 3))), lambda: mt.vectorize(fails)(mt.ones(3))):
        with pytest.raises(Mine, match=r"^no$"):
            call()


class Parent:
    """Leaves its lock out, and is in a circle with its child."""

    def __init__(self, generator):
        self.lock, self.child = threading.Lock(), Child(self)
        self.generator = generator

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name != "lock"}

    def __call__(self, block):
        return block


class Child:
    def __init__(self, parent):
        self.parent = parent


class Slotted:
    __slots__ = ("held",)

    def __call__(self, block):
        return block


def test_the_part_that_cannot_be_sent_is_named_among_those_that_can():
    slotted, parent = Slotted(), Parent(one for one in ())
    slotted.held = threading.Lock()
    with pytest.raises(UnsupportedError, match="the Slotted has held, a lock that cannot be sent"):
        mt.map_blocks(slotted, mt.ones(3), dtype=float)
    with pytest.raises(UnsupportedError, match="the Parent has generator, a generator that cannot be sent"):
        mt.map_blocks(parent, mt.ones(3), dtype=float)
