"""numpy.lib.tests.test_shape_base."""

from tests.conformance.upstream import adopt

adopt("numpy.lib.tests.test_shape_base", globals())
