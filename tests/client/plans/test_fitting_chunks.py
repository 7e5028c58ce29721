"""What is proposed where a job was refused: arrays of the user's and chunks with which all fits, or that none do."""

import math
import re

import pytest

import jmars.tensor as mt
from jmars.client.plans import plan_request as module
from jmars.client.plans.plan_request import PlanRequest, fitting_chunks, single_chunk_axes, suggest_chunk_sizes
from jmars.errors import MemoryLimitError
from jmars.plan.costs import Profile
from jmars.scheduler.ranking import Machine, hungriest, refuse_unfit
from jmars.switches import TASK_DEFAULTS

SETTINGS = {**TASK_DEFAULTS, "combine_size": 4}


@pytest.fixture(autouse=True)
def no_limit_of_time(monkeypatch):
    monkeypatch.setattr(module, "BUDGET", math.inf)


def asked(*tensors, held=frozenset()):
    return PlanRequest([one.data for one in tensors], held, SETTINGS, Profile(), 2, None)


def fat(chunk):
    """A product and, beside it, what needs more the smaller the chunks of the product are."""
    x = mt.ones((2000, 2000), chunk_size=chunk)
    return (x @ x).sum() + (x + x.T).max()


def needs(request):
    return hungriest(request.compiled().after).nbytes


def refused(tensor, room):
    """The error of a job that computes it where there are so many bytes."""
    most = hungriest(asked(tensor).compiled().after)
    with pytest.raises(MemoryLimitError) as caught:
        refuse_unfit(most, Machine(Profile(), room), "operand f of line 1 (f(x))")
    return caught.value


def said(tensor, room, held=frozenset()):
    """What to do about it."""
    return suggest_chunk_sizes(refused(tensor, room), [tensor.data], held, 2)


@pytest.mark.parametrize("share", [2, 5, 30])
def test_every_operand_fits_with_what_is_proposed(share):
    request = asked(fat(1000))
    room = needs(request) // share
    (source,) = fitting_chunks(request, needs(request), room, budget=math.inf)
    shape = tuple(axis[0] for axis in source.chunks)
    assert len(shape) == 2 and max(shape) < 1000
    assert needs(asked(fat(shape))) <= room


def test_each_array_that_is_to_be_cut_is_named_with_chunks_in_its_own_axes():
    def work(of_x, of_y):
        return (mt.ones((4000, 1000), chunk_size=of_x) @ mt.zeros((1000, 3000), chunk_size=of_y)).sum()

    tensor = work((2000, 1000), (500, 3000))
    room = needs(asked(tensor)) // 4
    text = said(tensor, room)
    found = re.fullmatch(
        r"use chunk_size=\((\d+), (\d+)\) for ones of shape \(4000, 1000\) in line \d+ and "
        r"chunk_size=\((\d+), (\d+)\) for zeros of shape \(1000, 3000\) in line \d+: then every operand fits; "
        r"or raise memory_limit by \d.*",
        text,
    )
    assert found is not None, text
    a, b, c, d = map(int, found.groups())
    assert needs(asked(work((a, b), (c, d)))) <= room


def test_what_a_product_cut_to_fit_the_other_factor_is_cut_anew():
    x = mt.ones((4000, 4000), chunk_size=(2000, 4000))
    tensor = (x @ mt.ones((4000, 4000), chunk_size=1600)).sum()
    assert "every operand fits" in said(tensor, needs(asked(tensor)) // 10)


def test_where_an_operand_takes_an_array_whole_no_chunks_are_proposed():
    x = mt.ones((2000, 2000), chunk_size=500)
    for made in (mt.linalg.svd(x)[1], mt.linalg.inv(x).sum(), mt.linalg.qr(x)[1].sum()):
        text = said(made, 16 * 2**20)
        assert re.match(
            r"no chunk_size helps, since \w+ of shape \(2000, 2000\) in line \d+ is needed whole; raise", text
        )
    text = said(mt.sort(mt.ones((4, 2**20), chunk_size=(4, 2**18)), axis=1).sum(), 6 * 2**20)
    assert re.match(
        r"no chunk_size helps, since ones of shape \(4, 1048576\) .* is needed whole along axis 1; raise", text
    )


def test_what_is_taken_whole_and_fits_is_no_reason():
    x = mt.ones((2000, 2000), chunk_size=500)
    whole = [mt.linalg.svd(x)[1].data]  # 32 MB, beside the pieces of which they are made
    assert single_chunk_axes(whole, (), 70 * 10**6) is None and single_chunk_axes(whole, (), 40 * 10**6) is not None
    assert single_chunk_axes([mt.sort(x, axis=1).data], (), 100 * 2000) is None, (
        "a line fits; fewer of them in a chunk would"
    )
    assert single_chunk_axes([(x + 1).sum().data], (), 1) is None


def test_where_nothing_better_is_known_the_text_stays():
    error = refused(tensor := fat(1000), 2**20)
    all_held = {node.key for node in question_nodes(tensor)}
    assert error.proposed in str(error) and "use a smaller chunk_size, or raise memory_limit by" in error.proposed
    assert suggest_chunk_sizes(error, [tensor.data], all_held, 2) == error.proposed
    assert fitting_chunks(asked(mt.ones(10)), 100, 1, math.inf) == [], "chunks of some bytes help nobody"


def test_what_would_take_longer_than_there_is_time_is_not_begun(monkeypatch):
    request = asked(fat(1000))
    need = needs(request)
    assert fitting_chunks(request, need, need // 5, math.inf)
    compiled = []
    monkeypatch.setattr(PlanRequest, "compiled", lambda *args: compiled.append(args))
    monkeypatch.setattr(module, "COMPILE_SECONDS", 1.0)  # each operand, and there are more than two
    assert fitting_chunks(request, need, need // 5, budget=2.0) == [] and not compiled


def question_nodes(tensor):
    seen, stack = [], [tensor.data]
    while stack:
        node = stack.pop()
        if not any(node is one for one in seen):
            seen.append(node)
            stack += node.op.inputs
    return seen
