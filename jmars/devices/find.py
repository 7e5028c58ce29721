"""Names of the GPUs of a machine, and how a process opens a GPU.

A name is "cuda:N", "cuda:N:SIZE" with at most so many bytes for chunks, or "fake:SIZE" for a `FakeDevice` of so many
bytes; "fake:SIZE:CALLS" loses its context after so many calls, and "fake:SIZE:no-NAME" lacks a function of
`library.LIBRARY`. Looking for GPUs imports nothing of CUDA.
Source: `nvidia-smi(1)` (files of devices); CUDA C++ Programming Guide, `CUDA_VISIBLE_DEVICES`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from jmars.units import parse_bytes

if TYPE_CHECKING:
    from jmars.devices.device import Device

SPARE = 512 * 10**6  # bytes of a GPU that the slab leaves, for the context and library calls
_NAME = r"cuda:[\w-]+(:\w+)?|fake:\w+(:\d+|:no-\w+)?"


def find_gpus(folder: str = "/dev") -> list[str]:
    """Names of the GPUs of NVIDIA that this process may use; none without CuPy."""
    if find_spec("cupy") is None:
        return []
    found = sorted(int(name[6:]) for name in os.listdir(folder) if re.fullmatch(r"nvidia\d+", name))
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        chosen = [one.strip() for one in visible.split(",")]
        return [f"cuda:{one}" for one in chosen if one and one != "-1"] if found else []
    return [f"cuda:{number}" for number in found]


def is_gpu(worker: str) -> bool:
    """Whether a worker of this name is a GPU.

    Examples
    --------
    >>> is_gpu("gpu-0"), is_gpu("host-1/gpu-0"), is_gpu("worker-0")
    (True, True, False)
    """
    return worker.rpartition("/")[2].startswith("gpu-")


def gpu_names(gpus: str | int | Sequence[str]) -> list[str]:
    """The names for `Cluster(gpus=...)`: "auto" for all there are, a number, or names.

    Raises
    ------
    ValueError
        If there are fewer GPUs than asked for, this process sees none of the kind, or a name has another form.

    Examples
    --------
    >>> gpu_names(0), gpu_names(["fake:64MiB"])
    ([], ['fake:64MiB'])
    """
    if isinstance(gpus, str):
        if gpus != "auto":
            raise ValueError(f"gpus={gpus!r} is not known; use 'auto', a number of GPUs, or a list such as ['cuda:0']")
        return find_gpus()
    if isinstance(gpus, int):
        found = find_gpus() if gpus else []
        if not 0 <= gpus <= len(found):
            raise ValueError(
                f"gpus={gpus}, and this process sees {len(found)} (files /dev/nvidia*, CUDA_VISIBLE_DEVICES, and the "
                "package cupy); use fewer, or install jmars[gpu-cu12]"
            )
        return found[:gpus]
    names = checked_gpu_names(gpus)
    found = find_gpus() if any(name.startswith("cuda:") for name in names) else []
    for name in names:
        kind, number, *_ = name.split(":")
        there = f"cuda:{number}" in found or (int(number) < len(found) if number.isdigit() else bool(found))
        if kind == "cuda" and not there:
            raise ValueError(
                f"gpus has {name!r}, and this process sees {len(found)} GPUs (files /dev/nvidia*, "
                "CUDA_VISIBLE_DEVICES, the package cupy); leave it out, or install NVIDIA's driver and jmars[gpu-cu12]"
            )
    return names


def checked_gpu_names(gpus: Sequence[str]) -> list[str]:
    """Names of GPUs of this or another machine; raises ValueError for a name of another form."""
    for name in gpus:
        if not re.fullmatch(_NAME, name):
            raise ValueError(f"{name!r} names no GPU; use names such as 'cuda:0'")
        most_bytes(name)
    return list(gpus)


def open_device(name: str) -> Device:
    """Open a GPU in this process, which must not have used CUDA before."""
    kind, _, rest = name.partition(":")
    if kind == "fake":
        from jmars.devices.fake_device import FakeDevice  # clients, which only look for names, do not import the module

        size, _, more = rest.partition(":")
        lost_after = int(more) if more.isdigit() else None
        return FakeDevice(parse_bytes(size), "early", lost_after, [more[3:]] if more.startswith("no-") else ())
    os.environ["CUDA_VISIBLE_DEVICES"] = rest.partition(":")[0]
    from jmars.devices.cupy_device import CupyDevice  # the import makes a process use CUDA

    return CupyDevice()


def most_bytes(name: str) -> int | None:
    """Bytes for chunks that the name of a GPU allows; None without a limit.

    Examples
    --------
    >>> most_bytes("cuda:0:4GiB"), most_bytes("cuda:0")
    (4294967296, None)
    """
    kind, _, rest = name.partition(":")
    size = rest.partition(":")[2]
    return parse_bytes(size) if kind == "cuda" and size else None


def slab_bytes(free: int, total: int) -> int:
    """Bytes for chunks: all free bytes but 5 percent, at least 512 MB, of a small device a quarter.

    Examples
    --------
    >>> slab_bytes(80 * 10**9, 80 * 10**9)
    76000000000
    """
    return free - max(total // 20, min(SPARE, total // 4))
