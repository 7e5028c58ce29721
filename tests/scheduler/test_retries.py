"""Which errors are worth another try, and how long to wait for it."""

import pytest

from jmars.errors import MemoryLimitError
from jmars.kernels import describe
from jmars.model.messages import Failure
from jmars.scheduler.prepare import MOST_DELAY, QUICK, SHARE, RetryRule

NUMPYS = Failure("ValueError", "no", seconds=0.001)
VALUE = Failure("ValueError", "no", in_user_code=True, seconds=0.001)
SYSTEM = Failure("OSError", "no", is_transient=True, seconds=100.0)


@pytest.mark.parametrize(
    ("rule", "failure", "most"),
    [
        (RetryRule(), NUMPYS, 0),  # it comes again for the same input
        (RetryRule(), SYSTEM, 3),
        (RetryRule(), VALUE, 3),
        (RetryRule(setting=4), NUMPYS, 4),
        (RetryRule(setting=0), SYSTEM, 0),
        (RetryRule(2, 5), VALUE, 2),  # the call's own number goes before the setting
        (RetryRule(0), SYSTEM, 0),
    ],
)
def test_who_is_tried_again(rule, failure, most):
    assert rule.most(failure, computed=0.0) == most


def test_a_slow_function_is_tried_again_only_where_the_stage_has_run_long():
    rule, slow = RetryRule(), Failure("ValueError", "no", in_user_code=True, seconds=2 * QUICK)
    assert rule.most(slow, computed=0.0) == 0
    assert rule.most(slow, computed=1.9 * QUICK / SHARE) == 0
    assert rule.most(slow, computed=2.1 * QUICK / SHARE) == 3


@pytest.mark.parametrize("rule", [RetryRule(9, 9), RetryRule(setting=9), RetryRule()])
def test_what_jmars_itself_refused_is_never_tried_again(rule):
    for failure in (Failure.of(MemoryLimitError("too large")), describe(MemoryLimitError("too large"))):
        assert failure.is_final and rule.most(failure, computed=1e9) == 0


def test_waits_grow_to_a_bound_and_functions_do_not_wait():
    rule = RetryRule()
    assert [rule.delay(SYSTEM, tries) for tries in (1, 2, 3)] == pytest.approx([0.05, 0.15, 0.45])
    assert rule.delay(SYSTEM, 100) == MOST_DELAY
    assert rule.delay(VALUE, 1) == 0.0
    assert RetryRule(7).delay(VALUE, 1) == 0.05  # who gives a number expects it to pass


def test_an_error_tells_the_number_of_tries():
    rule = RetryRule()
    assert rule.in_words(VALUE, 4) == ", tried 4 times"
    assert rule.in_words(VALUE, 1) == ", tried once; retries=n asks for more"
    assert RetryRule(0).in_words(VALUE, 1) == RetryRule(setting=0).in_words(VALUE, 1) == ", tried once"
    assert rule.in_words(NUMPYS, 1) == rule.in_words(Failure.of(MemoryLimitError("too large")), 1) == ""


def test_a_failure_tells_how_long_its_try_ran():
    assert describe(ValueError("no"), 1.5).seconds == 1.5
