"""numpy._core.tests.test_function_base."""

from tests.conformance.upstream import adopt

adopt("numpy._core.tests.test_function_base", globals())
