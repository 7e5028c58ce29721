"""Makes this process look like one on macOS: what only Linux has is not there. Imported before jmars."""

from __future__ import annotations

import builtins
import os
import select
import socket
import struct
import sys
from typing import Any

_OS = """memfd_create pidfd_open eventfd eventfd_read eventfd_write sched_getaffinity sched_setaffinity setns unshare
    splice copy_file_range posix_fallocate posix_fadvise getrandom O_TMPFILE pipe2"""
_SOCKET = "SO_PEERCRED SO_PASSCRED AF_NETLINK AF_VSOCK SOCK_CLOEXEC MSG_CMSG_CLOEXEC TCP_USER_TIMEOUT"
_open = builtins.open


class _Socket(socket.socket):
    def getsockopt(self, level: int, option: int, *size: int) -> Any:
        """macOS's answers about the other end: `struct xucred` (sys/ucred.h), and its process."""
        if (level, option) not in ((0, 1), (0, 2)):
            return super().getsockopt(level, option, *size)
        pid, uid, _ = struct.unpack("3i", super().getsockopt(socket.SOL_SOCKET, _PEER, 12))
        return struct.pack("i", pid) if option == 2 else struct.pack("IIhxx16I", 0, uid, 1, *range(16))


def _no_proc(path: Any, *args: Any, **kwargs: Any) -> Any:
    if str(path).startswith("/proc/"):
        raise FileNotFoundError(2, "No such file or directory", path)
    return _open(path, *args, **kwargs)


_PEER = socket.SO_PEERCRED
sys.platform = "darwin"
builtins.open = _no_proc
socket.socket = _Socket  # type: ignore[misc]
for _module, _names in ((os, _OS), (socket, _SOCKET), (select, "epoll")):
    for _name in _names.split():
        _module.__dict__.pop(_name, None)
