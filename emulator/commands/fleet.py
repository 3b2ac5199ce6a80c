"""`emulator fleet`: a live fleet of containers, started, watched, given faults and removed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from emulator.commands.engine_errors import report_engine_errors, say
from emulator.commands.fleet_swarm import DEFAULT_SCENARIO, load_for_containers, swarm
from emulator.commands.options import plugin_option, refuse
from emulator.commands.run import interruptible
from emulator.report.terminal import stdout_console

if TYPE_CHECKING:
    from collections.abc import Iterator

    from emulator.live.containers.docker_engine import Member

_FLEET = click.option("--fleet", "name", help="Which fleet (default: the only one).")


@click.group()
def fleet() -> None:
    """The live fleet in containers: one for each node and service, on a Docker engine.

    Fleets of `docker compose up` can be inspected, followed and given faults in the same way.
    """


fleet.add_command(swarm)


@fleet.command()
@plugin_option
@click.argument("scenario_file", metavar="[SCENARIO.yaml]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--nodes", type=click.IntRange(min=1), help="How many node containers (default: the scenario's)."
)
@click.option("--containers", type=click.IntRange(min=0),
              help="How many nodes have a container of their own (default: all); one more plays the rest.")  # fmt: skip
@click.option(
    "--fleet", "name", default="fleet", show_default=True, help="Name of the fleet and of its containers."
)
@click.option(
    "--set", "changes", metavar="KEY=VALUE", multiple=True, help="Change a key of the scenario. Repeatable."
)
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs"), show_default=True,
              help="Folder for the results.")  # fmt: skip
@click.option("--detach", "-d", is_flag=True, help="Return when all containers are started.")
@click.option("--keep", is_flag=True, help="Leave the containers when the run is over.")
@click.option(
    "--images", default="balancer-emulator", show_default=True, help="Images are IMAGES/ROLE:VERSION."
)
@click.option("--subnet", help="Network of the fleet, like 10.77.0.0/22 (default: a free one).")
@click.option(
    "--threads", type=click.IntRange(1, 16), default=4, show_default=True, help="Containers at a time."
)
@click.option("--missing", type=click.Choice(["end", "down"]), default="end", show_default=True,
              help="A node that does not come: the run ends, or begins with it down.")  # fmt: skip
@click.option("--node-cores", type=int, help="Cores that each node registers with (default: the machine's).")
@click.option("--node-memory-kib", type=int, help="Memory that each node registers with.")
def up(  # noqa: PLR0917
    scenario_file: Path | None, nodes: int | None, containers: int | None, name: str, changes: tuple[str, ...],
    out: Path, images: str, subnet: str | None, threads: int, missing: str, node_cores: int | None,
    node_memory_kib: int | None, *, detach: bool, keep: bool,
) -> None:  # fmt: skip
    """Start a fleet and run a scenario in it (default: scenarios/fleet.yaml).

    Exit status: that of the run. The containers are removed after it; with --detach, `emulator fleet follow` sees
    the run to its end and carries out its faults, and `emulator fleet down` removes it.
    """
    from emulator.live.containers.docker_engine import docker_client  # noqa: PLC0415
    from emulator.live.containers.fleet import STOPPED, Order, start  # noqa: PLC0415

    if detach:
        refuse({"keep"}, "with --detach the containers stay until `emulator fleet down` removes them")
    path = scenario_file or DEFAULT_SCENARIO
    scenario, nodes = load_for_containers(path, changes, nodes, containers=containers)
    folders = {path.absolute().parent}
    if scenario.workload.trace is not None:
        folders.add(scenario.workload.trace.resolve().parent)
        changes += (f"workload.trace={scenario.workload.trace.resolve()}",)
    if scenario.plugins:
        folders |= {each.file.resolve().parent for each in scenario.plugins}
        sources = (f"{each.file.resolve()}:{each.name}" for each in scenario.plugins)
        changes += (f"plugins=[{','.join(sources)}]",)
    order = Order(
        fleet=name, nodes=nodes, containers=containers, scenario=path, out=out, changes=changes, images=images,
        subnet=subnet, threads=threads, missing=missing, node_cores=node_cores, node_memory_kib=node_memory_kib,
        folders=tuple(sorted(folders)),
    )  # fmt: skip

    def act() -> int:
        client = docker_client(threads)
        start(client, order, say)
        if detach:
            say(f"`emulator fleet follow --fleet {name}` sees the run to its end")
            return 0
        status = _follow(client, name)
        if not keep:
            # The exit status is that of the run, also where something is left of the fleet.
            is_over = status < STOPPED
            _remove(client, name, threads=threads, keep_data=not is_over)
            if not is_over:
                say("the run is not over: the same command goes on with it; "
                     f"`emulator fleet down --fleet {name}` forgets it")  # fmt: skip
        return status

    report_engine_errors(act)


def _remove(client: Any, name: str, *, threads: int = 4, keep_data: bool = False) -> int:
    """Remove a fleet and say what was done and what could not be. Exit status."""
    from emulator.live.containers.docker_engine import remove  # noqa: PLC0415
    from emulator.live.containers.fleet import Timing  # noqa: PLC0415

    timing = Timing()
    removed = remove(client, name, threads=threads, keep_data=keep_data)
    say(f"{removed.containers} containers removed in {timing.passed_s():.1f} s")
    for problem in removed.problems:
        say(problem)
    if removed.problems:
        say(f"`emulator fleet down --fleet {name}` tries again")
    return int(bool(removed.problems))


def _follow(client: Any, name: str) -> int:
    from emulator.live.containers import fleet as on  # noqa: PLC0415
    from emulator.live.containers.docker_engine import CpuMeter  # noqa: PLC0415
    from emulator.report.progress import RunProgress  # noqa: PLC0415

    with interruptible() as interrupted, RunProgress(jobs=0) as progress:
        printed: list[int] = []
        meter = CpuMeter(client, name)

        def show(status: dict[str, Any]) -> None:
            for mark in status["marks"][len(printed) :]:
                printed.append(1)
                say(f"at {mark['at_s']:.0f} s: {mark['text']}")
            if status["running"]:
                done = status.get("jobs_ended", 0), status.get("granted", 0), status.get("rejected", 0)
                progress.update(round(status["cluster_time_s"] * 1e6), *done)
            meter.look()

        status = on.follow(client, name, show, lambda: bool(interrupted), say)
    if used := meter.text():
        say(used)
    if status:
        click.echo(on.logs_of(client, name, "controller"), err=True)
    return status


@fleet.command()
@_FLEET
def follow(name: str | None) -> None:
    """Follow a fleet's run to its end and inject the faults of its scenario. Exit status: that of the run."""
    from emulator.live.containers.docker_engine import docker_client, the_fleet  # noqa: PLC0415

    def act() -> int:
        client = docker_client()
        return _follow(client, the_fleet(client, name))

    report_engine_errors(act)


@fleet.command()
@_FLEET
@click.option("--json", "as_json", is_flag=True, help="As JSON on stdout.")
def status(name: str | None, as_json: bool) -> None:
    """Show a fleet: its containers, and where its run is."""
    from emulator.live.containers.docker_engine import (  # noqa: PLC0415
        address_of,
        controller_of,
        cpu_s,
        docker_client,
        members,
        the_fleet,
    )
    from emulator.live.names import BALANCER, BALANCER_PORT  # noqa: PLC0415

    def act() -> None:
        client = docker_client()
        fleet_name = the_fleet(client, name)
        found = members(client, fleet_name)
        run = controller_of(client, fleet_name).status()
        used_s = cpu_s(client, found)
        if as_json:
            parts = [
                {
                    "name": each.name,
                    "role": each.role,
                    "state": each.container.status,
                    "cpu_s": used_s.get(each.name),
                }
                for each in found
            ]
            click.echo(json.dumps({"fleet": fleet_name, "members": parts, "run": run}, indent=1))
            return
        table = Table("role", "containers", "states", "CPU s", title=f"Fleet {fleet_name}")
        for role in dict.fromkeys(each.role for each in found):
            states = [each.container.status for each in found if each.role == role]
            shown = ", ".join(_with_names(state, found, role) for state in sorted(set(states)))
            role_s = sum(used_s.get(each.name, 0) for each in found if each.role == role)
            table.add_row(role, str(len(states)), shown, f"{role_s:.1f}")
        stdout_console().print(table)
        if run is not None:
            done = f"{run.get('jobs_ended', 0)} jobs ended" if run["running"] else "not begun"
            click.echo(f"{run['scenario']}: cluster time {run['cluster_time_s']:.0f} s, {done}")
            if run.get("viewer_token"):
                url = address_of(client, fleet_name, BALANCER, BALANCER_PORT)
                click.echo(f"dashboard: {url}/ (token {run['viewer_token']})")
            for line in (*(f"waits for: {text}" for text in run["waits_for"]), *_standing(run)):
                click.echo(line)

    report_engine_errors(act)


def _with_names(state: str, found: list[Member], role: str) -> str:
    """`7 running`, `1 paused (n003)`: those that do not run by name."""
    from emulator.live.names import some_of  # noqa: PLC0415

    names = [each.name for each in found if each.role == role and each.container.status == state]
    named = role == "node" and state != "running"
    return f"{len(names)} {state}" + (f" ({some_of(names)})" if named else "")


def _standing(run: dict[str, Any]) -> Iterator[str]:
    """Who keeps the clock from going on, and without whom it goes on."""
    for holder in run["held_by"]:
        if holder["for_s"] >= 1:
            yield f"the clock has waited for {holder['name']} for {holder['for_s']:.0f} s"
    for name in run["silent"]:
        yield f"{name} is silent: the clock goes on without it"


@fleet.command()
@_FLEET
@click.option("--keep-data", is_flag=True, help="Leave its volumes: the next `up` goes on with the run.")
def down(name: str | None, keep_data: bool) -> None:
    """Remove a fleet that `emulator fleet up` started, or what is left of it: containers, network, volumes.

    Exit status: 1 if something is left, which is named.
    """
    from emulator.live.containers.docker_engine import docker_client, the_own_fleet  # noqa: PLC0415

    def act() -> int:
        client = docker_client()
        fleet_name = the_own_fleet(client, name)
        if fleet_name is None:
            say("nothing is left" + (f" of {name}" if name else ""))
            return 0
        return _remove(client, fleet_name, keep_data=keep_data)

    report_engine_errors(act)


@fleet.command()
@click.argument(
    "action",
    type=click.Choice(["kill", "start", "pause", "unpause", "disconnect", "connect", "slow", "unslow"]),
)
@click.argument("targets", metavar="TARGET...", nargs=-1, required=True)
@_FLEET
@click.option(
    "--rate-kbit", type=click.IntRange(min=8), help="With slow: kbit/s that it may send (default 1000)."
)
@click.option("--delay-ms", type=click.IntRange(min=1), help="With slow: delay of each packet (needs netem).")
def fault(
    action: str, targets: tuple[str, ...], name: str | None, rate_kbit: int | None, delay_ms: int | None
) -> None:
    """Inject a fault into containers of a fleet: TARGET is a service (batch, balancer, ...) or a node (n003).

    kill/start, pause/unpause, disconnect/connect, slow/unslow. The report of the run marks the moment.
    """
    from emulator.live.containers import docker_engine as on  # noqa: PLC0415
    from emulator.live.faults import FaultAction, Slow  # noqa: PLC0415

    if action != "slow":
        refuse({"rate_kbit", "delay_ms"}, f"of slow, and this is {action}")

    def act() -> None:
        client = on.docker_client()
        fleet_name = on.the_fleet(client, name)
        for target in targets:
            at_s = on.fault(client, fleet_name, target, FaultAction(action), slow=Slow(rate_kbit, delay_ms))
            say(
                f"{action} {target}"
                + (f" at {at_s:.0f} s" if at_s is not None else " (no controller to tell)")
            )

    report_engine_errors(act)
