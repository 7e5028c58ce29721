"""No dtype ends a process: not the user's, and not an executor.

`pytest tests/cluster/dtypes --hypothesis-profile=long` makes 2,000 calls.
"""

from __future__ import annotations

import pickle
import select
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import cloudpickle
import numpy as np
import pytest
from hypothesis import given, settings

from tests.cluster.dtypes.calls import Asked, calls
from tests.tensor.table.draws import Given

EXAMPLES = max(60, settings().max_examples) if settings().max_examples > 100 else 60
SECONDS = 100  # for one call; longer is a hang
ENDS = {"WorkerLostError", "ClusterLostError", "ClusterClosedError", "InternalError"}


class Child:
    """The process that makes the calls; started again after its end."""

    def __init__(self) -> None:
        self._process = _started()

    def ask(self, asked: Asked) -> tuple[str, str]:
        """What a call gave: "value" or the class of an error, and a text."""
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        try:
            process.stdin.write(cloudpickle.dumps(asked))  # functions of rows are lambdas
            process.stdin.flush()
            if not select.select([process.stdout], [], [], SECONDS)[0]:
                raise AssertionError(f"no answer after {SECONDS} s to {asked}")
            found: tuple[str, str] = pickle.load(process.stdout)
        except (EOFError, BrokenPipeError) as error:
            raise AssertionError(f"the process ended with {process.wait()}: {asked}") from error
        except BaseException:  # a late answer would be taken for that of the next call
            process.kill()
            process.wait()
            raise
        finally:
            if process.poll() is not None:
                self.close()
                self._process = _started()
        assert found[0] not in ENDS, (found, asked)
        return found

    def close(self) -> None:
        """End it."""
        self._process.communicate()


def _started() -> subprocess.Popen[bytes]:
    """A child that can answer: its cluster is there, so that no test is charged with it."""
    command = [sys.executable, "-m", "tests.cluster.dtypes.child"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert pickle.load(process.stdout) == "ready"
    return process


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    started = Child()
    yield started
    started.close()


@pytest.mark.timeout(1200)
def test_no_call_ends_a_process(child: Child) -> None:
    @settings(max_examples=EXAMPLES)
    @given(calls())
    def check(asked: Asked) -> None:
        child.ask(asked)

    check()


def cut(array: Any) -> Given:
    """An array in two chunks."""
    return Given(np.asarray(array), ((2, 2),))


OBJECTS = np.array([1, "a", None, {}], object)


@pytest.mark.parametrize(
    "function, args",
    [
        ("astype", (cut(np.ones(4)), object)),
        ("astype", (cut(np.ones(4)), [("a", object)])),
        ("astype", (cut(np.ones(4)), np.dtypes.StringDType())),
        ("asarray", (OBJECTS,)),
        ("asarray", (OBJECTS.astype(np.dtypes.StringDType()),)),
        ("asarray", ([1, None],)),
    ],
    ids=str,
)
def test_arrays_of_pointers_are_numpys_own(child: Child, function: str, args: Any) -> None:
    kind, text = child.ask(Asked(function, args, {}))
    assert kind == "value" and text.startswith("array("), text


@pytest.mark.parametrize(
    "function, args",
    [
        ("map_blocks", (cut(np.ones(4)), object)),
        ("map_blocks", (cut(np.ones(4)), np.dtypes.StringDType())),
        ("view", (cut(np.ones(4)), object)),
    ],
    ids=str,
)
def test_pointers_in_chunks_are_refused_with_a_reason(child: Child, function: str, args: Any) -> None:
    kind, text = child.ask(Asked(function, args, {}))
    assert kind == "ObjectArrayError", text
    assert "pointers" in text and "(line " in text


def test_a_block_of_objects_where_numbers_were_promised_is_an_error(child: Child) -> None:
    kind, text = child.ask(Asked("map_blocks of a dtype", (cut(np.ones(4)), object), {}))
    assert kind == "TypeError" and "gave object" in text


def test_any_object_travels_by_spawn(child: Child) -> None:
    for dtype in (object, np.dtypes.StringDType(), [("a", object)]):
        assert child.ask(Asked("spawn", (cut(np.ones(4)), dtype), {}))[0] == "value"
