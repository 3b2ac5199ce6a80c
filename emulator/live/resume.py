"""A live run of processes in a folder of the user's: it may be stopped, and the same command goes on with it."""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

from emulator.config.run_parts import OUR_BATCH_SYSTEM, OUR_MANAGER
from emulator.live.launchers import Launcher
from emulator.live.run_files import RunFiles, State
from emulator.runs.scenario import ScenarioError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from emulator.record.run_record import Mark
    from emulator.runs.scenario import Scenario

_LOCK = "lock"
_LAUNCHER = Launcher(
    "a run with --keep", "what it started of others could not be started again",
    batch=OUR_BATCH_SYSTEM, ondemand=OUR_MANAGER, has_cpu_bound_jobs=False,
)  # fmt: skip


class RunSuspended(Exception):
    """The run was stopped in the middle and may go on; the text says where it stands."""


class ResumableRun:
    """The run in a folder, one that begins or (`is_resumed`) one that goes on."""

    def __init__(self, folder: Path, state: State, *, is_resumed: bool) -> None:
        self.folder = folder
        self.state = state
        self.is_resumed = is_resumed

    def note(self, marks: list[Mark], *, token: str, steps_done: int, wall_us: int) -> None:
        """Write down how far the run has come."""
        self.state.marks = [(mark.at_us, mark.text) for mark in marks]
        self.state.token, self.state.steps_done, self.state.wall_us = token, steps_done, wall_us
        self.state.save(RunFiles(self.folder).state)

    def forget(self) -> None:
        """The results are written: nobody goes on with it."""
        shutil.rmtree(self.folder)


@contextmanager
def keep(folder: Path, scenario: Scenario, nodes: int) -> Iterator[ResumableRun]:
    """The run of this folder, for us alone. Raises ScenarioError, with nothing changed, where it cannot be had."""
    _LAUNCHER.check(scenario)
    folder.mkdir(parents=True, exist_ok=True)
    lock = os.open(folder / _LOCK, os.O_CREAT | os.O_WRONLY, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ScenarioError(f"--keep: somebody is at work on the run in {folder}") from error
        yield _open(folder, scenario, nodes)
    finally:
        os.close(lock)


def _open(folder: Path, scenario: Scenario, nodes: int) -> ResumableRun:
    path = RunFiles(folder).state
    if path.exists():
        state = State.load(path)
        if state.scenario != scenario.as_json():
            raise ScenarioError(
                f"--keep: {folder} holds a run of another scenario, or of this one with other settings;"
                " go on with that one, or remove the folder"
            )
        if RunFiles(folder).clock.exists():
            return ResumableRun(folder, state, is_resumed=True)
    elif any(each.name != _LOCK for each in folder.iterdir()):
        raise ScenarioError(f"--keep: {folder} holds something that is not a run; give another folder")
    state = State(run=uuid4().hex[:12], scenario=scenario.as_json(), nodes=nodes)
    state.save(path)
    return ResumableRun(folder, state, is_resumed=False)
