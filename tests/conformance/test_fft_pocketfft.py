"""numpy.fft.tests.test_pocketfft."""

from tests.conformance.upstream import adopt

adopt("numpy.fft.tests.test_pocketfft", globals())
