"""numpy.lib.tests.test_histograms."""

from tests.conformance.upstream import adopt

adopt("numpy.lib.tests.test_histograms", globals())
