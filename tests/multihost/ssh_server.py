"""sshd on a machine, and a user's keys and settings for it.

The server has a host key and accepts one key, of the user who runs the tests. `SshServer.home` is a home folder for
clients, with `.ssh` as a user has it: tests point $HOME there, so that nobody's real keys, agent or settings matter.
Source: sshd_config(5).
"""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import asyncssh
import pytest

from tests.multihost.machines import Machine

__all__ = ["SshServer"]

PORT = 2222
_SETTINGS = """\
Port {port}
ListenAddress {address}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/authorized_keys
PidFile none
UsePAM no
StrictModes no
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UseDNS no
LogLevel VERBOSE
"""


class SshServer:
    """An sshd.

    Parameters
    ----------
    machine, address
        Where it listens.
    folder
        For keys, settings and log; made.
    environment
        Variables that commands of ssh sessions get.
    port
        Where it listens.

    Attributes
    ----------
    place
        user@address:port.
    home
        A home folder for clients.
    far_home
        The home folder of ssh sessions.
    log
        Lines that the server has written.
    """

    def __init__(
        self, machine: Machine, address: str, folder: Path, environment: dict[str, str], port: int = PORT
    ) -> None:
        program = shutil.which("sshd", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")
        if program is None:
            pytest.skip("needs sshd (Debian package openssh-server)")
        self.place = f"{getpass.getuser()}@{address}:{port}"
        self.folder, self.home = folder, folder / "home"
        (self.home / ".ssh").mkdir(parents=True, mode=0o700)
        self.host_key = _make_key(folder / "host_key")
        user_key = _make_key(self.home / ".ssh" / "id_ed25519")
        (folder / "authorized_keys").write_bytes(user_key.export_public_key())
        self.trust(self.host_key)
        settings = _SETTINGS.format(port=port, address=address, folder=folder)
        self.far_home = folder / "far-home"
        self.far_home.mkdir()
        environment = {**environment, "HOME": str(self.far_home)}  # a shell reads and writes what it likes there
        settings += "SetEnv " + " ".join(f'{name}="{value}"' for name, value in environment.items()) + "\n"
        (folder / "sshd_config").write_text(settings)
        self._machine = machine
        self.log: list[str] = []
        self._listens = threading.Event()
        command = machine.command([program, "-D", "-e", "-f", str(folder / "sshd_config")])
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        if not self._listens.wait(60):
            self.close()
            raise RuntimeError("sshd does not listen:\n" + "".join(self.log))

    def trust(self, key: asyncssh.SSHKey) -> None:
        """Let the clients' known_hosts have this key for the server, and no other."""
        host, port = self.place.partition("@")[2].split(":")
        line = b"[%s]:%s " % (host.encode(), port.encode()) + key.export_public_key()
        (self.home / ".ssh" / "known_hosts").write_bytes(line)

    def call(self, name: str, *settings: str) -> str:
        """Give the server a name in the clients' settings, with more settings; returns the name."""
        user, _, address = self.place.partition("@")
        host, port = address.split(":")
        lines = [f"Host {name}", f"HostName {host}", f"Port {port}", f"User {user}", *settings, ""]
        (self.home / ".ssh" / "config").write_text("\n".join(lines))
        return name

    def close(self) -> None:
        """End it and its sessions; what was started in them goes on."""
        for pid in self._machine.pids().values():
            if _name(pid).startswith("sshd"):
                with suppress(ProcessLookupError):  # a session may have ended since
                    os.kill(pid, signal.SIGKILL)
        self._process.wait(60)
        self._reader.join(60)

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as lines:
            for line in lines:
                self.log.append(line)
                if "listening" in line:
                    self._listens.set()


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""


def _make_key(path: Path) -> asyncssh.SSHKey:
    key = asyncssh.generate_private_key("ssh-ed25519")
    path.touch(mode=0o600)
    key.write_private_key(path)
    return key
