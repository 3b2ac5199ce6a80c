"""A mechanism that decides about the jobs of a real Slurm: `python -m emulator.live.slurm.mechanism --config FILE ...`.

Users submit with sbatch, held; the mechanism keeps its own time and account, as it does in virtual time, and Slurm does
what it decides (`jobs.py`). What happens is read from the files that others write: submissions from the replayer's log,
ends of runs from Slurm's job log, answers from the jobs' own file.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
from pathlib import Path
from typing import Any

from pydantic import Field

from emulator.clock.shared_clock import SharedClock
from emulator.live.failure import forget_failure, write_failure
from emulator.live.job.control import HEARD
from emulator.live.machine_follower import MachineFollower
from emulator.live.process import stop_on_signal, write_ready
from emulator.live.replay_log import Tail, written_log
from emulator.live.settings import Settings, load_settings
from emulator.live.slurm.accounting import read_line
from emulator.live.slurm.jobs import SlurmCommands, SlurmJobs
from emulator.plugins.failure import PluginError
from emulator.runs.preparation import Prepared
from emulator.runs.runner import make_machine, make_mechanism
from emulator.runs.scenario import from_mapping
from emulator.simulation.executor_live import LiveExecutor
from emulator.simulation.mechanism import plugin_name
from emulator.simulation.warm import warm_mechanism
from emulator.workload.store import load

_LOOK_S = 0.01


class MechanismConfig(Settings):
    """`scenario` as JSON; `programs`: the folder with Slurm's commands; the other paths are files of the run."""

    scenario: dict[str, Any]
    nodes: tuple[str, ...]
    workload: Path
    home: Path
    programs: Path
    orders: Path
    refusals: Path
    replay_log: Path
    jobcomp: Path
    partitions: dict[int, str] = Field(default_factory=dict)


class MechanismOnSlurm:
    """The follower of the mechanism's machine, fed by files."""

    def __init__(self, config: MechanismConfig, clock: SharedClock) -> None:
        scenario = from_mapping(config.scenario)
        jobs = load(config.workload)
        with scenario.plugged_in():
            mechanism = make_mechanism(scenario)
            assert mechanism is not None  # noqa: S101 - else there is no such process
            warm_mechanism(mechanism)
            machine = make_machine(scenario, Prepared(jobs, len(config.nodes)), mechanism)
        self._config = config
        self._jobs = SlurmJobs(
            SlurmCommands(config.programs), jobs.number.tolist(), config.nodes,
            orders=config.orders, refusals=config.refusals,
            partition_of=lambda row: config.partitions.get(int(jobs.queue[row]), ""),
        )  # fmt: skip
        self._executor = LiveExecutor(clock)
        self._follower = MachineFollower(
            machine, mechanism, plugin_name(scenario.mechanism), jobs,
            node_names=config.nodes, executor=self._executor, effects=self._jobs,
        )  # fmt: skip
        self._jobs.follow(self._follower)
        self._plugged_in = scenario.plugged_in
        self._tails = (Tail(), Tail(), Tail())
        self._looking = threading.Event()
        self._stopped = threading.Event()

    def run(self) -> None:
        self._executor.post(self._follower.nodes_are_up)
        threading.Thread(target=self._watch, daemon=True).start()
        with self._plugged_in():
            self._executor.run()

    def stop(self) -> None:
        self._stopped.set()
        self._executor.stop()

    def _watch(self) -> None:
        """Look at the files again and again, one look after the other."""
        while not self._stopped.wait(_LOOK_S):
            self._looking.clear()
            self._executor.post(self._look)
            self._looking.wait()

    def _look(self, now_us: int) -> None:
        try:
            submissions, ends, answers = self._tails
            for line in submissions.lines(written_log(self._config.replay_log)):
                event = json.loads(line)
                if event["event"] == "submitted":
                    self._jobs.submitted(event["number"], event["job_id"])
                    self._follower.submitted(event["number"], now_us)
            for line in answers.lines(self._config.orders / HEARD):
                name, seq, _ = line.decode().split()
                self._jobs.heard(name, int(seq))
            for line in ends.lines(self._config.jobcomp):
                name, outcome = read_line(line.decode())
                self._jobs.run_ended(name, outcome)
            self._jobs.look()
        finally:
            self._looking.set()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--clock", type=Path, required=True)
    options = parser.parse_args()
    config = load_settings(options.config, MechanismConfig)
    config.home.mkdir(parents=True, exist_ok=True)
    config.orders.mkdir(parents=True, exist_ok=True)
    forget_failure(config.home)
    try:
        served = MechanismOnSlurm(config, SharedClock(options.clock, name="mechanism"))
        stop_on_signal(served.stop)
        write_ready(config.home / "ready")
        served.run()
    except PluginError as error:
        write_failure(config.home, error)
        sys.stderr.write(f"{error}\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
