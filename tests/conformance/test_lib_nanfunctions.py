"""numpy.lib.tests.test_nanfunctions."""

from tests.conformance.upstream import adopt

adopt("numpy.lib.tests.test_nanfunctions", globals())
