"""A live run on the real Slurm whose processes are in containers: `python -m emulator.live.containers.slurm_fleet`.

The run is that of `emulator run --clock live`; only where its processes start is different (`places.py`). The
containers share their network, /dev/shm (the faster clock of Slurm) and a volume, so that all they tell each other is
as true there as on one machine.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.harness.laws import check
from emulator.live.containers.entry import bring_kernels, control
from emulator.live.containers.names import BALANCER, MADE, ONDEMAND, PREDICTOR, REPLAYER, SHARED
from emulator.live.containers.places import SOCKETS, PlacedProcess, send_home
from emulator.live.containers.wanted import read_scenario
from emulator.live.fleet import Fleet, FleetError
from emulator.live.fleet_process import FleetProcessError
from emulator.report import files
from emulator.runner import prepare
from emulator.scenario import ScenarioError
from emulator.workload.files import TraceError

if TYPE_CHECKING:
    from emulator.live.fleet_process import FleetProcess
    from emulator.scenario import Scenario

_SHM = Path("/dev/shm")  # noqa: S108 - a volume of the containers
_TMP = SHARED / "tmp"
"""$TMPDIR of this container: Slurm's programs, who are in others, are told of paths in it."""
_NODES, _CONTROLLER = "slurmd", "slurmctld"
_PLACES = {BALANCER: BALANCER, PREDICTOR: BALANCER, ONDEMAND: ONDEMAND, REPLAYER: REPLAYER}


class PlacedFleet(Fleet):
    """A live run whose processes are started in other containers."""

    def launch(
        self,
        name: str,
        *arguments: str | Path,
        environ: dict[str, str] | None = None,
        program: Path | None = None,
    ) -> FleetProcess:
        place = _NODES if name.startswith(f"{_NODES}-") else _PLACES.get(name, _CONTROLLER)
        command = [str(sys.executable if program is None else program), *map(str, arguments)]
        process = PlacedProcess(name, command, self.logs, environ or {}, _socket(place))
        self.processes[name] = process
        return process


def _socket(place: str) -> Path:
    return SOCKETS / f"{place}.sock"


class Stopped:
    """Set by a signal: the run ends soon, with a result that says so."""

    reason = ""

    def __bool__(self) -> bool:
        return bool(self.reason)

    def by(self, number: int, _: object) -> None:
        self.reason = signal.Signals(number).name


def run(results: Path) -> int:
    """Exit status: 0, 1 when the run broke off, 2 for bad input."""
    stopped = Stopped()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stopped.by)
    try:
        scenario = _on_slurm(read_scenario())
        prepared = prepare(scenario)
        with tempfile.TemporaryDirectory(prefix="run-") as work:
            fleet = PlacedFleet(scenario, prepared, Path(work))
            record = fleet.run(stopped, quiet=False)
            threshold_s = scenario.results.bounded_slowdown_threshold_s
            folder = results / f"{scenario.name}-live"
            files.write(record, folder, bounded_slowdown_threshold_s=threshold_s, logs=fleet.logs)
    except (ScenarioError, TraceError) as error:
        sys.stderr.write(f"slurm: {error}\n")
        return 2
    except (FleetError, FleetProcessError) as error:
        sys.stderr.write(f"slurm: {error}\n")
        return 1
    finally:
        send_home(map(_socket, sorted({_NODES, _CONTROLLER, *_PLACES.values()})))
    broken = check(record)
    for breach in broken:
        sys.stderr.write(f"slurm: {breach}\n")
    sys.stderr.write(f"slurm: {record.interrupted or 'done'}; results in runs/{folder.name}\n")
    return int(bool(record.interrupted or broken))


def _on_slurm(scenario: Scenario) -> Scenario:
    batch = scenario.live.batch
    name = next(iter(batch)) if isinstance(batch, dict) else batch
    if name != "slurm":
        raise ScenarioError(f"live.batch is {name}, and these containers are Slurm's; set it to slurm")
    return scenario


def main() -> int:
    os.umask(0o002)
    if os.getuid() == 0:
        _SHM.chmod(0o1777)
        return control([sys.executable, "-m", "emulator.live.containers.slurm_fleet"])
    bring_kernels()
    shutil.rmtree(_TMP, ignore_errors=True)  # of a run that was killed
    _TMP.mkdir()
    return run(MADE)


if __name__ == "__main__":
    sys.exit(main())
