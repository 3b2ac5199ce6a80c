"""System parts that some tests need: how each is seen, and what brings it.

A test says `@pytest.mark.needs("curl")`. Where that is missing the test is skipped, and the end of the run says what
brings it; with `CI` set (`scripts/test --all`, `.ci/run`) the test fails. A test that starts a program of a part that
it has not named fails everywhere.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from balancer.version import VERSION
from emulator.live.nova import environment
from emulator.live.slurm.programs import FakeTimeError, find_library

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

SEARCH = f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin{os.pathsep}/sbin"
AXE = Path(sys.prefix) / "share/axe.min.js"
FLEET_IMAGES = ("controller", "batch", "node", "balancer", "ondemand", "replayer")
OUR_IMAGES = os.environ.get("FLEET_IMAGES", "balancer-emulator")
_SYSTEM = tuple(map(Path, ("/usr", "/bin", "/sbin", "/snap", "/opt")))
_WORD = re.compile(r"[\w./+-]+")
_LACKS = "lacks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """`programs`: those that only this part brings, all of them needed. `packages`: Debian's; `how`: what else helps.

    `is_there`: seen beside the programs. `also`: names of parts without which this one does not work.
    """

    title: str
    programs: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    how: str = ""
    also: tuple[str, ...] = ()
    is_there: Callable[[], bool] = lambda: True


def succeeds(*command: str) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=60, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


@cache
def compose_command() -> tuple[str, ...] | None:
    """How Compose is called here: as a program of its own, or as a word of `docker`."""
    for command in (("docker", "compose"), ("docker-compose",)):
        if succeeds(*command, "version"):
            return command
    return None


def _has_libfaketime() -> bool:
    try:
        find_library()
    except FakeTimeError:
        return False
    return True


def _has_nova() -> bool:
    try:
        environment.check(environment.environment())
    except environment.NotThereError:
        return False
    return True


def _has_images(*names: str) -> bool:
    return all(succeeds("docker", "image", "inspect", f"{OUR_IMAGES}/{name}:{VERSION}") for name in names)


def slurm_root(release: str) -> Path:
    """Where `scripts/slurm-root RELEASE` makes it."""
    return Path(os.environ.get("SLURM_ROOT_DIR", "/var/cache/balancer-slurm")) / release


def _slurm_in_a_root(release: str) -> Part:
    made = slurm_root(release).with_name(f"{release}.made")
    return Part(
        title=f"Slurm {release}",
        how=f"scripts/slurm-root {release}",
        also=("root", "mounts"),
        is_there=made.exists,
    )


def _is_a_clone() -> bool:
    return succeeds("git", "-C", str(Path(__file__).parent), "rev-parse")


PARTS = {
    "slurm": Part(
        title="Slurm",
        programs=("slurmctld", "slurmd", "sbatch", "salloc", "squeue", "scontrol", "sinfo", "scancel"),
        packages=("slurmctld", "slurmd", "slurm-client"),
    ),
    "libfaketime": Part(title="libfaketime", packages=("libfaketime",), is_there=_has_libfaketime),
    **{f"slurm-{release}": _slurm_in_a_root(release) for release in ("22.05", "24.11", "26.05")},
    "slurmdbd": Part(
        title="slurmdbd",
        programs=("slurmdbd", "sacctmgr", "mariadbd", "mariadb-install-db"),
        packages=("slurmdbd", "mariadb-server"),
        also=("slurm",),
    ),
    "docker": Part(title="the command docker", programs=("docker",), packages=("docker.io",)),
    "engine": Part(
        title="a Docker engine",
        how="scripts/docker-engine start",
        also=("docker",),
        is_there=lambda: succeeds("docker", "version"),
    ),
    "engine-programs": Part(
        title="programs of a Docker engine",
        programs=("dockerd", "iptables", "ip"),
        packages=("docker.io", "iptables", "iproute2"),
        also=("docker",),
    ),
    "compose": Part(
        title="Compose",
        programs=("docker-compose",),
        packages=("docker-compose",),
        is_there=lambda: compose_command() is not None,
    ),
    "fleet-images": Part(
        title="the fleet's images",
        how="scripts/fleet-images",
        also=("engine", "compose"),
        is_there=lambda: _has_images(*FLEET_IMAGES),
    ),
    "slurm-image": Part(
        title="the image with Slurm",
        how="scripts/fleet-images",
        packages=("slurmctld", "slurmd", "libfaketime"),
        also=("fleet-images",),
        is_there=lambda: _has_images("slurm"),
    ),
    "chromium": Part(title="Chromium", programs=("chromium",), packages=("chromium",)),
    "axe": Part(title="axe-core", how="scripts/axe", also=("chromium",), is_there=AXE.is_file),
    "postgresql": Part(
        title="PostgreSQL",
        programs=("initdb", "pg_ctl", "postgres"),
        packages=("postgresql",),
        is_there=lambda: environment.postgres_programs() is not None,
    ),
    "nova": Part(title="Nova", how="scripts/nova-environment", also=("postgresql",), is_there=_has_nova),
    "curl": Part(title="curl", programs=("curl",), packages=("curl",)),
    "jq": Part(title="jq", programs=("jq",), packages=("jq",)),
    "git": Part(title="a clone by git", programs=("git",), packages=("git",), is_there=_is_a_clone),
    "groff": Part(title="groff", programs=("groff",), packages=("groff-base",)),
    "mounts": Part(
        title="leave to mount",
        how="root",
        is_there=lambda: succeeds("unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/tmp"),  # noqa: S108
    ),
    "root": Part(title="root", how="root", is_there=lambda: os.geteuid() == 0),
}
_OUT_OF_THE_PATH = {"postgresql", "compose"}
"""Parts whose programs need not be on the path: `is_there` finds them."""
OWNERS = {program: name for name, part in PARTS.items() for program in part.programs}


def whole(names: Iterable[str]) -> tuple[str, ...]:
    """These parts and those without which they do not work."""
    found: dict[str, None] = {}
    for name in names:
        found |= dict.fromkeys((*whole(PARTS[name].also), name))
    return tuple(found)


@cache
def is_here(name: str) -> bool:
    part = PARTS[name]
    looked = name in _OUT_OF_THE_PATH or all(shutil.which(each, path=SEARCH) for each in part.programs)
    return looked and part.is_there()


def lacking(names: Iterable[str]) -> list[str]:
    """Those that are missing here, of these and of what they need; what needs a missing one is missing."""
    found: list[str] = []
    for name in whole(names):
        if not set(PARTS[name].also).isdisjoint(found) or not is_here(name):
            found.append(name)
    return found


def brought_by(names: Iterable[str]) -> str:
    """`apt-get install curl`, then scripts and others, each once."""
    packages = dict.fromkeys(package for name in names for package in PARTS[name].packages)
    ways = dict.fromkeys(PARTS[name].how for name in names if PARTS[name].how)
    return ", ".join([*(["apt-get install " + " ".join(packages)] if packages else []), *ways])


def named(item: pytest.Item) -> tuple[str, ...]:
    return tuple(name for mark in item.iter_markers("needs") for name in mark.args)


def summary(reports: Iterable[pytest.TestReport]) -> str:
    """The line at the end of a run: how many tests were skipped for want of what, and what brings it. '': none were."""
    tests: Counter[str] = Counter()
    skipped = 0
    for report in reports:
        lacks = [name for key, name in report.user_properties if key == _LACKS]
        tests.update(str(name) for name in lacks)
        skipped += bool(lacks)
    if not skipped:
        return ""
    names = [name for name in PARTS if name in tests]
    said = ", ".join(f"{PARTS[name].title} ({tests[name]})" for name in names)
    return f"skipped {skipped} for want of {said}; they come with: {brought_by(names)}"


def called(command: object, path: str, *, shell: bool = False) -> str | None:
    """The program of a part that this command starts; a stand-in that a test puts in front of the path is none."""
    if isinstance(command, str | bytes | os.PathLike):
        command = ["sh", "-c", command] if shell else [command]
    if not isinstance(command, list | tuple) or not command:
        return None
    words = [os.fsdecode(word) for word in command if isinstance(word, str | bytes | os.PathLike)]
    if words[:2] == ["docker", "compose"]:
        words = ["docker-compose"]
    programs = _of_a_shell(words) if Path(words[0]).name in {"sh", "bash"} else words[:1]
    for word in programs:
        name = Path(word).name
        if name not in OWNERS:
            continue
        found = shutil.which(word, path=path)
        if found is None or not _is_a_stand_in(Path(found)):
            return name
    return None


def _of_a_shell(words: Sequence[str]) -> list[str]:
    """The words of a script that is given as a word (`sh -c`), and those that follow it."""
    script = next((at for at, word in enumerate(words) if word.startswith("-") and word.endswith("c")), None)
    if script is None:
        return []
    return [word for text in words[script + 1 :] for word in _WORD.findall(text)]


def _is_a_stand_in(program: Path) -> bool:
    return not any(program.is_relative_to(top) for top in _SYSTEM)


class NeedsPlugin:
    """The marker `needs`. `unnamed`: programs that the running test has started without a word."""

    def __init__(self) -> None:
        self.item: pytest.Item | None = None
        self.unnamed: list[str] = []
        self._start = subprocess.Popen.__init__

    def watch(self) -> None:
        start = self._start

        def noted(process: subprocess.Popen[bytes], args: object, *more: object, **named_: object) -> None:
            self.note(args, named_.get("env"), shell=bool(named_.get("shell")))
            start(process, args, *more, **named_)  # type: ignore[arg-type]

        subprocess.Popen.__init__ = noted  # type: ignore[method-assign, assignment]

    def unwatch(self) -> None:
        subprocess.Popen.__init__ = self._start  # type: ignore[method-assign]

    def note(self, command: object, env: object, *, shell: bool) -> None:
        if self.item is None:
            return
        path = (env if isinstance(env, dict) else os.environ).get("PATH") or os.defpath
        program = called(command, path, shell=shell)
        if program is not None and OWNERS[program] not in whole(named(self.item)):
            self.unnamed.append(program)

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            if unknown := [name for name in named(item) if name not in PARTS]:
                raise pytest.UsageError(
                    f"{item.nodeid}: needs({unknown[0]!r}) is no part; those there are: {', '.join(PARTS)}"
                )

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self.item, self.unnamed = None, []
        if lacks := lacking(named(item)):
            reason = f"needs {', '.join(PARTS[name].title for name in lacks)}: {brought_by(lacks)}"
            if os.environ.get("CI"):
                pytest.fail(reason, pytrace=False)
            item.user_properties += [(_LACKS, name) for name in lacks]
            pytest.skip(reason)
        self.item = item

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_runtest_call(self) -> Iterator[None]:
        found = yield
        if self.unnamed:
            program = self.unnamed[0]
            pytest.fail(
                f"starts {program} and does not say so: @pytest.mark.needs({OWNERS[program]!r})",
                pytrace=False,
            )
        return found

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_teardown(self) -> None:
        self.item = None

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if said := summary(terminalreporter.getreports("skipped")):
            terminalreporter.write_line(said, yellow=True)


def install(config: pytest.Config) -> None:
    plugin = NeedsPlugin()
    config.pluginmanager.register(plugin, "needs")
    plugin.watch()
    config.add_cleanup(plugin.unwatch)
