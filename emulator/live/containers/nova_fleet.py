"""A live run with a real Nova whose processes are in containers: `python -m emulator.live.containers.nova_fleet`.

They share their network and a volume, in which PostgreSQL's socket is, too (`remote_fleet.py`).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from emulator.config.run_parts import OUR_BATCH_SYSTEM
from emulator.live.containers.names import BALANCER, BATCH, PREDICTOR, REPLAYER
from emulator.live.containers.remote_fleet import first_process
from emulator.live.launchers import Launcher

if TYPE_CHECKING:
    from emulator.runs.scenario import Scenario

_SERVICES, _FRONT, _POSTGRES, _AGENT = "services", "front", "postgres", "agent"
_PLACES = {
    BALANCER: BALANCER, PREDICTOR: BALANCER, REPLAYER: REPLAYER,
    "nova": _SERVICES, "nova-databases": _SERVICES, "nova-front": _FRONT, "nova-postgres": _POSTGRES,
    "nova-agent": _AGENT,
}  # fmt: skip
_LAUNCHER = Launcher(
    "the fleet of Nova's containers", "leave out `--profile nova`, or use `emulator run --clock live`",
    batch=OUR_BATCH_SYSTEM, ondemand="nova", has_faults=False,
)  # fmt: skip


class Nova:
    """See `emulator.live.containers.remote_fleet.Profile`. What is not named here is the batch system's."""

    name = "nova"
    places = frozenset({BATCH, *_PLACES.values()})

    def place_of(self, process: str) -> str:
        return _PLACES.get(process, BATCH)

    def check(self, scenario: Scenario) -> None:
        _LAUNCHER.check(scenario)


def main() -> int:
    return first_process(Nova(), "emulator.live.containers.nova_fleet")


if __name__ == "__main__":
    sys.exit(main())
