"""numpy._core.tests.test_umath."""

from tests.conformance.upstream import adopt

adopt("numpy._core.tests.test_umath", globals())
