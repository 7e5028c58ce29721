"""numpy.lib.tests.test_index_tricks."""

from tests.conformance.upstream import adopt

adopt("numpy.lib.tests.test_index_tricks", globals())
