"""numpy.ma.tests.test_core."""

from tests.conformance.upstream import adopt

adopt("numpy.ma.tests.test_core", globals())
