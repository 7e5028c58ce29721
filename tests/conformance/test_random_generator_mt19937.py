"""numpy.random.tests.test_generator_mt19937."""

from tests.conformance.upstream import adopt

adopt("numpy.random.tests.test_generator_mt19937", globals())
