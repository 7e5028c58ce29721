"""The notebooks and kernels of this Jupyter server that are connected to a cluster, by the ids of their processes."""

from __future__ import annotations

from typing import Any, TypedDict

from jupyter_core.utils import ensure_async

from jmars.notebook.view import plain_text

__all__ = ["KernelRow", "kernel_rows"]


class KernelRow(TypedDict):
    """A kernel in lists of the side bar."""

    id: str
    pid: int
    name: str  # of the kernel, "python3"
    path: str  # of its notebook or console; "" for none
    busy: bool


async def kernel_rows(kernel_manager: Any, session_manager: Any) -> dict[int, KernelRow]:
    """The running kernels by the ids of their processes; kernels of other machines have none here."""
    paths = {}
    for session in await ensure_async(session_manager.list_sessions()):
        paths[session["kernel"]["id"]] = session.get("path") or session.get("name") or ""
    found: dict[int, KernelRow] = {}
    for kernel in kernel_manager.list_kernel_ids():
        manager = kernel_manager.get_kernel(kernel)
        pid = getattr(manager.provisioner, "pid", None)
        if pid:
            found[pid] = KernelRow(
                id=kernel,
                pid=pid,
                name=plain_text(manager.kernel_name),
                path=plain_text(paths.get(kernel, "")),
                busy=getattr(manager, "execution_state", "") == "busy",
            )
    return found
