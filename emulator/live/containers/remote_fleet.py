"""A live run on a real Slurm or Nova in containers: `python -m emulator.live.containers.remote_fleet PROFILE`.

Its processes are in containers that share their network and a volume. The run is that of `emulator run --clock live`;
only where its processes start is different (`remote_exec.py`). All that they tell each other is as true there as on
one machine.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.config.run_parts import OUR_BATCH_SYSTEM, OUR_MANAGER
from emulator.live.containers.entry import bring_kernels, control
from emulator.live.containers.remote_exec import SOCKETS, PlacedProcess, shutdown_executors
from emulator.live.containers.startup import read_scenario
from emulator.live.fleet import Fleet, FleetError
from emulator.live.launchers import Launcher
from emulator.live.names import BALANCER, BATCH, MADE, ONDEMAND, PREDICTOR, REPLAYER, SHARED
from emulator.live.process import FleetProcessError
from emulator.report import files
from emulator.runs.preparation import prepare
from emulator.runs.scenario import ScenarioError
from emulator.validation.laws import check
from emulator.workload.files import TraceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emulator.live.process import FleetProcess
    from emulator.runs.preparation import Prepared
    from emulator.runs.scenario import Scenario

_SHM = Path("/dev/shm")  # noqa: S108 - a volume of the containers
_TMP = SHARED / "tmp"
"""$TMPDIR of the container that runs: programs of others are told of paths in it."""


@dataclass(frozen=True, slots=True)
class Profile:
    """One profile of docker-compose.yml of this kind: which containers it has, and for whom.

    `homes`: process -> container; those called `NODES-...` are in `nodes`, all others in `rest`.
    """

    name: str
    launcher: Launcher
    homes: Mapping[str, str]
    rest: str
    nodes: str = ""

    @property
    def places(self) -> frozenset[str]:
        return frozenset(filter(None, (self.rest, self.nodes, *self.homes.values())))

    def place_of(self, process: str) -> str:
        """The container in which the process of this name starts."""
        if self.nodes and process.startswith(f"{self.nodes}-"):
            return self.nodes
        return self.homes.get(process, self.rest)


SLURM = Profile(
    "slurm",
    Launcher(
        "the fleet of Slurm's containers", "leave out `--profile slurm`, or use `emulator run --clock live`",
        batch="slurm", ondemand=OUR_MANAGER, has_faults=False,
    ),
    {BALANCER: BALANCER, PREDICTOR: BALANCER, ONDEMAND: ONDEMAND, REPLAYER: REPLAYER},
    rest="slurmctld", nodes="slurmd",
)  # fmt: skip
"""Its containers share /dev/shm, too: the faster clock of Slurm."""
NOVA = Profile(
    "nova",
    Launcher(
        "the fleet of Nova's containers", "leave out `--profile nova`, or use `emulator run --clock live`",
        batch=OUR_BATCH_SYSTEM, ondemand="nova", has_faults=False,
    ),
    {
        BALANCER: BALANCER, PREDICTOR: BALANCER, REPLAYER: REPLAYER,
        "nova": "services", "nova-databases": "services", "nova-front": "front", "nova-postgres": "postgres",
        "nova-agent": "agent",
    },
    rest=BATCH,
)  # fmt: skip
"""PostgreSQL's socket is in its volume, too."""


class PlacedFleet(Fleet):
    """A live run whose processes are started in other containers."""

    def __init__(self, profile: Profile, scenario: Scenario, prepared: Prepared, work: Path) -> None:
        self._profile = profile
        super().__init__(scenario, prepared, work)

    def _new_process(self, name: str, command: list[str], environ: dict[str, str] | None) -> FleetProcess:
        place = self._profile.place_of(name)
        return PlacedProcess(name, command, self.logs, environ or {}, _socket(place))


def _socket(place: str) -> Path:
    return SOCKETS / f"{place}.sock"


class Stopped:
    """Set by a signal: the run ends soon, with a result that says so."""

    reason = ""

    def __bool__(self) -> bool:
        return bool(self.reason)

    def by(self, number: int, _: object) -> None:
        self.reason = signal.Signals(number).name


def run(profile: Profile, results: Path) -> int:
    """Exit status: 0, 1 when the run broke off, 2 for bad input."""
    stopped = Stopped()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stopped.by)
    try:
        scenario = read_scenario()
        profile.launcher.check(scenario)
        prepared = prepare(scenario)
        with tempfile.TemporaryDirectory(prefix="run-") as work:
            fleet = PlacedFleet(profile, scenario, prepared, Path(work))
            record = fleet.run(stopped, quiet=False)
            threshold_s = scenario.results.bounded_slowdown_threshold_s
            folder = results / f"{scenario.name}-live"
            files.write(record, folder, bounded_slowdown_threshold_s=threshold_s, logs=fleet.logs)
    except (ScenarioError, TraceError) as error:
        sys.stderr.write(f"{profile.name}: {error}\n")
        return 2
    except (FleetError, FleetProcessError) as error:
        sys.stderr.write(f"{profile.name}: {error}\n")
        return 1
    finally:
        shutdown_executors(map(_socket, sorted(profile.places)))
    broken = check(record)
    for breach in broken:
        sys.stderr.write(f"{profile.name}: {breach}\n")
    sys.stderr.write(f"{profile.name}: {record.interrupted or 'done'}; results in runs/{folder.name}\n")
    return int(bool(record.interrupted or broken))


def main() -> int:
    """Of the container that runs: root hands results to their owner, the run itself is everybody's."""
    parser = argparse.ArgumentParser(prog="emulator.live.containers.remote_fleet")
    parser.add_argument("profile", choices=[SLURM.name, NOVA.name])
    profile = next(each for each in (SLURM, NOVA) if each.name == parser.parse_args().profile)
    os.umask(0o002)
    if os.getuid() == 0:
        if profile is SLURM:
            _SHM.chmod(0o1777)
        return control([sys.executable, "-m", "emulator.live.containers.remote_fleet", profile.name])
    bring_kernels()
    shutil.rmtree(_TMP, ignore_errors=True)  # of a run that was killed
    _TMP.mkdir()
    return run(profile, MADE)


if __name__ == "__main__":
    sys.exit(main())
