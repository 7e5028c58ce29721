"""numpy._core.tests.test_einsum."""

from tests.conformance.upstream import adopt

adopt("numpy._core.tests.test_einsum", globals())
