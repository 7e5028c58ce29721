"""numpy._core.tests.test_multiarray."""

from tests.conformance.upstream import adopt

adopt("numpy._core.tests.test_multiarray", globals())
