"""numpy.ma.tests.test_extras."""

from tests.conformance.upstream import adopt

adopt("numpy.ma.tests.test_extras", globals())
