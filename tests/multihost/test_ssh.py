"""ssh: whom it believes, whose keys it uses, what it says when it fails, and what a broken network does to it."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import asyncssh
import pytest

from jmars.deploy import launch
from jmars.deploy.control_process import ended_within
from jmars.deploy.launch import Launched
from jmars.deploy.launch_ssh import SshLauncher
from jmars.errors import ClusterStartError
from tests.multihost.machines import Machine
from tests.multihost.ssh_server import PORT, SshServer
from tests.multihost.stand_in import stand_in

pytestmark = pytest.mark.root

SECRET = secrets.token_hex(32)


@pytest.fixture
def here(head: Machine, sshd: SshServer) -> Iterator[None]:
    """The test is on the machine of the user, whose name the other machine does not have."""
    with head.network():
        yield


@pytest.fixture
def launcher(here: None, sshd: SshServer, tmp_path: Path) -> Callable[..., SshLauncher]:
    """Launchers of the stand-in on the other machine."""

    def make(place: str = sshd.place, behaviour: str = "answers", **settings: Any) -> SshLauncher:
        return SshLauncher(place, str(stand_in(tmp_path / "python", behaviour)), **settings)

    return make


def ticket(**more: object) -> bytes:
    return json.dumps({"v": 1, "host": 3, "secret": SECRET, **more}).encode()


def started(launcher: SshLauncher, then: Callable[[Launched], Awaitable[Any]], **more: object) -> Any:
    async def all_of_it() -> Any:
        host = await launcher.start(ticket(**more), "host-3", {})
        try:
            return await then(host)
        finally:
            await host.end()

    return asyncio.run(all_of_it())


async def number(host: Launched) -> int:
    return host.answer["host"]


def refusal(launcher: SshLauncher) -> str:
    with pytest.raises(ClusterStartError) as caught:
        asyncio.run(launcher.start(ticket(), "host-3", {}))
    return str(caught.value)


def accepted(server: SshServer) -> bool:
    return any("Accepted" in line for line in server.log)


def test_a_machine_with_another_key_is_refused_before_we_log_in(launcher, sshd):
    sshd.trust(asyncssh.generate_private_key("ssh-ed25519"))
    text = refusal(launcher())
    assert "shows another key than known_hosts has" in text
    assert f"`ssh-keygen -R '[10.77.0.2]:{PORT}'`" in text
    assert not accepted(sshd)


@pytest.mark.long
def test_a_machine_with_a_key_of_another_kind_is_refused(launcher, sshd):
    sshd.trust(asyncssh.generate_private_key("ecdsa-sha2-nistp256"))
    assert "shows another key than known_hosts has" in refusal(launcher())
    assert not accepted(sshd)


@pytest.mark.parametrize(
    "setting", ["StrictHostKeyChecking no\nUserKnownHostsFile /dev/null", "UserKnownHostsFile none"]
)
def test_no_setting_of_ssh_switches_the_check_off(launcher, sshd, setting):
    (sshd.home / ".ssh" / "config").write_text(f"Host *\n{setting}\n")
    text = refusal(launcher())
    assert "is in no known_hosts file" in text or "UserKnownHostsFile none" in text
    assert not accepted(sshd)


@pytest.mark.long
def test_the_command_in_the_error_adds_an_unknown_key(launcher, sshd):
    (sshd.home / ".ssh" / "known_hosts").unlink()
    text = refusal(launcher())
    assert "is in no known_hosts file" in text and not accepted(sshd)
    command = re.search(r"`(ssh-keyscan [^`]*)`", text)[1]
    subprocess.run(["sh", "-c", command], check=True, capture_output=True, timeout=60)
    assert started(launcher(), number) == 3


def test_a_user_without_a_key_is_told_what_to_do(launcher, sshd):
    (sshd.folder / "authorized_keys").write_bytes(b"")
    text = refusal(launcher())
    assert "refuses to log in" in text and "ssh-copy-id" in text and "ssh-add" in text


def test_places_nobody_is_at(launcher):
    assert "nothing listens at 10.77.0.2:1" in refusal(launcher("10.77.0.2:1"))
    assert "there is no route to 10.88.0.1" in refusal(launcher("10.88.0.1"))
    assert "no machine is called nowhere.invalid" in refusal(launcher("nowhere.invalid"))


@pytest.mark.long
def test_a_silent_machine_is_given_up(launcher, cable):
    with cable.silence():
        assert "10.77.0.2:2222 did not log us in within 0.3 s" in refusal(launcher(login_patience=0.3))


@pytest.mark.long
def test_something_else_listens_there(launcher, far, head):
    with far.network():
        listener = socket.create_server(("10.77.0.2", 80))
    with listener:
        listener.settimeout(60)

        async def talk() -> str:
            def serve() -> None:
                peer, _ = listener.accept()
                with peer:
                    peer.sendall(b"HTTP/1.0 400 \x1b[31mBad Request\r\n\r\n")

            serving = asyncio.create_task(asyncio.to_thread(serve))
            with pytest.raises(ClusterStartError) as caught:
                await launcher("10.77.0.2:80").start(ticket(), "host-3", {})
            await serving
            return str(caught.value)

        text = asyncio.run(talk())
    assert "ssh to" in text and "ssh -v -p 80" in text and "\x1b" not in text


def test_settings_of_ssh_are_used(launcher, sshd):
    """An alias, with address, port, user and key, as `ssh` would take them; a key elsewhere than by default."""
    folder = sshd.home / ".ssh"
    (folder / "id_ed25519").rename(folder / "for_node")
    assert started(launcher(sshd.call("node", "IdentityFile ~/.ssh/for_node")), number) == 3

    async def address(place: str) -> str:
        one = launcher(place)
        found = await one.address_here("host-3")
        host = await one.start(ticket(), "host-3", {})
        await host.end()
        return found

    assert asyncio.run(address("node")) == "10.77.0.1"
    assert sum("Accepted publickey" in line for line in sshd.log) == 2  # the connection is used again


@pytest.mark.long
def test_a_machine_behind_another_one(launcher, sshd):
    """By ProxyJump, both keys checked; our address is not known then."""
    sshd.call("node", f"ProxyJump {sshd.place}")

    async def address() -> str:
        one = launcher("node")
        try:
            return await one.address_here("host-3")
        finally:
            await one.close()

    assert asyncio.run(address()) == ""
    assert started(launcher("node"), number) == 3


@pytest.mark.long
def test_a_profile_may_print_and_the_interpreter_lie_in_the_home_folder(here, sshd):
    (sshd.far_home / ".bashrc").write_text("echo Welcome\necho news >&2\n")
    (sshd.far_home / "my env").mkdir()
    stand_in(sshd.far_home / "my env" / "python", "answers")
    assert started(SshLauncher(sshd.place, "~/my env/python"), number) == 3


@pytest.mark.long
def test_settings_that_cannot_be_read_are_named(launcher, sshd):
    (sshd.home / ".ssh" / "config").write_text("Port many\n")
    assert "the settings of ssh cannot be used" in refusal(launcher())


@pytest.mark.long
def test_a_key_with_a_passphrase_is_the_agents_to_know(launcher, sshd, tmp_path, monkeypatch):
    if shutil.which("ssh-agent") is None:
        pytest.skip("needs ssh-agent (Debian package openssh-client)")
    file, open_key = sshd.home / ".ssh" / "id_ed25519", tmp_path / "open"
    shutil.copy(file, open_key)
    subprocess.run(["ssh-keygen", "-q", "-p", "-N", "no one knows", "-f", file], check=True, timeout=60)
    assert "ssh-add" in refusal(launcher())
    socket_path = f"{os.environ['TMPDIR']}/agent"
    with subprocess.Popen(["ssh-agent", "-D", "-a", socket_path], stdout=subprocess.PIPE) as agent:
        try:
            agent.stdout.readline()  # it listens
            monkeypatch.setenv("SSH_AUTH_SOCK", socket_path)
            subprocess.run(["ssh-add", "-q", open_key], check=True, timeout=60)
            open_key.unlink()
            assert started(launcher(), number) == 3
        finally:
            agent.terminate()


def test_the_secret_is_nowhere(launcher, sshd, caplog, tmp_path):
    """Not in command lines, environments, logs of either side, nor in what is shown of launcher and host."""
    caplog.set_level(logging.DEBUG)
    one = launcher()

    async def then(host: Launched) -> list[bytes]:
        found = [f"{one!r} {host!r} {vars(one)} {vars(host)}".encode()]
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                for name in ("cmdline", "environ"):
                    try:
                        found.append((entry / name).read_bytes())
                    except OSError:
                        continue  # it has ended
        found.append(Path(host.answer["log"]).read_bytes())
        return found

    found = started(one, then)
    found += [caplog.text.encode(), "".join(sshd.log).encode()]
    assert any(b"stand_in.py" in text for text in found) and accepted(
        sshd
    )  # so that we have looked at the right things
    assert [text for text in found if SECRET.encode() in text] == []


@pytest.mark.long
def test_a_second_opinion_over_a_broken_connection_dials_again(launcher, cable, monkeypatch):
    monkeypatch.setattr(launch, "OPINION_SECONDS", 0.6)

    async def then(host: Launched) -> tuple[Any, Any]:
        with cable.silence():
            silent = await host.is_alive()
        cable.reset()
        return silent, await host.is_alive()

    silent, after = started(launcher(), then)
    assert silent is None
    assert list(after.values()) == ["running", "running"]


@pytest.mark.long
def test_a_host_whose_link_is_cut_ends_by_its_lease(launcher, head, far, cable):
    async def then(host: Launched) -> tuple[bool, bool]:
        link, _ = listener.accept()
        ours = [far.pids()[pid] for pid in host.pids]
        with link:
            for _ in range(3):
                link.sendall(b".")
            alive = not ended_within(ours[0], 0)
            with cable.silence():
                ended = await asyncio.to_thread(lambda: all(ended_within(pid, 60) for pid in ours))
        return alive, ended

    with socket.create_server(("10.77.0.1", 0)) as listener:
        listener.settimeout(60)
        leased = launcher(behaviour="leases")
        assert started(leased, then, head=listener.getsockname()) == (True, True)


@pytest.mark.long
def test_a_machine_that_is_switched_off_cannot_be_asked(launcher, far):
    async def then(host: Launched) -> tuple[Any, bool]:
        Path(host.answer["log"]).unlink()  # which the janitor would have removed; our machines share their disks
        far.crash()
        return await host.is_alive(), await host.end()

    assert started(launcher(), then) == (None, False)


def test_without_asyncssh_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "asyncssh", None)
    with pytest.raises(ClusterStartError, match=re.escape("pip install 'jmars[ssh]'")):
        SshLauncher("far")
