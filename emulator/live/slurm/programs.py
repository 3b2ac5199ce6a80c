"""Programs of a run of Slurm, each a script that gives the real one its environment, and where its servers listen.

A root beside this machine has another release of Slurm (`scripts/slurm-root`). A program of it sees the root's /usr, so
its libraries, its plug-ins and its libfaketime, and else this machine: files, users, network, processes, and what is in
/usr/local.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import re
import secrets
import shlex
import shutil
import socket
import stat
import struct
import subprocess
import sys
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from balancer.clock import US, utc_us

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# Who runs Slurm, and where servers listen: an address that only this machine has, and ports that the run keeps for
# itself.

_FIRST, _END = 10_000, 20_000
"""Below those that the kernel gives to whoever asks for any."""


class MachineError(ValueError):
    """Slurm cannot run here for us, or not for us alone; the text says what to do."""


def own_address() -> str:
    """Where this machine's name leads, which is where Slurm listens if not everywhere. Raises MachineError."""
    name = socket.gethostname()
    how = f"let it lead to this machine alone, by a line in /etc/hosts: 127.0.1.1 {name}"
    try:
        address = socket.gethostbyname(name)
    except OSError as error:
        raise MachineError(f"the name of this machine, {name}, leads nowhere ({error}); {how}") from error
    if not ip_address(address).is_loopback:
        raise MachineError(
            f"the name of this machine, {name}, leads to {address}, where others could reach Slurm; {how}"
        )
    return address


def own_name() -> str:
    """Of who runs this, as whom Slurm runs and jobs are submitted. Raises MachineError."""
    number = os.geteuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:  # as in a container that runs as any user
        raise MachineError(
            f"user {number} has no name on this machine, and Slurm's users have; give it one, by a line in"
            f" /etc/passwd: NAME:x:{number}:{os.getegid()}::/:/bin/sh"
        ) from None


def problem_with_machine() -> str:
    try:
        own_address()
        own_name()
    except MachineError as error:
        return str(error)
    return ""


class ReservedPorts:
    """TCP ports that are free, `count` of them; other runs on this machine leave them alone until `close`.

    Slurm cannot choose a port and tell it. The UDP half of each port is bound as long as the run lasts, which is what
    another run looks at. The first one is anywhere: what is left of a Slurm that ended a moment ago (the keeper of a
    job that was killed, say) still reports to the port of its controller, and must not reach that of a later one.
    """

    def __init__(self, count: int, host: str = "127.0.0.1") -> None:
        self._sockets = ExitStack()
        self.ports: list[int] = []
        first = _FIRST + secrets.randbelow(_END - _FIRST)
        for port in (*range(first, _END), *range(_FIRST, first)):
            if len(self.ports) == count:
                return
            reserved = socket.socket(type=socket.SOCK_DGRAM)
            with suppress(OSError), socket.create_server((host, port)):
                reserved.bind((host, port))
                self._sockets.enter_context(reserved)
                self.ports.append(port)
                continue
            reserved.close()
        if len(self.ports) < count:
            self.close()
            raise OSError(f"only {len(self.ports)} of {count} ports from {_FIRST} to {_END} are free")

    def close(self) -> None:
        self._sockets.close()


# The programs.

_SEARCH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
_IN_A_ROOT = "/usr/sbin:/usr/bin"
OF_THIS_MACHINE = ("mariadbd", "mariadb-install-db")
"""Also where Slurm is that of a root."""
_ANSWERS_S = 60.0


@dataclass(frozen=True, slots=True)
class Programs:
    """Those that are installed in `root`; None: on this machine."""

    root: Path | None = None

    @property
    def search(self) -> str:
        """The PATH of whatever is started."""
        return _SEARCH if self.root is None else f"{_IN_A_ROOT}:{_SEARCH}"

    def root_of(self, name: str) -> Path | None:
        return None if name in OF_THIS_MACHINE else self.root

    def find(self, name: str) -> str | None:
        """Where it is as it sees itself, also where users' paths do not lead."""
        root = self.root_of(name)
        if root is None:
            return shutil.which(name, path=_SEARCH)
        places = (f"{folder}/{name}" for folder in _IN_A_ROOT.split(":"))
        return next((place for place in places if (root / place[1:]).exists()), None)

    def problem(self, names: Sequence[str], packages: str, *, has_ours: bool) -> str:
        """Why these cannot be run, and what to do; '' if they can. `has_ours`: they start this Python."""
        missing = [name for name in names if self.find(name) is None]
        if here := [name for name in missing if self.root_of(name) is None]:
            return f"not installed: {', '.join(here)}; on Debian: apt-get install {packages}"
        if self.root is not None and missing:
            return f"root: {self.root} has no {', '.join(missing)}; scripts/slurm-root makes such a root"
        return "" if self.root is None else self._problem_with_root(has_ours=has_ours)

    def _problem_with_root(self, *, has_ours: bool) -> str:
        if os.geteuid() != 0:
            return (
                "root: only root can run programs of another root; leave it out, and this machine's are used"
            )
        if not Path("/bin").is_symlink():
            return "root: /bin and /usr/bin are two folders on this machine; leave it out"
        python = Path(sys.executable).resolve()
        if has_ours and python.is_relative_to("/usr") and not python.is_relative_to("/usr/local"):
            return f"root: jobs and hooks that are programs of ours need {python}, which no root has; leave it out"
        return ""

    def version(self) -> str:
        """Slurm's, as slurmctld prints it: `26.05.5`; '' if it prints none."""
        words = ["sh", "-c", self.bound("slurmctld", None), "sh", "-V"]
        said = subprocess.run(words, capture_output=True, text=True, timeout=_ANSWERS_S, check=False).stdout
        match = re.search(r"\d+\.\d+\.\d+", said)
        return "" if match is None else match[0]

    def bound(self, name: str, environ: Mapping[str, str] | None) -> str:
        """A script that runs the program; with this environment and nothing of the user's, unless it is None."""
        words = [self.find(name) or name]
        if environ is not None:
            words = ["env", "-i", *(f"{key}={value}" for key, value in environ.items()), *words]
        if (root := self.root_of(name)) is not None:
            usr = shlex.quote(f"{root}/usr")
            steps = f"mount --rbind /usr/local {usr}/local && mount --rbind {usr} /usr"
            words = ["unshare", "--mount", "sh", "-c", f'{steps} && exec "$0" "$@"', *words]
        return f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n'


def write_script(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)


# A faster clock for programs that know nothing of it: libfaketime, with one start for all processes of a run.
#
# libfaketime counts from the start of the process, or, where `FAKETIME_SHARED` names a semaphore and a piece of shared
# memory, from the start that the first process left there. Its wrapper `faketime` makes those two and its children
# inherit them; here they are made for processes that are started one by one, and read, so that others can tell the
# same time without being preloaded. The rate is fixed: a process reads it once.

_LIBRARY = "libfaketimeMT.so.1"
_FOLDERS = ("/usr/lib/*/faketime", "/usr/lib/faketime", "/usr/lib64/faketime", "/usr/local/lib/faketime")
_SHM = Path("/dev/shm")  # noqa: S108 - where glibc keeps both
# `struct ft_shared_s`: ticks, place in a file, then start by four clocks as (s, ns); ns of -1: nobody has begun.
_LAYOUT = struct.Struct("=16q")
_NEW = (0, 0, *(0, -1) * 7)
_REAL_S, _REAL_NS = 2, 3


class FakeTimeError(ValueError):
    """There is no libfaketime here."""


def find_library(library: Path | None = None, root: Path | None = None) -> Path:
    """Libfaketime for programs with threads, as those of `root` (or this machine) see it. Raises FakeTimeError."""
    top = root or Path("/")
    if library is not None:
        if not library.is_file():
            raise FakeTimeError(f"{library} is no file")
        return library
    for folder in _FOLDERS:
        for path in sorted(top.glob(f"{folder[1:]}/{_LIBRARY}")):
            return Path("/") / path.relative_to(top)
    if root is not None:
        raise FakeTimeError(f"root: {root} has no {_LIBRARY}; scripts/slurm-root makes such a root")
    raise FakeTimeError(f"{_LIBRARY} is not installed; on Debian: apt-get install libfaketime")


class FakeTime:
    """Time that begins at `epoch_s` (unix) with the first process that has `environ`, `speed` times as fast."""

    def __init__(self, library: Path, speed: float, epoch_s: int, *, for_all_users: bool = False) -> None:
        self.speed = speed
        self.epoch_s = epoch_s
        name = f"emulator-{uuid4().hex}"
        self.files = (_SHM / f"sem.{name}-sem", _SHM / f"{name}-shm")
        mode = 0o666 if for_all_users else 0o600
        _make_semaphore(f"/{name}-sem", mode)
        self.files[1].write_bytes(_LAYOUT.pack(*_NEW))
        for path in self.files:
            path.chmod(mode)
        self.environ: Mapping[str, str] = {
            "TZ": "UTC",
            "LD_PRELOAD": str(library),
            "FAKETIME": f"@{_date(epoch_s)} x{speed:.12g}",
            "FAKETIME_SHARED": f"/{name}-sem /{name}-shm",
            "FAKETIME_DONT_RESET": "1",  # else each process begins at the epoch
        }

    @property
    def has_begun(self) -> bool:
        return self._start_us() is not None

    def now_us(self) -> int:
        """What a preloaded program gets from time(), in us. Only when a first one `has_begun`."""
        start_us = self._start_us()
        if start_us is None:
            raise RuntimeError("no process lives in this time yet")
        return self.epoch_s * US + round((utc_us() - start_us) * self.speed)

    def _start_us(self) -> int | None:
        words = _LAYOUT.unpack(self.files[1].read_bytes()[: _LAYOUT.size])
        return None if words[_REAL_NS] < 0 else words[_REAL_S] * US + words[_REAL_NS] // 1000

    def close(self) -> None:
        for path in self.files:
            path.unlink(missing_ok=True)


def _date(epoch_s: int) -> str:
    from datetime import UTC, datetime  # noqa: PLC0415 - formats a given time, reads none

    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%d %H:%M:%S")


def _make_semaphore(name: str, mode: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.sem_open.restype = ctypes.c_void_p
    made = libc.sem_open(name.encode(), os.O_CREAT | os.O_EXCL, ctypes.c_uint(mode), ctypes.c_uint(1))
    if not made:
        error = ctypes.get_errno()
        raise OSError(error, f"no semaphore {name}: {os.strerror(error)}")
    libc.sem_close(ctypes.c_void_p(made))
