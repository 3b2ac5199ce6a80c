"""Another host with a Docker engine of its own: a network namespace of this machine, joined to it by a cable."""

import os
import re
import subprocess
import tempfile
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from polling import until

_LIMIT_S = 60


@dataclass
class Host:
    """`address`: its own; it reaches this machine at `here`."""

    namespace: str
    here: str
    address: str
    socket: Path

    def command(self, *words):
        # `ip netns exec` would hide the control groups that an engine needs.
        return ["nsenter", f"--net=/run/netns/{self.namespace}", *words]

    @property
    def environ(self):
        return os.environ | {"DOCKER_HOST": f"unix://{self.socket}"}

    def docker(self, *words):
        done = subprocess.run(
            ["docker", *words], env=self.environ, capture_output=True, text=True, timeout=_LIMIT_S, check=True
        )
        return done.stdout

    def answers(self):
        with suppress(subprocess.SubprocessError):
            return bool(self.docker("version", "--format", "{{.Server.Version}}"))
        return False


@contextmanager
def another_host():
    """A host whose engine runs while the block lasts; then nothing of it is left."""
    _remove_what_killed_runs_left()
    name = f"fleet{os.getpid()}"
    here, there = _free_addresses()
    with ExitStack() as stack:
        _ip("netns", "add", name)
        stack.callback(_ip, "netns", "delete", name)
        near, far = f"v{os.getpid()}a", f"v{os.getpid()}b"
        _ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", name)
        stack.callback(subprocess.run, ["ip", "link", "delete", near], check=False, capture_output=True)
        _ip("address", "add", f"{here}/24", "dev", near)
        _ip("link", "set", near, "up")
        inside = ["-n", name]
        _ip(*inside, "link", "set", "lo", "up")
        _ip(*inside, "address", "add", f"{there}/24", "dev", far)
        _ip(*inside, "link", "set", far, "up")
        _ip(*inside, "route", "add", "default", "via", here)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="host-")))
        stack.callback(_unmount, folder)
        host = Host(name, here, there, folder / "docker.sock")
        log = stack.enter_context((folder / "log").open("wb"))
        engine = subprocess.Popen(
            host.command("dockerd", "--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec",
                         "--pidfile", f"{folder}/pid", "--host", f"unix://{host.socket}", "--log-level", "warn"),
            stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        stack.callback(_end, engine)
        until(lambda: engine.poll() is not None or host.answers(), (folder / "log").read_text, _LIMIT_S)
        assert engine.poll() is None, (folder / "log").read_text()
        yield host


def _remove_what_killed_runs_left():
    """Namespaces and cables whose process is gone: a second cable with our addresses takes the answers."""
    names = set(re.findall(r"^fleet(\d+)", _ip("netns", "list"), re.MULTILINE))
    cables = set(re.findall(r"^\d+: v(\d+)a[@:]", _ip("-o", "link"), re.MULTILINE))
    for pid in names | cables:
        if Path(f"/proc/{pid}").exists():
            continue
        if pid in cables:
            _ip("link", "delete", f"v{pid}a")
        if pid in names:
            _ip("netns", "delete", f"fleet{pid}")


def _free_addresses():
    """Two addresses of a network that this machine does not have yet."""
    taken = _ip("-o", "address")
    network = next(
        each for each in (f"10.231.{number}" for number in range(77, 256)) if f" {each}." not in taken
    )
    return f"{network}.1", f"{network}.2"


def _end(engine):
    engine.terminate()
    engine.wait(_LIMIT_S)


def _unmount(folder):
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in sorted((each for each in mounts if each.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "-l", mount], check=True)


def _ip(*words):
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout
