"""A live run with a real Nova whose processes are in containers: `python -m emulator.live.containers.nova_fleet`.

They share their network and a volume, in which PostgreSQL's socket is, too (`placed.py`).
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from emulator.live.containers.names import BALANCER, BATCH, PREDICTOR, REPLAYER
from emulator.live.containers.placed import first_process
from emulator.scenario import ScenarioError

if TYPE_CHECKING:
    from emulator.scenario import Scenario

_SERVICES, _FRONT, _POSTGRES, _AGENT = "services", "front", "postgres", "agent"
_PLACES = {
    BALANCER: BALANCER, PREDICTOR: BALANCER, REPLAYER: REPLAYER,
    "nova": _SERVICES, "nova-databases": _SERVICES, "nova-front": _FRONT, "nova-postgres": _POSTGRES,
    "nova-agent": _AGENT,
}  # fmt: skip


class Nova:
    """See `emulator.live.containers.placed.Profile`. What is not named here is the batch system's."""

    name = "nova"
    places = frozenset({BATCH, *_PLACES.values()})

    def place_of(self, process: str) -> str:
        return _PLACES.get(process, BATCH)

    def check(self, scenario: Scenario) -> None:
        batch, cloud = (
            next(iter(told)) if isinstance(told, dict) else told
            for told in (scenario.live.batch, scenario.live.ondemand)
        )
        if cloud != "nova":
            raise ScenarioError(f"live.ondemand is {cloud}, and these containers are Nova's; set it to nova")
        if batch != "torque":
            raise ScenarioError(f"live.batch is {batch}, and these containers have torque only")


def main() -> int:
    return first_process(Nova(), "emulator.live.containers.nova_fleet")


if __name__ == "__main__":
    sys.exit(main())
