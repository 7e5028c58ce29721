"""One JupyterLab, one browser and one page of each for the tests of this folder in turn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.harness import PATIENCE, Lab, LabPage, running_browser, running_lab
from tests.browser.look import STATIC


@pytest.fixture(scope="package")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """JupyterLab, whose kernels show the live view, and learn costs from these tests only; in an empty home folder."""
    folder = tmp_path_factory.mktemp("lab")
    env = {"JMARS_DISPLAY": "widget", "JMARS_CACHE_DIR": str(tmp_path_factory.mktemp("costs")), "HOME": str(folder)}
    env["NODE_DISABLE_COMPILE_CACHE"] = "1"  # of the node that JupyterLab runs where it finds one
    with running_lab(folder, env) as started:
        yield started


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Headless Chromium."""
    with running_browser() as started:
        yield started


@pytest.fixture(scope="package")
def lab_page(lab: Lab, browser: Browser) -> Iterator[LabPage]:
    """JupyterLab in the browser."""
    page = LabPage(browser, lab)
    yield page
    page.close()


@dataclass
class Bare:
    """A page without JupyterLab, and the errors of the scripts in it."""

    page: Page
    errors: list[str] = field(default_factory=list)


@pytest.fixture(scope="package")
def _bare(browser: Browser) -> Iterator[Bare]:
    if not (STATIC / "widget.js").exists():
        pytest.skip("the front end is not built: run `jlpm && jlpm build:prod` in labextension/")
    bare = Bare(browser.new_page())
    bare.page.set_default_timeout(PATIENCE)
    bare.page.on("pageerror", lambda error: bare.errors.append(str(error)))
    yield bare
    bare.page.context.close()


@pytest.fixture
def page(_bare: Bare) -> Iterator[Page]:
    """An empty page without JupyterLab, for the view alone; no script in it fails."""
    _bare.page.goto("about:blank")
    _bare.errors.clear()
    yield _bare.page
    assert _bare.errors == []
