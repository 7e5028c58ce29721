"""Which errors are worth another try, and how long to wait for it."""

import errno

import numpy as np
import pytest

from jmars.errors import MemoryLimitError
from jmars.kernels import describe
from jmars.model.messages import Failure
from jmars.scheduler.prepare import MOST_DELAY, RetryRule

NUMPYS = Failure("ValueError", "no")
VALUE = Failure("ValueError", "no", in_user_code=True)
SYSTEM = Failure("OSError", "no", is_transient=True)


@pytest.mark.parametrize(
    ("rule", "failure", "most"),
    [
        (RetryRule(), NUMPYS, 0),  # it comes again for the same input
        (RetryRule(), SYSTEM, 3),
        (RetryRule(), VALUE, 0),
        (RetryRule(setting=4), NUMPYS, 4),
        (RetryRule(setting=0), SYSTEM, 0),
        (RetryRule(2, 5), VALUE, 2),  # the call's own number goes before the setting
        (RetryRule(0), SYSTEM, 0),
    ],
)
def test_who_is_tried_again(rule, failure, most):
    assert rule.most(failure) == most


def test_errors_that_may_pass():
    for error in (OSError(), MemoryError(), ConnectionResetError(), TimeoutError(), EOFError(), FileNotFoundError()):
        assert RetryRule().most(describe(error)) == 3
    for error in (ValueError(), RuntimeError(), KeyError(), AssertionError(), np.linalg.LinAlgError()):
        assert RetryRule().most(describe(error)) == 0
    assert RetryRule().most(describe(OSError(errno.EBUSY, "Please reduce your request rate."))) == 0  # of s3fs
    assert RetryRule().most(describe(OSError(errno.EBUSY, "Device or resource busy", "a"))) == 3


@pytest.mark.parametrize("rule", [RetryRule(9, 9), RetryRule(setting=9), RetryRule()])
def test_what_jmars_itself_refused_is_never_tried_again(rule):
    for failure in (Failure.of(MemoryLimitError("too large")), describe(MemoryLimitError("too large"))):
        assert failure.is_final and rule.most(failure) == 0


def test_waits_grow_to_a_bound():
    rule = RetryRule()
    assert [rule.delay(tries) for tries in (1, 2, 3)] == pytest.approx([0.05, 0.15, 0.45])
    assert rule.delay(100) == MOST_DELAY


def test_an_error_tells_the_number_of_tries():
    rule = RetryRule()
    assert rule.in_words(VALUE, 4) == ", tried 4 times"
    assert rule.in_words(VALUE, 1) == ", tried once; retries=n asks for more"
    assert RetryRule(0).in_words(VALUE, 1) == RetryRule(setting=0).in_words(VALUE, 1) == ", tried once"
    assert rule.in_words(NUMPYS, 1) == rule.in_words(Failure.of(MemoryLimitError("too large")), 1) == ""
