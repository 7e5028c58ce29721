"""The side bar starts clusters elsewhere, for real: by ssh, on a Dask cluster, on a Ray; scales them and stops them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator

from tests.browser.harness import ROOT, NotebookPage
from tests.browser.test_clusters_in_lab import stop
from tests.multihost.machines import Machine, need_machines
from tests.multihost.ssh_server import SshServer
from tests.ports import unused_port

pytestmark = [pytest.mark.browser, pytest.mark.timeout(400)]

SUM = "%%jmars\nimport numpy as np\nx = np.arange(1_000_000.0, chunk_size=100_000)\nprint(float(np.sqrt(x * x).sum()))"
RAY = """import ray, sys
ray.init(num_cpus=1, object_store_memory=100_000_000, include_dashboard=False, log_to_driver=False)
print("at", ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
ray.shutdown()"""


@pytest.fixture
def sshd(lab, tmp_path: Path) -> Iterator[SshServer]:
    """sshd at 127.0.0.1, whose key and our key the Jupyter server has in its home folder."""
    need_machines()
    port = unused_port()
    machine = Machine("node", network=False)
    environment = {name: os.environ[name] for name in ("TMPDIR", "JMARS_RUNTIME_DIR")} | {"PYTHONPATH": str(ROOT)}
    try:
        server = SshServer(machine, "127.0.0.1", tmp_path, environment, port)
        shutil.copytree(server.home / ".ssh", lab.folder.parent / ".ssh")
        yield server
        server.close()
    finally:
        shutil.rmtree(lab.folder.parent / ".ssh", ignore_errors=True)
        machine.close()


@pytest.fixture
def ray_address() -> Iterator[str]:
    """A Ray of one CPU in a process of its own."""
    pytest.importorskip("ray", reason="ray is not installed")
    with tempfile.TemporaryDirectory(
        prefix="r", dir="/tmp", ignore_cleanup_errors=True
    ) as folder:  # short, for sockets
        environment = os.environ | {"RAY_TMPDIR": folder, "HOME": folder, "RAY_USAGE_STATS_ENABLED": "0"}
        environment["RAY_AUTH_MODE"] = "disabled"  # else it wants a token, which a new Ray has in its home folder
        command = [sys.executable, "-c", RAY]
        with subprocess.Popen(command, stdin=-1, stdout=-1, text=True, env=environment, cwd=folder) as process:
            assert process.stdin is not None and process.stdout is not None
            told = next((line for line in process.stdout if line.startswith("at ")), "")
            yield told.removeprefix("at ").strip()
            process.stdin.close()
            assert process.wait(60) == 0


def started(notebook: NotebookPage, kind: str, name: str, fields: dict[str, str]) -> Locator:
    """Fill the form, start a cluster, connect the notebook, and run its sum there; the side bar."""
    notebook.command("jmars:start")
    side = notebook.page.locator(".jmars-Sidebar")
    side.get_by_label("Where").select_option(kind)
    for label, text in {**fields, "Name": name}.items():
        side.get_by_label(label).fill(text)
    side.get_by_role("button", name="Start", exact=True).click()
    side.locator(".jm-card", has_text=name).wait_for(timeout=90_000)
    side.get_by_role("button", name="Connect", exact=True).click()
    notebook.page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells.length === 2"
    )
    notebook.run(0, wait=True)
    assert f"{name}, 1 worker" in notebook.text(0)
    notebook.run(1, wait=True)
    assert "499999500000.0" in notebook.text(1)
    side.locator(".jm-kernels li").first.wait_for()
    side.locator(".jm-job").first.wait_for()
    return side


def scale(notebook: NotebookPage, side: Locator, label: str, text: str) -> None:
    """Scale by the dialog."""
    side.get_by_role("button", name="Scale…").click()
    dialog = notebook.page.locator(".jp-Dialog")
    dialog.get_by_label(label).last.fill(text)
    dialog.get_by_role("button", name="Scale").click()
    dialog.wait_for(state="detached")


@pytest.mark.root
def test_a_cluster_by_ssh_is_started_scaled_and_stopped(lab, lab_page, sshd):
    lab.write("ssh.ipynb", [SUM])
    with lab_page.opened("ssh.ipynb", width=1500) as notebook:
        fields = {"Machines": sshd.place, "Workers": "1", "Memory limit": "256MiB", "Python there": sys.executable}
        side = started(notebook, "ssh", "far", fields)
        assert "1 worker on 1 host" in side.locator(".jm-card").inner_text()
        notebook.screenshot("start-ssh")
        scale(notebook, side, "Further hosts", "local")
        side.get_by_text("2 workers on 2 hosts").wait_for(timeout=60_000)
        notebook.screenshot("start-ssh-two")
        scale(notebook, side, "Number of hosts", "1")
        side.get_by_text("1 worker on 1 host").wait_for(timeout=60_000)
        scale(notebook, side, "Largest number", "2")
        notebook.run(1, wait=True)
        assert "499999500000.0" in notebook.text(1)
        stop(notebook.page, side)
        assert [error for error in notebook.console if "jmars" in error] == []


def test_a_dask_cluster_is_used_and_says_why_it_is_not_scaled(lab, lab_page):
    pytest.importorskip("distributed")
    from tests.engines.dask_groups import cluster_process

    lab.write("dask-start.ipynb", [SUM])
    with cluster_process(1) as ask, lab_page.opened("dask-start.ipynb", width=1500) as notebook:
        side = started(notebook, "dask", "on-dask", {"Address": ask("").removeprefix("tcp://")})
        assert "1 worker of Dask" in side.locator(".jm-card").inner_text()
        notebook.screenshot("start-dask")
        scale(notebook, side, "Number of workers", "2")
        notebook.page.locator(".Toastify__toast", has_text="this Dask client cannot scale its cluster").wait_for()
        notebook.screenshot("start-dask-not-scaled")
        ask(2)  # where it was started
        side.get_by_text("2 workers of Dask").wait_for()
        stop(notebook.page, side)
        assert len(ask("")) > 9  # the Dask cluster goes on


@pytest.mark.long
def test_a_ray_is_used(lab, lab_page, ray_address):
    lab.write("ray-start.ipynb", [SUM])
    with lab_page.opened("ray-start.ipynb", width=1500) as notebook:
        side = started(notebook, "ray", "on-ray", {"Address": ray_address})
        assert "1 worker of Ray" in side.locator(".jm-card").inner_text()
        notebook.screenshot("start-ray")
        stop(notebook.page, side)
        assert [error for error in notebook.console if "jmars" in error] == []
