"""numpy.lib.tests.test_arraysetops."""

from tests.conformance.upstream import adopt

adopt("numpy.lib.tests.test_arraysetops", globals())
