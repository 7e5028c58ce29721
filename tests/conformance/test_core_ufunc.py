"""numpy._core.tests.test_ufunc."""

from tests.conformance.upstream import adopt

adopt("numpy._core.tests.test_ufunc", globals())
