"""numpy._core.tests.test_numeric."""

from tests.conformance.upstream import adopt

adopt("numpy._core.tests.test_numeric", globals())
