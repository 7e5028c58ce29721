"""NumPy's array classes as a cell sees them do what NumPy's do, and hold for lazy arrays."""

from __future__ import annotations

import abc
import functools
import pickle

import cloudpickle
import numpy as np
import pytest

import jmars.tensor as mt
from jmars.errors import UnsupportedError
from jmars.tensor.ops.map_blocks import pickled, unpickled
from jmars.tensor.tensor import ndarray


def test_both_kinds_of_array_are_instances_and_numbers_are_not():
    for array in (np.ones(3), np.array(1.0), np.ma.array([1]), mt.ones(3), mt.ma.array([1]), mt.ones((2, 2))[0]):
        assert isinstance(array, mt.ndarray)
    for other in ([1], 1.0, np.float64(1), mt.ones(3).sum(), mt.ones(3)[0], None):
        assert not isinstance(other, mt.ndarray)
    masked = mt.ma.MaskedArray
    assert masked is mt.ma.masked_array
    assert isinstance(mt.ma.array([1]), masked) and isinstance(np.ma.array([1]), masked)
    assert not isinstance(mt.ones(3), masked) and not isinstance(np.ones(3), masked)


def test_it_stands_for_numpys_class():
    theirs, ours = type(np.ones(1)), type(mt.ones(1))
    assert theirs == mt.ndarray and mt.ndarray == np.ndarray and ours != mt.ndarray
    assert {np.ndarray: 1}[mt.ndarray] == {mt.ndarray: 1}[np.ndarray] == 1
    assert issubclass(mt.Tensor, mt.ndarray) and issubclass(np.memmap, mt.ndarray) and not issubclass(list, mt.ndarray)
    assert type(mt.ndarray((2, 3))) is np.ndarray
    assert mt.ndarray[tuple[int], np.dtype[np.int8]].__origin__ is ndarray and (mt.ndarray | None) is not None
    assert mt.ones(3).view(mt.ndarray).fetch().tolist() == mt.ones(3).view(np.ndarray).fetch().tolist() == [1, 1, 1]


def test_a_class_that_inherits_is_a_class_like_any_other():
    class Special(mt.ndarray):
        pass

    special = np.ones(2).view(Special)
    assert type(special) is Special and type(Special((2,))) is Special
    assert isinstance(special, Special) and isinstance(special, mt.ndarray) and issubclass(Special, np.ndarray)
    assert not isinstance(mt.ones(2), Special) and not issubclass(mt.Tensor, Special) and Special != np.ndarray


def test_a_class_may_inherit_from_abc_too():
    class Shape(mt.ndarray, abc.ABC):
        @abc.abstractmethod
        def area(self): ...

    class Square(Shape):
        def area(self):
            return 4

    square = np.ones(2).view(Square)
    assert square.area() == 4 and isinstance(square, Shape) and isinstance(square, mt.ndarray)
    assert not isinstance(np.ones(2), Shape) and not issubclass(np.ndarray, Shape)


def test_functions_are_chosen_by_it():
    @functools.singledispatch
    def kind(x):
        return "other"

    kind.register(mt.ndarray, lambda x: "array")
    assert [kind(x) for x in (np.ones(1), mt.ones(1), [1])] == ["array", "array", "other"]


def test_a_view_as_another_class_is_refused():
    for given in ({"dtype": np.matrix}, {"type": np.matrix}, {"dtype": "f8", "type": np.matrix}):
        with pytest.raises(UnsupportedError, match="a view as matrix is not in jmars"):
            mt.ones(3).view(**given)
    for kind in (np.ma.MaskedArray, mt.ma.MaskedArray):
        x = mt.ones(3)
        y = x.view(kind)
        y[1] = 5
        assert isinstance(y, mt.ma.MaskedArray) and x[1] == 5
    assert mt.ones(3).view("i8", np.ndarray).dtype == mt.ones(3).view("i8", mt.ndarray).dtype == "i8"


def test_in_functions_of_blocks_it_is_numpys():
    kind, masked = mt.ndarray, mt.ma.MaskedArray

    def kinds(x, given=mt.ndarray):
        return type(x) is kind, given, type(masked(x, mask=False))

    same, given, made = unpickled(pickled(kinds))(np.ones(1))
    assert same and given is np.ndarray and made is np.ma.MaskedArray


def test_it_travels():
    assert pickle.loads(pickle.dumps(ndarray)) is ndarray
    assert cloudpickle.loads(cloudpickle.dumps(lambda x, kind=mt.ndarray: isinstance(x, kind)))(np.ones(1))
