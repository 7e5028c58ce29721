"""numpy._core.tests.test_shape_base."""

from tests.conformance.upstream import adopt

adopt("numpy._core.tests.test_shape_base", globals())
