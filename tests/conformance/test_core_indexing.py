"""numpy._core.tests.test_indexing."""

from tests.conformance.upstream import adopt

adopt("numpy._core.tests.test_indexing", globals())
