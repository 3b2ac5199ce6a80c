"""Slurm's accounting database of one run: a mariadbd of its own and slurmdbd, for `accounting: slurmdbd`.

MariaDB listens at a socket in a folder that only this user may enter, and nowhere else; it keeps the time of the wall,
because what slurmdbd stores are times that slurmctld tells it. slurmdbd lives in the run's faster time.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any

from balancer.clock import micros, wall_us
from emulator.kernel.job_states import JobState
from emulator.live.process import FleetProcessError
from emulator.live.slurm.accounting import SACCT_FIELDS, read_sacct, with_the_job_log
from emulator.live.slurm.programs import OF_THIS_MACHINE, write_script

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from emulator.live.process import FleetProcess
    from emulator.live.slurm.programs import Programs

MARIADBD, SLURMDBD = "mariadbd", "slurmdbd"
SERVER_PROGRAMS = (*OF_THIS_MACHINE, SLURMDBD)
ASSOCIATIONS = "sacctmgr-assoc.txt"
"""Who may use which accounts, and with what shares, as sacctmgr prints it when the run begins: among its logs."""
COMMANDS = ("sacctmgr", "sacct", "sdiag")
ACCOUNT = "emulator"
"""Of users for whom no account is given."""
_OVER = {JobState.ENDED.name, JobState.CANCELLED.name}
_QUEUE = "DBD Agent queue size:"
_ALL_SENT = f"{_QUEUE} 0\n"
_READY_S = 120.0
_ASK_S = 60.0
_TOLD_S = 30.0
_LOOK_S = 0.1
_MORE_FIELDS = (
    "ElapsedRaw", "TimelimitRaw", "NNodes", "NCPUS", "User", "Group", "Account", "QOS", "Partition",
)  # fmt: skip
"""With these what sacct prints is a trace, too."""
_SERVER_OPTIONS = (
    "--skip-networking", "--skip-log-bin", "--performance-schema=0", "--innodb-buffer-pool-size=64M",
    "--innodb-lock-wait-timeout=900", "--innodb-flush-log-at-trx-commit=2",
)  # fmt: skip
"""For one run: small, and no job is worth a flush to the disk; what is committed outlives its process."""
_CONF = """\
AuthType=auth/none
DbdHost=localhost
DbdAddr={address}
CommunicationParameters=NoInAddrAny
DbdPort={port}
SlurmUser={user}
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=slurm
PidFile={folder}/slurmdbd.pid
LogFile={log}
DebugLevel=info
LogTimeFormat=iso8601_ms
"""


class DatabaseError(RuntimeError):
    """What was asked of the database cannot be had; the text says why."""


@dataclass(frozen=True, slots=True)
class Associations:
    """Who may use which accounts, and lines (in words) for sacctmgr that say more (shares, QOS)."""

    accounts: Mapping[str, frozenset[str]]
    """User -> accounts."""
    lines: Sequence[Sequence[str]] = ()

    def commands(self) -> list[list[str]]:
        """What sacctmgr is told, in order, before slurmctld starts."""
        names = sorted(set().union(*self.accounts.values()))
        found = [["add", "cluster", "emulator"]]
        found += [["add", "account", name, f"Description={name}", f"Organization={name}"] for name in names]
        for user, accounts in sorted(self.accounts.items()):
            default = ACCOUNT if ACCOUNT in accounts else min(accounts)
            found.append(
                ["add", "user", user, f"Account={','.join(sorted(accounts))}", f"DefaultAccount={default}"]
            )
        return found + [list(line) for line in self.lines]


def associations(
    me: str, users: Mapping[int, str], accounts: Mapping[int, str], lines: Sequence[Sequence[str]]
) -> Associations:
    """Of the trace's users, by number; those without a user of this machine submit as `me`, in any account."""
    found = {me: {ACCOUNT, *(name for number, name in accounts.items() if number not in users)}}
    for number, user in users.items():
        found.setdefault(user, set()).add(accounts.get(number, ACCOUNT))
    return Associations({user: frozenset(names) for user, names in found.items()}, tuple(lines))


@dataclass(frozen=True, slots=True)
class Stored:
    """What the database has of a run."""

    lines: list[str]
    """As sacct prints them, heading first."""
    jobs: list[dict[str, Any]]
    """As `BatchSide` has them."""
    untold: list[int]
    """Numbers of the jobs that are over and are not so there, though slurmctld has told all; `jobs` has its log's.

    Recorded on Slurm 22.05: one of ten jobs, submitted while slurmdbd was away, in 1 of 60 runs.
    """


@dataclass(frozen=True, slots=True)
class Database:
    """`folder`: private to the run. `commands`: where its programs are, of which `start` launches one as `user`."""

    folder: Path
    commands: Path
    log: Path
    user: str
    address: str
    port: int
    start: Callable[..., FleetProcess]

    @property
    def _socket(self) -> Path:
        return self.folder / "socket"

    @property
    def _temporary(self) -> Path:
        return self.folder / "temporary"

    @property
    def _server(self) -> list[str]:
        # Without --user a server of root's refuses to run; anybody else is who it runs as in any case.
        # A server that starts removes the temporary tables of all others in its tmpdir (/tmp, if it is not told).
        folders = [f"--datadir={self.folder / 'data'}", f"--tmpdir={self._temporary}"]
        return ["--no-defaults", *folders, f"--user={self.user}", "--innodb-log-file-size=16M"]

    def install(self, programs: Programs, plain: Mapping[str, str], fast: dict[str, str], conf: Path) -> None:
        """Scripts and files. `plain`: environment of what keeps the time of the wall, `fast`: of Slurm."""
        self.folder.mkdir(mode=0o700)
        self._temporary.mkdir()
        its_environ = fast | {"MYSQL_UNIX_PORT": str(self._socket)}
        for name in SERVER_PROGRAMS:
            write_script(
                self.commands / name, programs.bound(name, its_environ if name == SLURMDBD else plain)
            )
        conf.touch(0o600)  # slurmdbd wants nobody else to read it
        conf.write_text(
            _CONF.format(
                address=self.address, port=self.port, user=self.user, folder=self.folder, log=self.log
            ),
            encoding="utf-8",
        )

    def start_mariadb(self) -> None:
        done = self._run(
            "mariadb-install-db", *self._server, "--auth-root-authentication-method=normal", "--skip-test-db"
        )
        if done.returncode != 0:
            raise FleetProcessError(f"mariadb-install-db failed:\n{done.stdout}{done.stderr}")
        self.launch(MARIADBD).wait_until(self._socket.exists, _READY_S)

    def launch(self, name: str) -> FleetProcess:
        if name == SLURMDBD:
            return self.start(SLURMDBD, SLURMDBD, "-D")
        files = [f"--socket={self._socket}", f"--pid-file={self.folder / 'mariadbd.pid'}"]
        return self.start(MARIADBD, MARIADBD, *self._server, *_SERVER_OPTIONS, *files)

    def start_slurmdbd(self, accounts: Associations) -> None:
        """Raises FleetProcessError, with what sacctmgr says of a line that it does not take."""
        process = self.launch(SLURMDBD)
        process.wait_until(lambda: self._run("sacctmgr", "-n", "list", "cluster").returncode == 0, _READY_S)
        for command in accounts.commands():
            self._sacctmgr("-i", *command)

    def associations_text(self) -> str:
        """What sacctmgr prints of them, for the twin's `associations`. Raises FleetProcessError."""
        return self._sacctmgr("show", "assoc", "tree", "--parsable2")

    def _sacctmgr(self, *arguments: str) -> str:
        done = self._run("sacctmgr", *arguments)
        if done.returncode != 0:
            output = (done.stderr + done.stdout).strip()
            raise FleetProcessError(f"sacctmgr {' '.join(arguments)}: {output or 'it says nothing'}")
        return done.stdout

    def jobs(self, logged: Sequence[dict[str, Any]], names: Sequence[str], epoch_s: int) -> Stored:
        """What sacct prints, and the jobs in it. Raises DatabaseError.

        `logged`: the same by Slurm's job log, which is believed about those that were resized. slurmctld tells slurmdbd
        in its own time: it is waited for.
        """
        over = _over(logged)
        end_us = wall_us() + micros(_TOLD_S)
        pause = Event()
        while True:
            is_last = wall_us() >= end_us
            queue = self._run("sdiag").stdout
            done = self._run(
                "sacct", "-X", "-D", "--allusers", "--parsable2", "--noconvert", "--starttime=1970-01-02",
                f"--format={','.join((*SACCT_FIELDS, *_MORE_FIELDS))}",
            )  # fmt: skip
            lines = done.stdout.splitlines()
            found = read_sacct(lines, names, epoch_s) if done.returncode == 0 else []
            missing = {number for number, _had_nodes in over - _over(found)}
            if done.returncode == 0 and _ALL_SENT in queue and (not missing or is_last):
                return Stored(lines, with_the_job_log(found, logged, missing), sorted(missing))
            if is_last:
                raise DatabaseError(done.stderr.strip() or _what_is_missing(queue, missing))
            pause.wait(_LOOK_S)

    def _run(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.commands / name), *arguments]
        try:
            return subprocess.run(command, capture_output=True, text=True, timeout=_ASK_S, check=False)
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(command, 1, "", f"{name}: no answer within {_ASK_S:g} s")


def _what_is_missing(sdiag: str, missing: set[int]) -> str:
    """In words what is not there yet."""
    waiting = next((line for line in sdiag.splitlines() if line.startswith(_QUEUE)), "sdiag does not answer")
    jobs = ", ".join(map(str, sorted(missing))) or "none"
    return f"slurmctld had not told it of everything after {_TOLD_S:g} s ({waiting}; jobs not over there: {jobs})"


def _over(jobs: Sequence[Mapping[str, Any]]) -> set[tuple[int, bool]]:
    """Jobs that are over, and whether they had nodes."""
    return {(job["number"], bool(job["runs"])) for job in jobs if job["state"] in _OVER}
