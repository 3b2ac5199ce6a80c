"""`emulator fleet swarm`: the fleet in containers over several hosts."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from emulator.commands.engine_errors import report_engine_errors, say
from emulator.commands.options import plugin_option
from emulator.commands.run import interruptible
from emulator.report.terminal import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from emulator.live.containers.docker_engine import Removed
    from emulator.live.containers.swarm import SwarmOrder
    from emulator.runs.scenario import Scenario

_NAME = click.option("--fleet", "name", default="fleet", show_default=True, help="Name of the stack.")


DEFAULT_SCENARIO = Path("scenarios/fleet.yaml")


def load_for_containers(
    path: Path, changes: tuple[str, ...], nodes: int | None, *, containers: int | None = None
) -> tuple[Scenario, int]:
    """A scenario that containers can run, and for how many nodes. `containers`: so many nodes have their own.

    Raises InputError.
    """
    from emulator.live.containers.startup import check_containers  # noqa: PLC0415
    from emulator.runs.scenario import ScenarioError, load  # noqa: PLC0415

    try:
        scenario = load(path, changes)
        nodes = nodes or scenario.nodes
        check_containers(scenario, has_rest=containers is not None and containers < (nodes or 0))
    except ScenarioError as error:
        raise InputError(str(error)) from error
    if nodes is None:
        raise InputError(f"{path} does not say how many nodes there are; give --nodes")
    return scenario, nodes


@click.group()
def swarm() -> None:
    """The fleet over several hosts: a stack of a Docker Swarm (deploy/swarm.yml)."""


@swarm.command()
@plugin_option
@click.argument("scenario_file", metavar="[SCENARIO.yaml]", required=False, type=click.Path(path_type=Path))
@click.option("--hosts", type=click.IntRange(min=1), default=1, show_default=True,
              help="With how many hosts it begins, this one included.")  # fmt: skip
@click.option(
    "--nodes", type=click.IntRange(min=1), help="How many node containers (default: the scenario's)."
)
@click.option(
    "--address", help="Address of this machine that the others reach (default: the engine's choice)."
)
@click.option("--port", type=click.IntRange(0, 65535), default=8102, show_default=True,
              help="Where the other hosts ask to join; 0: a free one.")  # fmt: skip
@_NAME
@click.option(
    "--set", "changes", metavar="KEY=VALUE", multiple=True, help="Change a key of the scenario. Repeatable."
)
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs"), show_default=True,
              help="Folder for the results.")  # fmt: skip
@click.option(
    "--images", default="balancer-emulator", show_default=True, help="Images are IMAGES/ROLE:VERSION."
)
@click.option("--subnet", help="Overlay network of the fleet (default: 10.110.0.0/22).")
@click.option("--stack", "stack_file", type=click.Path(path_type=Path), default=Path("deploy/swarm.yml"),
              show_default=True, help="The stack's file.")  # fmt: skip
def up(  # noqa: PLR0917
    scenario_file: Path | None, hosts: int, nodes: int | None, address: str | None, port: int, name: str,
    changes: tuple[str, ...], out: Path, images: str, subnet: str | None, stack_file: Path,
) -> None:  # fmt: skip
    """Run a scenario (default: scenarios/fleet.yaml) in containers on several hosts.

    Prints the one command to type on each other host, which joins with it, gets its image from here, and leaves when
    the run is over. Services run here, nodes on all hosts. Exit status: that of the run; then nothing of it is left.
    Ctrl-C leaves the data of the run: the same command goes on with it, `emulator fleet swarm down` forgets it.
    """
    from emulator.live.containers.docker_engine import docker_client  # noqa: PLC0415
    from emulator.live.containers.swarm import SwarmOrder, check  # noqa: PLC0415

    path = scenario_file or DEFAULT_SCENARIO
    scenario, nodes = load_for_containers(path, changes, nodes)
    if scenario.live.faults:
        raise InputError("live.faults: a Swarm starts again what fails; faults are for `emulator fleet up`")

    def act(nodes: int = nodes) -> int:
        client = docker_client()
        with tempfile.TemporaryDirectory(prefix="emulator-swarm-") as folder:
            Path(folder).chmod(0o755)  # the controller reads it as everybody
            order = SwarmOrder(
                fleet=name, nodes=nodes, hosts=hosts, stack_file=stack_file, scenarios=Path(folder),
                scenario=path.name, out=out, images=images, subnet=subnet,
                changes=changes + tuple(_bring(scenario, path, Path(folder))),
            )  # fmt: skip
            check(client, order)
            return _run(client, order, address, port)

    report_engine_errors(act)


def _bring(scenario: Scenario, path: Path, folder: Path) -> Iterable[str]:
    """Copy the scenario and what it reads to where the controller finds it; the changes that say so."""
    shutil.copy(path, folder / path.name)
    if scenario.workload.trace is not None:
        trace = scenario.workload.trace
        shutil.copy(trace, folder / trace.name)
        yield f"workload.trace=/scenarios/{trace.name}"
    if scenario.plugins:
        sources = []
        for place, each in enumerate(scenario.plugins):
            shutil.copy(each.file, folder / f"{place}-{each.file.name}")
            sources.append(f"/scenarios/{place}-{each.file.name}:{each.name}")
        yield f"plugins=[{','.join(sources)}]"


def _run(client: Any, order: SwarmOrder, address: str | None, port: int) -> int:
    """Begin, follow and remove. Exit status: that of the run."""
    from emulator.live.containers import swarm as on  # noqa: PLC0415
    from emulator.live.containers.swarm import JoinServer  # noqa: PLC0415
    from emulator.live.names import NODE  # noqa: PLC0415

    with interruptible() as interrupted:

        def stopped() -> bool:
            return bool(interrupted)

        manager = on.Swarm(client, address)
        status = on.INTERRUPTED
        left: tuple[str, ...] = ()
        try:
            with JoinServer((manager.address, port), manager.invitation(order.image(NODE))) as server:
                if manager.ready() < order.hosts:
                    say(f"type on each of {order.hosts - manager.ready()} more hosts:  {server.command}")
                elif manager.is_of_others and manager.ready() > 1:
                    say(f"type on each host that has not got {order.image(NODE)}:  {server.command}")
                try:
                    if on.wait_for_hosts(manager, order.hosts, stopped):
                        on.deploy(order)
                        status = on.follow(client, order, say, stopped)
                finally:
                    left = _removed(on.remove(client, order.fleet, keep_data=status >= on.STOPPED))
                    server.over.set()
                    on.wait_for_guests(manager)
        finally:
            left += manager.close()
            for problem in left:
                say(problem)
    if status >= on.STOPPED:
        say("the run is not over: the same command goes on with it; "
            f"`emulator fleet swarm down --fleet {order.fleet}` forgets it")  # fmt: skip
    return status


def _removed(removed: Removed) -> tuple[str, ...]:
    say(f"the stack is removed; it had {removed.containers} containers on this host")
    return removed.problems


@swarm.command()
@_NAME
def down(name: str) -> None:
    """Remove what is left of a stack on this host, and the Swarm that `up` began. Exit status: 1 if something stays."""
    from emulator.live.containers import swarm as on  # noqa: PLC0415
    from emulator.live.containers.docker_engine import docker_client  # noqa: PLC0415

    def act() -> int:
        client = docker_client()
        left = _removed(on.remove(client, name))
        if client.info()["Swarm"]["ControlAvailable"]:
            left += on.Swarm(client, None).close()
        for problem in left:
            say(problem)
        return int(bool(left))

    report_engine_errors(act)
