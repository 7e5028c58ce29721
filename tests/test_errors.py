"""Errors travel: between processes, and beside libraries that change how exceptions pickle."""

import pickle

import pytest

from jmars import errors


@pytest.mark.parametrize("name", [n for n in errors.__all__ if n[0].isupper()])
def test_an_error_comes_back_as_it_was(name):
    kind = getattr(errors, name)
    error = kind("what happened")
    error.add_note("in line 3")
    back = pickle.loads(pickle.dumps(error))
    assert type(back) is kind and back.args == error.args and back.__notes__ == ["in line 3"]


@pytest.mark.parametrize("kind", [errors.ClusterLostError, errors.ChunkLostError, errors.StorageError])
def test_an_error_comes_back_where_distributed_was_imported(kind):
    support = pytest.importorskip("tblib.pickling_support")  # distributed installs it for all exceptions there are
    rebuild, args, *_ = support.pickle_exception(kind("what happened"))
    back = rebuild(*args)
    assert type(back) is kind and str(back) == "what happened"
