"""numpy.lib.tests.test_function_base."""

from tests.conformance.upstream import adopt

adopt("numpy.lib.tests.test_function_base", globals())
