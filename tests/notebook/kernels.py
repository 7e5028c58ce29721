"""Kernels of several ipykernel versions for the tests that need a real kernel, without a browser.

Every version lies in a folder of its own, `$JMARS_KERNELS_DIR/ipykernel-<version>` (by default inside the virtual
environment, so that one download serves all runs), and a kernelspec whose PYTHONPATH begins with that folder.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager
from jupyter_core.utils import ensure_event_loop

ROOT = Path(__file__).parents[2]
VERSIONS = ("6.31.0", pytest.param("7.3.0", marks=pytest.mark.long), "newest")  # the environment's
PROMPT = 20.0  # seconds until a request has its effect, on a machine however busy; one is promised on an idle machine
IN_LAB = ("6.31.0", "newest")  # 7.0 to 7.3 lose a request now and then as a page connects (decision 0037)


def kernel_path(version: str) -> str:
    """The folder that goes before all others in the kernel's PYTHONPATH; skips the test where pip cannot fill it."""
    if version == "newest":
        return ""
    if importlib.metadata.version("ipykernel") == version:
        return ""
    cache = Path(os.environ.get("JMARS_KERNELS_DIR", Path(sys.prefix) / "share" / "jmars-test-kernels"))
    folder = cache / f"ipykernel-{version}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        fresh = tempfile.mkdtemp(dir=cache)
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", fresh]
        try:
            subprocess.run([*pip, f"ipykernel=={version}"], check=True, capture_output=True, text=True, timeout=100)
            os.rename(fresh, folder)
        except (subprocess.SubprocessError, OSError) as error:
            shutil.rmtree(fresh, ignore_errors=True)
            if not folder.exists():  # another run may have been faster
                pytest.skip(f"pip cannot install ipykernel {version}: {getattr(error, 'stderr', '') or error}")
    return str(folder)


def write_kernelspec(folder: Path, name: str, version: str, env: dict[str, str] | None = None) -> None:
    """A kernelspec `name` in `folder` that runs ipykernel `version` with this checkout's jmars."""
    path = os.pathsep.join(part for part in (kernel_path(version), str(ROOT)) if part)
    spec = {
        "argv": [sys.executable, "-Xfrozen_modules=off", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        "display_name": name,
        "language": "python",
        "env": {"PYTHONPATH": path, **(env or {})},
    }
    (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / name / "kernel.json").write_text(json.dumps(spec))


class Client:
    """A blocking client of one kernel that remembers what came on iopub."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self.manager = manager
        self.client = client
        self.iopub: list[dict[str, Any]] = []

    def send(self, code: str) -> str:
        """Send a cell and return its message id at once."""
        return self.client.execute(code)

    def settle(self) -> None:
        """After a cell that failed: return when the kernel aborts no more cells that were sent behind it."""
        while self.reply(self.send("None"))["status"] == "aborted":
            pass

    def run(self, code: str, timeout: float = 60) -> str:
        """Run a cell to its end; its text output. Fails the test when the cell fails.

        A kernel drops what comes shortly after an error: such a cell is sent again.
        """
        reply = self.reply(self.send(code), timeout)
        for _ in range(20):
            if reply["status"] != "aborted":
                break
            reply = self.reply(self.send(code), timeout)
        assert reply["status"] == "ok", "\n".join(reply.get("traceback", [str(reply)]))
        return self.text(reply["parent"])

    def reply(self, parent: str, timeout: float = 60) -> dict[str, Any]:
        """Content of the shell reply to `parent`, with the message id as "parent"; others are dropped."""
        while True:
            message = self.client.get_shell_msg(timeout=timeout)
            if message["parent_header"].get("msg_id") == parent:
                return {**message["content"], "parent": parent}

    def control(self, kind: str, content: dict[str, Any], timeout: float = 60) -> dict[str, Any]:
        """Ask on the control channel."""
        message = self.client.session.msg(kind, content)
        self.client.control_channel.send(message)
        while True:
            reply = self.client.get_control_msg(timeout=timeout)
            if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                return dict(reply["content"])

    def shell(self, kind: str, content: dict[str, Any], subshell: str | None = None) -> str:
        """Send any request on the shell channel; its message id."""
        message = self.client.session.msg(kind, content)
        if subshell:
            message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def wait_for(self, found: Callable[[dict[str, Any]], bool], timeout: float = 60) -> dict[str, Any]:
        """The first message on iopub, seen or to come, for which `found` holds."""
        for message in self.iopub:
            if found(message):
                return message
        while True:
            message = self.client.get_iopub_msg(timeout=timeout)
            self.iopub.append(message)
            if found(message):
                return message

    def printed(self, text: str, timeout: float = 60) -> dict[str, Any]:
        """Wait until a cell has printed `text`."""
        return self.wait_for(lambda m: m["msg_type"] == "stream" and text in m["content"]["text"], timeout)

    def text(self, parent: str) -> str:
        """All text that the cell `parent` put out, once it is idle."""

        def is_mine(message: dict[str, Any]) -> bool:
            return message["parent_header"].get("msg_id") == parent

        self.wait_for(lambda m: is_mine(m) and m["content"].get("execution_state") == "idle")
        parts: list[str] = []
        is_stream = False
        for message in filter(is_mine, self.iopub):
            content, was_stream = message["content"], is_stream
            is_stream = message["msg_type"] == "stream"
            if is_stream and was_stream:
                parts[-1] += content["text"]
            elif is_stream:
                parts.append(content["text"])
            elif message["msg_type"] in ("execute_result", "display_data", "update_display_data"):
                parts.append(content["data"].get("text/plain", ""))
            elif message["msg_type"] == "error":
                parts.append("\n".join(content["traceback"]))
        return "\n".join(part.rstrip("\n") for part in parts if part)


@contextmanager
def running_kernel(folder: Path, version: str, env: dict[str, str] | None = None) -> Iterator[Client]:
    """A kernel of ipykernel `version`, ended with the block."""
    write_kernelspec(folder, "jmars-test", version, env)
    specs = KernelSpecManager(kernel_dirs=[str(folder)], ensure_native_kernel=False)
    loop = ensure_event_loop()  # jupyter_client's blocking calls make one and keep it: ours to close
    manager = KernelManager(kernel_name="jmars-test", kernel_spec_manager=specs)
    manager.start_kernel(cwd=str(folder), env={**os.environ, "IPYTHONDIR": str(folder / "ipython")})
    client = manager.blocking_client()
    try:
        client.start_channels(hb=False)  # a heartbeat that comes late would be asked for by a new socket, at any time
        client.wait_for_ready(timeout=60)
        yield Client(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()
        manager.context.destroy(linger=0)
        loop.close()
