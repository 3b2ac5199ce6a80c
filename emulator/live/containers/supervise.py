"""Who follows a fleet sees its run to the end, carries out its faults, and starts it again when its engine was."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import docker.errors
import requests

from balancer.clock import US, wall_us
from emulator.live.containers.docker_engine import (
    ControllerClient,
    FleetError,
    controller_of,
    fault,
    member,
    members,
)
from emulator.live.containers.names import CONTROLLER
from emulator.live.faults import FaultAction, Slow, text_of

if TYPE_CHECKING:
    from collections.abc import Callable

STOPPED = 128
"""An exit status from here on: the controller was stopped or killed, and the run is not over."""
_LOOK_S = 0.1
_PATIENCE_US = 120 * US
_ENDS_US, _ALONE_US = 30 * US, 3 * US
"""How long an engine that ends may take for its containers, and how soon it has come to the second of them."""
_STOP_S = 10


def follow(
    client: Any,
    fleet: str,
    say: Callable[[dict[str, Any]], None],
    interrupted: Callable[[], bool],
    tell: Callable[[str], None] = lambda _: None,
) -> int:
    """See the run to its end and carry out its faults. The controller's exit status. Raises FleetError.

    128 and more: the controller was stopped or killed, and the run is not over. An engine that ends and comes back
    takes all containers with it: then all are started again, and the run goes on. `tell`: is told that.
    """
    controller = member(client, fleet, CONTROLLER).container
    remote = controller_of(client, fleet)
    pause = threading.Event()
    answered_us = wall_us()
    was_away = False
    while not interrupted():
        status = remote.status()
        try:
            if status is not None:
                was_away = False
                say(status)
                if status["fault"] is not None:
                    _carry_out(client, fleet, remote, status["fault"])
            else:
                controller.reload()
                if controller.status == "exited":
                    code = int(controller.attrs["State"]["ExitCode"])
                    if code < STOPPED or not (was_away or _engine_ends(client, fleet, pause)):
                        return code
                    was_away = True
                    _start_again(client, fleet)
                    tell("the engine was started again: so are the containers, and the run goes on")
                    was_away = False
            answered_us = wall_us()
        except docker.errors.NotFound as error:
            raise FleetError(
                f"somebody has removed the controller of {fleet}: {error.explanation}"
            ) from error
        except (docker.errors.DockerException, requests.RequestException) as error:
            was_away = True
            if wall_us() - answered_us > _PATIENCE_US:
                raise FleetError(f"the engine does not answer any more: {error}") from error
        pause.wait(_LOOK_S)
    controller.stop(timeout=_STOP_S)
    return int(controller.wait()["StatusCode"])


def _engine_ends(client: Any, fleet: str, pause: threading.Event) -> bool:
    """Whether a controller has ended because its engine does: then the others end too, and the engine is gone.

    A controller that somebody has stopped or killed is alone in that.
    """
    begun_us = wall_us()
    while wall_us() - begun_us < _ENDS_US:
        try:
            all_run = all(each.is_running or each.name == CONTROLLER for each in members(client, fleet))
        except (docker.errors.DockerException, requests.RequestException):
            return True
        if all_run and wall_us() - begun_us > _ALONE_US:
            return False
        pause.wait(_LOOK_S)
    return False


def _start_again(client: Any, fleet: str) -> None:
    """The controller first: the others ask it for their settings."""
    for each in sorted(members(client, fleet), key=lambda each: each.name != CONTROLLER):
        if not each.is_running:
            each.container.start()


def _carry_out(client: Any, fleet: str, controller: ControllerClient, step: dict[str, Any]) -> None:
    """A step of the scenario. One that cannot be done is no reason to end the run: the report says so."""
    action, target, slow = FaultAction(step["do"]), step["target"], Slow(**step["slow"])
    try:
        fault(client, fleet, target, action, slow=slow, number=step["number"])
    except FleetError as error:
        controller.annotate(f"not carried out: {text_of(action, target, slow)}: {error}", step["number"])


def logs_of(client: Any, fleet: str, role: str, lines: int = 15) -> str:
    """The end of what a member said."""
    target = next((each for each in members(client, fleet) if each.name == role), None)
    return "" if target is None else str(target.container.logs(tail=lines).decode(errors="replace"))
