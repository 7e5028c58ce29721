"""A function's pickle is kept as long as it would be the same, and not longer."""

import functools
import types

import cloudpickle
import numpy as np
import pytest

from jmars.tensor import spawn
from jmars.tensor.spawn import KEPT, function_blob


def made(text: str, name: str = "f", **names):
    """A function of a notebook: its globals are `names`."""
    names["__name__"] = "__main__"
    exec(text, names)
    return names[name], names


def called(function, *args):
    return cloudpickle.loads(function_blob(function))(*args)


def test_a_function_of_constants_is_pickled_once():
    f, _ = made("import math\ndef f(x, y=1):\n    return math.floor(x) + y + step", step=2)
    assert function_blob(f) is function_blob(f)
    assert called(f, 3.5) == 6


@pytest.mark.parametrize(
    ("text", "change", "result"),
    [
        ("def f():\n    return step", lambda f, names: names.update(step=3000), 3000),
        ("def f():\n    return (lambda: step)()", lambda f, names: names.update(step=3000), 3000),
        ("def f(x=1):\n    return x", lambda f, names: setattr(f, "__defaults__", (3000,)), 3000),
        ("def f(*, x=1):\n    return x", lambda f, names: f.__kwdefaults__.update(x=3000), 3000),
        ("def f():\n    return g()\ndef g():\n    return 1", lambda f, names: names.update(g=lambda: 3000), 3000),
        ("def f():\n    return g()\ndef g():\n    return step", lambda f, names: names.update(step=3000), 3000),
        ("def f():\n    return 1", lambda f, names: setattr(f, "__code__", (lambda: 3000).__code__), 3000),
        ("def f():\n    return h() if 'h' in globals() else 1", lambda f, names: names.update(h=lambda: 3000), 3000),
    ],
)
def test_a_change_of_what_it_holds_is_sent(text, change, result):
    f, names = made(text, step=1000)
    first = called(f)
    change(f, names)
    assert first != called(f) == result


def test_a_closure_over_a_changed_variable_is_sent():
    def outer():
        number = 1

        def f():
            return number

        def set_number(to):
            nonlocal number
            number = to

        return f, set_number

    f, set_number = outer()
    f.__module__ = "__main__"
    assert called(f) == 1
    set_number(2)
    assert called(f) == 2


@pytest.mark.parametrize("held", [[1], {"a": 1}, np.zeros(1)])
def test_what_can_change_in_place_is_pickled_anew(held):
    f, _ = made("def f():\n    return held[key]", held=held, key="a" if isinstance(held, dict) else 0)
    called(f)
    held["a" if isinstance(held, dict) else 0] = 7
    assert called(f) == 7


def test_a_class_of_the_notebook_may_change_in_place():
    f, names = made("class C:\n    n = 1\ndef f():\n    return C.n")
    assert called(f) == 1
    names["C"].n = 2
    assert cloudpickle.loads(function_blob(f)).__globals__["C"].n in (1, 2)  # this process has the class
    assert function_blob(f) is not function_blob(f)


def test_recursive_functions_and_empty_cells_pickle():
    f, _ = made("def f(n):\n    return n and g(n - 1)\ndef g(n):\n    return n and f(n - 1)")
    assert called(f, 5) == 0 and function_blob(f) is function_blob(f)

    def outer():
        def f():
            return later if False else 5

        if f is None:
            later = 1
        return f

    inner = outer()
    inner.__module__ = "__main__"
    assert called(inner) == 5


def test_an_importable_function_is_pickled_by_its_name():
    assert function_blob(made) is function_blob(made) and len(function_blob(made)) < 200


class Counted(int):
    """A number with an attribute."""


def module_of_the_user():
    """A module that no import finds."""
    return types.ModuleType("found_nowhere")


@pytest.mark.parametrize("held", [Counted(1), [].append, module_of_the_user()])
def test_objects_with_a_state_of_their_own_are_pickled_anew(held):
    f, _ = made("def f():\n    return held", held=held)
    assert function_blob(f) is not function_blob(f)


def test_a_default_is_told_from_an_attribute_of_the_same_name():
    f, _ = made("def f(*, x=1):\n    return x")
    assert called(f) == 1
    f.x, f.__kwdefaults__ = f.__kwdefaults__["x"], None
    with pytest.raises(TypeError, match="keyword-only"):
        called(f)


class Proxy:
    """Stands for an object that is not there yet."""

    def __getattribute__(self, name):
        if name == "__module__":
            raise RuntimeError("nothing is there")
        return object.__getattribute__(self, name)

    def __reduce_ex__(self, protocol):
        return int, (5,)


def test_attributes_of_an_object_are_not_asked_for():
    f, _ = made("def f():\n    return held", held=Proxy())
    assert called(f) == 5


def test_other_callables_are_pickled_each_time():
    assert called(functools.partial(max, 2), 1) == 2
    assert called(len, "abc") == 3


def test_few_and_small_pickles_are_kept():
    functions = [made(f"def f():\n    return {k}")[0] for k in range(KEPT + 5)]
    assert [called(f) for f in functions] == list(range(KEPT + 5))
    large, _ = made(f"def f():\n    return {'x' * 70_000!r}")
    assert len(called(large)) == 70_000
    assert len(spawn._kept) <= KEPT and all(one[0] is not large for one in spawn._kept.values())
