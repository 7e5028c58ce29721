"""numpy.lib.tests.test_stride_tricks."""

from tests.conformance.upstream import adopt

adopt("numpy.lib.tests.test_stride_tricks", globals())
