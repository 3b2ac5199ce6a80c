"""A live run on the real Slurm whose processes are in containers: `python -m emulator.live.containers.slurm_fleet`.

They share their network, /dev/shm (the faster clock of Slurm) and a volume (`remote_fleet.py`).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from emulator.config.run_parts import OUR_MANAGER
from emulator.live.containers.names import BALANCER, ONDEMAND, PREDICTOR, REPLAYER
from emulator.live.containers.remote_fleet import first_process
from emulator.live.launchers import Launcher

if TYPE_CHECKING:
    from emulator.runs.scenario import Scenario

_SHM = Path("/dev/shm")  # noqa: S108 - a volume of the containers
_NODES, _CONTROLLER = "slurmd", "slurmctld"
_PLACES = {BALANCER: BALANCER, PREDICTOR: BALANCER, ONDEMAND: ONDEMAND, REPLAYER: REPLAYER}
_LAUNCHER = Launcher(
    "the fleet of Slurm's containers", "leave out `--profile slurm`, or use `emulator run --clock live`",
    batch="slurm", ondemand=OUR_MANAGER, has_faults=False,
)  # fmt: skip


class Slurm:
    """See `emulator.live.containers.remote_fleet.Profile`."""

    name = "slurm"
    places = frozenset({_NODES, _CONTROLLER, *_PLACES.values()})

    def place_of(self, process: str) -> str:
        return _NODES if process.startswith(f"{_NODES}-") else _PLACES.get(process, _CONTROLLER)

    def check(self, scenario: Scenario) -> None:
        _LAUNCHER.check(scenario)


def main() -> int:
    if os.getuid() == 0:
        _SHM.chmod(0o1777)
    return first_process(Slurm(), "emulator.live.containers.slurm_fleet")


if __name__ == "__main__":
    sys.exit(main())
