"""numpy._core.tests.test_item_selection."""

from tests.conformance.upstream import adopt

adopt("numpy._core.tests.test_item_selection", globals())
