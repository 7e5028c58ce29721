"""What shape and dtype answer is answered at once; text computes."""

from __future__ import annotations

import numpy as np

import jmars.tensor as jt


def test_shape_and_dtype_answer_without_computing(engine):
    x = jt.ones((3, 4), dtype="c8", chunk_size=2)
    assert np.shape(x) == (3, 4) and np.ndim(x) == 2 and np.size(x) == 12 and np.size(x, 1) == 4
    assert np.iscomplexobj(x) and not np.isrealobj(x)
    assert np.result_type(x, np.float64) == np.dtype("c16") and np.result_type(x, 1.0) == np.dtype("c8")
    assert np.can_cast(np.float32, x.dtype) and not jt.can_cast(x, "f4")
    assert np.common_type(x, x) is np.complex64
    assert engine.chunks == {}


def test_text_is_numpy_s():
    a = np.arange(6.0).reshape(2, 3)
    x = jt.as_tensor(a, chunk_size=2)
    assert np.array2string(x) == np.array2string(a)
    assert np.array2string(x, precision=1, separator=";") == np.array2string(a, precision=1, separator=";")
    assert np.array_repr(x) == np.array_repr(a) and np.array_str(x) == np.array_str(a)


def test_tensors_share_memory_with_their_views():
    x = jt.ones(6)
    assert np.shares_memory(x, x) and np.shares_memory(x, x[2:]) and not np.shares_memory(x, x + 0)
    even, odd = x[::2], x[1::2]
    assert np.may_share_memory(even, odd) and not np.shares_memory(even, odd)
    assert not np.shares_memory(x, np.ones(3)) and not np.may_share_memory(x, np.ones(3))


def test_flags_are_those_of_numpy():
    for cut_ in (lambda a: a, lambda a: a.T, lambda a: a[0], lambda a: a[::2, ::2]):
        ours, theirs = cut_(jt.ones((4, 6))), cut_(np.ones((4, 6)))
        assert jt.isfortran(ours) == np.isfortran(theirs)
        for name in ("fnc", "forc", "behaved", "carray", "farray", "contiguous", "fortran"):
            assert getattr(ours.flags, name) == getattr(theirs.flags, name), name
        for name in ("C", "F", "W", "A", "X", "B", "CA", "FA", "FNC", "FORC", "FARRAY"):
            assert ours.flags[name] == theirs.flags[name], name
