"""An exception of a kernel becomes a Failure: what the user wrote is shown, what leads there is not."""

from __future__ import annotations

import numpy as np
import pytest

from jmars.errors import GraphError
from jmars.kernels import describe
from jmars.kernels.float_errors import FILE


def raised(function: object) -> BaseException:
    with pytest.raises(BaseException) as caught:
        function()  # type: ignore[operator]
    return caught.value


def test_a_failure_has_class_text_frames_and_the_exception() -> None:
    failure = describe(raised(lambda: 1 / 0))
    assert str(failure) == "ZeroDivisionError: division by zero"
    assert "lambda: 1 / 0" in failure.traceback and not failure.is_transient and failure.member == -1
    assert isinstance(failure.unpickled(), ZeroDivisionError)


def test_generated_code_is_no_code_of_the_user() -> None:
    code = compile("def run():\n    raise FloatingPointError('divide')", FILE, "exec")
    names: dict[str, object] = {}
    exec(code, names)
    frames = raised(lambda: names["run"]())  # type: ignore[operator]
    frames.__traceback__ = frames.__traceback__.tb_next.tb_next.tb_next  # type: ignore[union-attr]
    assert not describe(frames).in_user_code


def test_errors_of_jmars_show_no_frames_of_jmars() -> None:
    assert describe(GraphError("no such graph")).traceback == ""


def test_an_exception_that_cannot_travel_keeps_name_and_text() -> None:
    class Odd(Exception):
        def __reduce__(self) -> object:
            raise TypeError("not me")

    failure = describe(Odd("text"))
    assert (failure.name, failure.text, failure.pickled) == ("Odd", "text", b"")


def test_errors_of_the_system_may_pass() -> None:
    assert describe(FileNotFoundError("gone")).is_transient


def test_errors_tell_whether_code_of_the_user_ran() -> None:
    def trace_of(error: BaseException) -> BaseException:
        """The error as a kernel raises it: without the frame of this file."""
        assert error.__traceback__ is not None
        return error.with_traceback(error.__traceback__.tb_next)

    singular = raised(lambda: np.linalg.inv(np.zeros((2, 2))))
    assert describe(singular).in_user_code  # the lambda is one
    assert not describe(trace_of(trace_of(singular))).in_user_code
    assert not describe(raised(lambda: memoryview(b"")[3])).is_final
    assert describe(GraphError("no such graph")).is_final
