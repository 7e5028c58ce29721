"""A real JupyterLab and a headless Chromium to drive it, as a person behind a hub would see them.

The server stands under `/user/ann/` and asks for a token; the page is driven by Playwright from Python with the
system's Chromium ($JMARS_CHROMIUM or on the PATH), so no browser and no node is downloaded. Screenshots go to
`$JMARS_SCREENS` when that is set.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import pytest
from playwright.sync_api import Browser, Error, Locator, Page, TimeoutError, sync_playwright

from tests.notebook.kernels import write_kernelspec
from tests.ports import unused_port

ROOT = Path(__file__).parents[2]
BASE = "/user/ann/"
TOKEN = "a-token-for-tests"
# a page of JupyterLab in the other theme: the bare view is looked at in both, by test_side_bar.py and test_widths.py
THEMES = ["light", pytest.param("dark", marks=pytest.mark.long)]
PATIENCE = 60_000  # milliseconds that a page is waited for; only a test that fails waits so long
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
FLAGS += ["--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"]


def find_chromium() -> str:
    """The browser's path; skips the test where there is none."""
    names = (os.environ.get("JMARS_CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
    for name in names:
        path = shutil.which(name) if name else None
        if path:
            return path
    pytest.skip("no Chromium: install the package `chromium` or set JMARS_CHROMIUM to its path")


@dataclass
class Lab:
    """A running JupyterLab."""

    url: str  # with the base URL and a slash at its end
    folder: Path  # holds the notebooks
    log: Path
    specs: Path  # kernelspecs

    def write(self, name: str, cells: list[str], kernel: str = "python3") -> None:
        """Write a notebook of code cells."""
        notebook = nbformat.v4.new_notebook()
        notebook.metadata["kernelspec"] = {"name": kernel, "display_name": kernel, "language": "python"}
        notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
        nbformat.write(notebook, self.folder / name)

    def read(self, name: str) -> Any:
        """A saved notebook."""
        return nbformat.read(self.folder / name, as_version=4)

    def get(self, path: str, token: str | None = TOKEN, method: str = "GET") -> tuple[int, bytes]:
        """Status and body of a request below the base URL."""
        headers = {"Authorization": f"token {token}"} if token else {}
        request = urllib.request.Request(self.url + path, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.status, reply.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def end_kernels(self) -> None:
        """Shut all kernels down."""
        for kernel in json.loads(self.get("api/kernels")[1]):
            self.get(f"api/kernels/{kernel['id']}", method="DELETE")


@contextlib.contextmanager
def running_lab(folder: Path, env: dict[str, str] | None = None) -> Iterator[Lab]:
    """JupyterLab with this checkout's jmars and its extension, ended with the block."""
    work, data, specs = folder / "work", folder / "data", folder / "data" / "kernels"
    for made in (work, specs, folder / "config", folder / "run"):
        made.mkdir(parents=True, exist_ok=True)
    write_kernelspec(specs, "python3", "newest")
    _write_settings(folder / "settings")
    (folder / "run").chmod(0o700)
    extensions = data / "labextensions"
    extensions.mkdir()
    built = ROOT / "jmars" / "_labextension"
    if not (built / "package.json").exists():
        pytest.skip("the JupyterLab extension is not built: run `jlpm && jlpm build:prod` in labextension/")
    (extensions / "jmars-lab").symlink_to(built)
    port = unused_port()
    places = {
        "JUPYTER_CONFIG_DIR": folder / "config",
        "JUPYTER_CONFIG_PATH": ROOT / "jupyter-config",
        "JUPYTER_DATA_DIR": data,
        "JUPYTER_RUNTIME_DIR": folder / "run",
        "JUPYTERLAB_WORKSPACES_DIR": folder / "workspaces",
        "JUPYTERLAB_SETTINGS_DIR": folder / "settings",
        "IPYTHONDIR": folder / "ipython",
        "JUPYTER_PREFER_ENV_PATH": "no",  # else the extension as pip copied it goes before the one that was just built
    }
    config = {
        "ServerApp": {"jpserver_extensions": {"jmars.notebook.server": True, "notebook": True}},
        "JupyterNotebookApp": {"expose_app_in_browser": True},  # Notebook 7, at notebooks/NAME of the same server
    }
    (folder / "config" / "jupyter_server_config.json").write_text(json.dumps(config))
    settings = {
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.port": port,
        "ServerApp.port_retries": 0,
        "ServerApp.base_url": BASE,
        "ServerApp.root_dir": work,
        "ServerApp.open_browser": False,
        "IdentityProvider.token": TOKEN,
        "LabApp.news_url": "None",
        "LabApp.check_for_updates_class": "jupyterlab.handlers.announcements.NeverCheckForUpdate",
        "LabApp.expose_app_in_browser": True,
    }
    arguments = [f"--{name}={value}" for name, value in settings.items()]
    environment = os.environ | {name: str(path) for name, path in places.items()} | (env or {})
    environment["PYTHONPATH"] = str(ROOT)
    url = f"http://127.0.0.1:{port}{BASE}"
    log = folder / "lab.log"
    with log.open("w") as output:
        command = [sys.executable, "-m", "jupyterlab", "--allow-root", *arguments]
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=output, start_new_session=True)
    try:
        lab = Lab(url, work, log, specs)
        _wait_until_up(lab, process)
        yield lab
    finally:
        process.send_signal(signal.SIGTERM)  # it ends its kernels, and they their clusters
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _write_settings(folder: Path) -> None:
    """No toast about news may cover a corner of the page; jobs of two seconds are notified, not only of five."""
    place = folder / "@jupyterlab" / "apputils-extension"
    place.mkdir(parents=True, exist_ok=True)
    (place / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')
    ours = folder / "jmars-lab"
    ours.mkdir(exist_ok=True)
    (ours / "plugin.jupyterlab-settings").write_text('{"notifyAfter": 2, "memoryLimit": "300MiB"}')


def _wait_until_up(lab: Lab, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with contextlib.suppress(OSError):
            if lab.get("api/status")[0] == 200:
                return
        if process.poll() is not None:
            break
        time.sleep(0.1)  # polled: a server that starts tells nobody
    raise RuntimeError(f"JupyterLab does not answer:\n{lab.log.read_text()[-3000:]}")


@contextlib.contextmanager
def running_browser() -> Iterator[Browser]:
    """Headless Chromium, ended with the block."""
    path = find_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class LabPage:
    """JupyterLab in one page of a browser, which opens notebooks one after another.

    To load JupyterLab takes seven seconds of CPU, to open a notebook in the loaded page and to start its kernel one.
    """

    browser: Browser
    lab: Lab
    page: Page | None = None  # None before the first notebook, and after a test that failed
    console: list[str] = field(default_factory=list)  # errors that the page has printed since it opened the notebook

    @contextlib.contextmanager
    def opened(
        self, name: str, width: int = 1250, height: int = 900, fresh: bool = False, kernel: bool = True
    ) -> Iterator[NotebookPage]:
        """Open a notebook, with its kernel or without; the block's end closes it and ends its kernel.

        `fresh`: in a page and a profile that have had no other notebook, whose layout a reload would restore.
        """
        if fresh:
            self.close()
        self.console.clear()
        page = self.page or self._load()
        notebook = NotebookPage(page, self.lab, self.console)
        try:
            page.set_viewport_size({"width": width, "height": height})
            page.evaluate(_OPEN, [name, kernel])
            if kernel:
                notebook.wait_until_ready()
            else:
                notebook.wait_until_drawn()
            yield notebook
            notebook.theme("light")
            page.evaluate(_LEAVE)
        except BaseException as error:
            error.add_note(notebook.told())
            self.close()
            raise
        finally:
            self.lab.end_kernels()

    def close(self) -> None:
        """Close the page and forget its profile."""
        if self.page is not None:
            self.page.context.close()
            self.page = None

    def _load(self) -> Page:
        context = self.browser.new_context()
        context.set_default_timeout(PATIENCE)
        self.page = page = context.new_page()
        page.on("console", lambda m: self.console.extend(_told(m.text)) if m.type == "error" else None)
        page.on("pageerror", lambda error: self.console.extend(_told(str(error.stack))))
        page.goto(f"{self.lab.url}lab?reset&token={TOKEN}")
        page.wait_for_selector(".jp-Launcher")
        return page


def _told(stack: str) -> list[str]:
    """An error that the page raised or printed; none for two that are not ours, of ipywidgets' manager.

    `getWidgetManagerOwner` of @jupyter-widgets/jupyterlab-manager 5.0.16 waits until the session context of each
    notebook is ready, and then reads `session.kernel.id`; the session of a notebook without a kernel is null. The
    promise fails when the server has told its sessions, which may be after the notebook has been closed and the next
    one opened: nothing on the page waits for it. Source: ipywidgets#3970, open.

    `JupyterLuminoWidget.processMessage` of the same version (jupyterlab_widgets 3.0.17) passes each message to its
    view, which `dispose` has set to null: a message to the view of a notebook that is being closed fails.
    """
    manager = "@jupyter-widgets/jupyterlab-manager/static/" in stack
    theirs = any(f"null (reading '{name}')" in stack for name in ("kernel", "processLuminoMessage"))
    return [] if manager and theirs else [stack[:800]]


_OPEN = """async ([path, kernel]) => {
  const { commands, shell } = window.jupyterapp;
  const opened = await commands.execute('docmanager:open', { path, kernelPreference: { shouldStart: kernel } });
  [...shell.widgets('main')].filter(it => it !== opened).forEach(it => it.dispose());
}"""
# not by JupyterLab's commands, which ask whether to save
_LEAVE = """async () => {
  const { shell } = window.jupyterapp;
  for (const it of [...shell.widgets('main')]) {
    await it.context?.sessionContext.shutdown();
    it.dispose();
  }
  shell.collapseRight();
}"""


@dataclass
class NotebookPage:
    """One notebook, open in JupyterLab or in Notebook 7."""

    page: Page
    lab: Lab
    console: list[str]  # errors that the page has printed

    def wait_until_drawn(self) -> None:
        """The notebook is drawn and our commands are there; its kernel may be busy or gone."""
        self.page.wait_for_selector(".jp-Notebook .jp-CodeCell")
        self.page.wait_for_function("() => window.jupyterapp?.commands.hasCommand('jmars:show')")

    def wait_until_ready(self) -> None:
        """The notebook is drawn and its kernel answers: for a page that is new to it, only between cells that block."""
        self.wait_until_drawn()
        self.page.wait_for_function(
            """() => {
              const kernel = window.jupyterapp?.shell.currentWidget?.context?.sessionContext?.session?.kernel;
              return kernel?.connectionStatus === 'connected' && ['idle', 'busy'].includes(kernel.status);
            }"""
        )

    def told(self) -> str:
        """What cells, console and server have told, for a test that fails."""
        cells = "() => window.jupyterapp.shell.currentWidget.content.model.sharedModel.toJSON().cells"
        try:
            outputs = [str(cell.get("outputs"))[-2000:] for cell in self.page.evaluate(cells)]
        except Error as error:  # the page is not drawn yet
            outputs = [str(error)]
        return f"cells: {outputs}; console: {self.console}; server: {self.lab.log.read_text()[-2000:]}"

    def run(self, cell: int, wait: bool = False) -> None:
        """Run a cell by JupyterLab's own command; `wait` for its end."""
        self.page.evaluate(
            """async ([cell, wait]) => {
              const late = new Promise((_, no) => setTimeout(() => no(new Error('the cell takes over 60 s')), 60000));
              const notebook = window.jupyterapp.shell.currentWidget;
              notebook.content.activeCellIndex = cell;
              const context = notebook.context.sessionContext;
              await Promise.race([context.ready, late]);
              const ended = window.jupyterapp.commands.execute('notebook:run-cell');
              if (wait && !(await Promise.race([ended, late]))) throw new Error('the cell was not run');
            }""",
            [cell, wait],
        )

    def command(self, name: str, arguments: dict[str, Any] | None = None) -> None:
        """Execute one of JupyterLab's commands."""
        self.page.evaluate(
            "([name, arguments]) => window.jupyterapp.commands.execute(name, arguments).then(() => 1)",
            [name, arguments or {}],
        )

    def theme(self, name: str) -> None:
        """ "light" or "dark"."""
        shown = f"document.body.dataset.jpThemeLight === '{str(name == 'light').lower()}'"
        if not self.page.evaluate(shown):
            self.command("apputils:change-theme", {"theme": f"JupyterLab {name.capitalize()}"})
            self.page.wait_for_function(shown)

    def outputs(self, cell: int) -> list[dict[str, Any]]:
        """The outputs of a cell as the notebook's model holds them."""
        found: list[dict[str, Any]] = self.page.evaluate(
            "cell => window.jupyterapp.shell.currentWidget.content.model.sharedModel.toJSON().cells[cell].outputs", cell
        )
        return found

    def text(self, cell: int) -> str:
        """The text that a cell has put out."""
        parts = []
        for output in self.outputs(cell):
            if "text" in output:
                parts.append("".join(output["text"]))
            elif "data" in output:
                parts.append("".join(output["data"].get("text/plain", "")))
            else:
                parts.append("\n".join(output.get("traceback", [])))
        return "\n".join(parts)

    def wait_for_text(self, cell: int, text: str, timeout: float = PATIENCE / 1000) -> None:
        """Wait until a cell has put out `text`; the failure tells what it put out instead."""
        found = """([cell, text]) => JSON.stringify(window.jupyterapp.shell.currentWidget.content.model
          .sharedModel.toJSON().cells[cell].outputs).includes(text)"""
        try:
            self.page.wait_for_function(found, arg=[cell, text], timeout=timeout * 1000)
        except TimeoutError as error:
            raise AssertionError(f"cell {cell} shows no {text!r} after {timeout} s") from error

    def wait_until_idle(self, timeout: float = PATIENCE / 1000) -> None:
        """No cell runs or waits."""
        self.page.wait_for_function(
            "() => ![...document.querySelectorAll('.jp-InputPrompt')].some(it => it.textContent.includes('[*]'))",
            timeout=timeout * 1000,
        )

    def view(self, cell: int) -> Locator:
        """The live view under a cell."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(cell).locator(".jp-OutputArea-output")

    def tab(self, cell: int, name: str) -> None:
        """Open a tab of the view under a cell, and first the view where it is a line."""
        view = self.view(cell)
        details = view.get_by_role("button", name="details").first
        if details.get_attribute("aria-expanded") == "false":
            details.click()
        view.get_by_role("tab", name=name).click()

    def moved(self, cell: int) -> list[int]:
        """Percentages that the bar under a cell shows one after another: the first three, or fewer in 60 s."""
        script = """cell => new Promise(done => {
          const seen = [];
          const look = setInterval(() => {
            const view = document.querySelectorAll('.jp-Notebook .jp-Cell')[cell];
            const now = Number(view.querySelector('[role=progressbar]')?.getAttribute('aria-valuenow') ?? 0);
            if (now !== seen.at(-1)) seen.push(now);
            if (seen.length === 3) end();
          }, 50);
          const late = setTimeout(() => end(), 60000);
          const end = () => { clearInterval(look); clearTimeout(late); done(seen); };
        })"""
        found: list[int] = self.page.evaluate(script, cell)
        return found

    def save(self) -> None:
        """Save the notebook."""
        self.command("docmanager:save")

    def screenshot(self, name: str) -> None:
        """Keep what is seen in $JMARS_SCREENS, when that is set."""
        folder = os.environ.get("JMARS_SCREENS")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            (Path(folder) / f"{name}.png").write_bytes(self.page.screenshot())  # with `path=` it leaves a thread
