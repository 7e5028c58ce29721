"""Chunks that are proposed where a job was refused: with them every operand of the graph fits, not only the named."""

import re

import pytest

import jmars.tensor as mt
from jmars.client.plans.fitting_chunks import fitting_chunks, with_fitting_chunks
from jmars.client.plans.question import Question
from jmars.errors import MemoryLimitError
from jmars.plan.profile import Profile
from jmars.scheduler.fitting import hungriest, refuse_unfit
from jmars.switches import TASK_DEFAULTS

SETTINGS = {**TASK_DEFAULTS, "combine_size": 4}


def asked(*tensors, held=frozenset()):
    return Question([one.data for one in tensors], held, SETTINGS, Profile(), 2, None)


def fat(chunk):
    """A product and, beside it, what needs more the smaller the chunks of the product are."""
    x = mt.ones((2000, 2000), chunk_size=chunk)
    return (x @ x).sum() + (x + x.T).max()


def needs(question):
    return hungriest(question.compiled().after).nbytes


@pytest.mark.parametrize("share", [2, 5, 30])
def test_every_operand_fits_with_what_is_proposed(share):
    question = asked(fat(1000))
    room = needs(question) // share
    shape = fitting_chunks(question, needs(question), room)
    assert len(shape) == 2 and max(shape) < 1000
    assert needs(asked(fat(shape))) <= room


def test_what_does_not_follow_its_sources_gets_no_proposal():
    one = mt.ones((4, 100_000), chunk_size=(4, 1000))
    question = asked(mt.sort(one.rechunk((1, 100_000)), axis=1))
    assert fitting_chunks(question, needs(question), needs(question) // 50) == ()
    assert fitting_chunks(asked(mt.ones(10)), 100, 1) == (), "chunks of some bytes help nobody"


def test_the_proposal_of_the_error_is_replaced_by_the_one_that_was_tried():
    tensor = fat(1000)
    question = asked(tensor)
    most = hungriest(question.compiled().after)
    with pytest.raises(MemoryLimitError) as caught:
        refuse_unfit(most, most.nbytes // 5, "operand matmul")
    old, new = with_fitting_chunks(caught.value, [tensor.data], frozenset(), 2)
    assert old in str(caught.value) and "fits this operand" in old
    assert re.fullmatch(r" \(one of \(\d+, \d+\) fits every operand\)", new)
    all_held = {node.key for node in question_nodes(tensor)}
    assert with_fitting_chunks(caught.value, [tensor.data], all_held, 2) == (old, old)


def question_nodes(tensor):
    seen, stack = [], [tensor.data]
    while stack:
        node = stack.pop()
        if not any(node is one for one in seen):
            seen.append(node)
            stack += node.op.inputs
    return seen
