"""numpy.fft.tests.test_helper."""

from tests.conformance.upstream import adopt

adopt("numpy.fft.tests.test_helper", globals())
