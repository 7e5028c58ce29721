"""An exception of a kernel becomes a Failure: what the user wrote is shown, what leads there is not."""

from __future__ import annotations

from threading import Lock

import numpy as np
import pytest

from jmars.errors import GraphError
from jmars.kernels import describe
from jmars.kernels.float_errors import FILE, note_item


def raised(function: object) -> BaseException:
    with pytest.raises(BaseException) as caught:
        function()  # type: ignore[operator]
    return caught.value


def test_a_failure_has_class_text_frames_and_the_exception() -> None:
    failure = describe(raised(lambda: 1 / 0))
    assert str(failure) == "ZeroDivisionError: division by zero"
    assert "lambda: 1 / 0" in failure.traceback and not failure.is_transient and failure.member == -1
    assert isinstance(failure.unpickled(), ZeroDivisionError)


def test_causes_and_contexts_are_told_with_lines() -> None:
    def reads() -> None:
        try:
            try:
                {}["sample"]
            except KeyError:
                int("twelve")
        except ValueError as error:
            raise RuntimeError("no such table") from error

    failure = describe(raised(reads))
    lines = [line for line in failure.traceback.splitlines() if not line.startswith(" ")]
    number = "ValueError: invalid literal for int() with base 10: 'twelve'"
    assert lines == [f"caused by {number}", "while handling KeyError: 'sample'"]
    assert 'int("twelve")' in failure.traceback and '{}["sample"]' in failure.traceback


def test_suppressed_contexts_and_contexts_of_jmars_are_not_told() -> None:
    def hides() -> None:
        try:
            1 / 0
        except ZeroDivisionError:
            raise RuntimeError("hidden") from None

    error, own = raised(hides), raised(lambda: 1 / 0)
    own.__context__ = OSError("of jmars: no frame of a user")
    for one in (error, own):
        assert all(line.startswith(" ") for line in describe(one).traceback.splitlines())
    error.__cause__ = error  # a circle ends
    assert describe(error).traceback.count("caused by RuntimeError: hidden") == 4


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


@pytest.mark.parametrize("notes", [5, [5, "own"], (), None])
@pytest.mark.parametrize("item", [[], ["item 3, f(0)"]])
def test_notes_that_are_no_texts_travel_as_far_as_can_be(notes: object, item: list[str]) -> None:
    error = ValueError("text")
    error.__notes__ = notes  # type: ignore[assignment]
    error.kept = Lock()  # type: ignore[attr-defined]  # does not pickle
    for text in item:
        note_item(error, text)
    told = describe(error).text
    assert told == "\n".join(["text", *map(str, notes if isinstance(notes, list) else ()), *item])
    assert describe(error).text == told.removesuffix("\nitem 3, f(0)") and error.__notes__ is notes


def test_the_item_is_noted_on_a_copy() -> None:
    error = ValueError("raised again")
    for number in range(2):
        note_item(error, f"item {number}")
        revived = describe(error).unpickled()
        assert revived is not None and revived.__notes__ == [f"item {number}"]
    assert not hasattr(error, "__notes__")


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
