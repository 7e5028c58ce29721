"""numpy.linalg.tests.test_linalg."""

from tests.conformance.upstream import adopt

adopt("numpy.linalg.tests.test_linalg", globals())
