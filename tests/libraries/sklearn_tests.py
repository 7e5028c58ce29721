"""scikit-learn's own array API tests on tensors, with jmars.array_api as the only namespace.

The tests are those of the installed scikit-learn whose parameters are array namespaces: estimators, metrics, utilities.
They compute in this process.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

NAMESPACE = "jmars.array_api"
TEXT = "jmars takes text, as NumPy does, for which the test is left out; the error is NumPy's too"
EXPECTED = {  # tests that fail, with the reason
    f"test_label_binarize_array_api_compliance[{NAMESPACE}-None-None-y0-classes0-expected0]": TEXT,
    f"test_label_binarize_array_api_compliance[{NAMESPACE}-None-None-y1-classes1-expected1]": TEXT,
}


class OnTensors:
    """Keeps the tests of the namespace, and collects how they end."""

    def __init__(self) -> None:
        self.ended: dict[str, list[str]] = defaultdict(list)
        self.causes: Counter[str] = Counter()

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave out the others; a test that is expected to fail must fail."""
        items[:] = [item for item in items if NAMESPACE in item.name]
        for item in items:
            if reason := EXPECTED.get(item.name):
                item.add_marker(pytest.mark.xfail(reason=reason, strict=True))

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Any:
        """Compute in this process."""
        from jmars.tensor.engine import current_engine, set_engine
        from tests.tensor.engine import OneByOne

        before = current_engine()
        set_engine(OneByOne())
        try:
            return (yield)
        finally:
            set_engine(before)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the result of a test."""
        if report.when == "call" or report.skipped or report.failed:
            outcome = "expected to fail" if hasattr(report, "wasxfail") else report.outcome
            self.ended[outcome].append(report.nodeid.rpartition("sklearn/")[2])
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            self.causes[(crash.message if crash else str(report.longrepr)).splitlines()[0][:160]] += 1


def run_tests(names: str) -> int:
    """Run scikit-learn's tests; 1 if one fails."""
    os.environ["SCIPY_ARRAY_API"] = "1"
    import sklearn
    from sklearn.utils import _array_api

    _array_api.yield_namespaces = lambda include_numpy_namespaces=True: iter([NAMESPACE])
    folder = Path(sklearn.__file__).parent
    files = [str(one) for one in sorted(folder.rglob("test_*.py")) if "yield_namespace" in one.read_text()]
    plugin = OnTensors()
    options = ["-q", "--no-header", "--tb=short", "-W", "ignore", "-p", "no:cacheprovider", "-c", os.devnull]
    pytest.main(
        [*options, f"--rootdir={folder.parent}", f"--confcutdir={folder}", *(["-k", names] if names else []), *files],
        plugins=[plugin],
    )
    print({outcome: len(tests) for outcome, tests in plugin.ended.items()})
    for name in plugin.ended["failed"]:
        print("   ", name)
    for cause, count in plugin.causes.most_common():
        print(f"{count:5}  {cause}")
    return bool(plugin.ended["failed"])
