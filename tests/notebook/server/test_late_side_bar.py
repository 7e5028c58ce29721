"""A side bar that is opened late, when the log has lost a job's first events, shows what the cell shows."""

import time

import jmars.tensor as mt
from jmars.model.messages import Spilled
from jmars.model.status import OperandState as S
from jmars.notebook.run_state import RunState
from tests.scheduler.test_stage_run import ran, submitted, told


def shown(one, job, events):
    """The header that a fold of some events gives."""
    run = RunState()
    run.follow(job)
    run.fold(events)
    return run.snap(time.time())


def test_the_clock_and_the_counts_are_those_of_the_cell():
    async def story(one, port, ended):
        job = await submitted(one, mt.ones(8, chunk_size=1))
        done = [ran(one, port, job) for _ in range(5)]
        one.report(Spilled(job, done[:3], True))
        one.report(Spilled(job, done[:1], False))  # read back
        one.graph(job).submitted -= 8.9  # as if it had run that long

        def late():
            """What a reader is told that missed the first events."""
            standing = one.graph(job).standing()
            return shown(one, job, [[at, time.time(), *record] for at, record in enumerate(standing, 1)])

        full, now = shown(one, job, one.log.read(0, job)[0]), late()
        assert (now["counts"], now["n"]) == (full["counts"], full["n"])
        assert (now["counts"][S.SPILLED], now["counts"][S.FINISHED]) == (2, 3)
        assert now["elapsed"] >= 8.9
        assert (await one.describe(job))["counts"]["spilled"] == 2
        port.run(one, job)
        full, now = shown(one, job, one.log.read(0, job)[0]), late()
        assert (now["state"], now["counts"]) == (full["state"], full["counts"])
        assert now["counts"][S.SPILLED] == 2 and abs(now["elapsed"] - (await one.describe(job))["elapsed"]) < 0.1

    told(story)


def test_a_chunk_that_is_computed_again_is_no_longer_on_disk():
    async def story(one, port, ended):
        job = await submitted(one, mt.ones(4, chunk_size=1))
        operand = ran(one, port, job)
        one.report(Spilled(job, [operand], True))
        stage = one.graph(job).stage
        stage.chunks_lost([stage.table.chunk[operand]], "the file is damaged")
        port.run(one, job)
        assert one.graph(job)._final_states[operand] == S.FINISHED

    told(story)
