"""numpy.lib.tests.test_twodim_base."""

from tests.conformance.upstream import adopt

adopt("numpy.lib.tests.test_twodim_base", globals())
