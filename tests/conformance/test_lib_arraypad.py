"""numpy.lib.tests.test_arraypad."""

from tests.conformance.upstream import adopt

adopt("numpy.lib.tests.test_arraypad", globals())
