"""`balancer nova`: the agent beside Nova, and the check of a cloud. What only one command needs is imported there."""
# ruff: noqa: PLC0415

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from balancer.console_kit import SECONDS, URL, fail, refuse, service_at
from balancer.whole_file import write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from balancer.nova.cloud import NovaCloud

_CLOUD = click.option("--cloud", default="", help="Its name in clouds.yaml.  [default: the OS_* variables]")
_OWNER = click.option("--owner", default="nova", show_default=True, help="Whose the filter's grants are.")


@click.group()
def nova() -> None:
    """Run the agent beside an unmodified Nova, and check its cloud.

    The account of the cloud must be an administrator's. The Balancer's token ($BALANCER_TOKEN, $BALANCER_TOKEN_FILE) is
    that of the filter; where no token is asked for, $BALANCER_CLIENT is its name.
    """


@nova.command()
@URL
@_CLOUD
@_OWNER
@click.option(
    "--period-s", type=SECONDS, default=5.0, show_default=True, help="Time between two looks without a hint."
)
@click.option("--grace-s", type=SECONDS, default=60.0, show_default=True,
              help="How long a confirmed node stays granted on which nothing has run or can run.")  # fmt: skip
@click.option(
    "--hint-address", metavar="HOST:PORT", help="Where Nova's notification driver sends hints (UDP)."
)
@click.option(
    "--status-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File for the last state that it saw, as JSON.",
)
@click.option("--ready-file", type=click.Path(path_type=Path, dir_okay=False), help="Written once it looks.")
@click.option("--trait", metavar="CUSTOM_...", help="Keep this trait on the nodes, and on them only.")
@click.option(
    "--aggregate", metavar="NAME", help="With --trait: keep an isolated aggregate of the nodes, too."
)
@click.option("--orphans", type=click.Choice(["tell", "remove"]), default="tell", show_default=True,
              help="What becomes of allocations on its nodes whose server is not there.")  # fmt: skip
@click.option("--once", is_flag=True, help="One look; exit status 3 where something did not answer.")
def agent(
    *,
    url: str,
    cloud: str,
    owner: str,
    period_s: float,
    grace_s: float,
    hint_address: str | None,
    status_file: Path | None,
    ready_file: Path | None,
    trait: str | None,
    aggregate: str | None,
    orphans: str,
    once: bool,
) -> None:
    """Confirm grants on which servers run, return nodes on which none runs, tell of servers where none may be.

    Runs until SIGTERM. It keeps nothing on disk and may be restarted at any time.
    """
    import signal
    import threading

    from balancer.console.serve import configure_logs
    from balancer.nova.agent import Agent, AgentSettings
    from balancer.nova.decide import Rules
    from balancer.nova.hints import HintReceiver

    if once:
        refuse({"period_s", "hint_address", "ready_file"}, "--once is one look")
    configure_logs("info")
    keep_gate = _gate(cloud, trait, aggregate)
    rules = Rules(owner=owner, grace_s=grace_s)
    settings = AgentSettings(
        rules=rules, period_s=period_s, removes_orphans=orphans == "remove", status_file=status_file
    )
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    with service_at(url) as balancer:
        looking = Agent(_cloud(cloud), balancer, settings, keep_gate)
        if once:
            if looking.look() is None:
                raise SystemExit(3)
            return
        try:
            hints = HintReceiver(hint_address)
        except (OSError, ValueError) as error:
            fail(f"--hint-address: {error}")
        with hints:
            if ready_file is not None:
                write_text(ready_file, json.dumps({"hints": hints.address}) + "\n")
            looking.run(over.is_set, hints)


@nova.command()
@URL
@_CLOUD
@_OWNER
@click.option("--nova-conf", type=click.Path(path_type=Path, dir_okay=False, exists=True),
              help="The scheduler's configuration, to be checked as well.")  # fmt: skip
@click.option("--wait-s", type=SECONDS, help="The Balancer's W, to compare with Nova's time limits.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check(
    *, url: str, cloud: str, owner: str, nova_conf: Path | None, wait_s: float | None, as_json: bool
) -> None:
    """Say line by line what the cloud lacks. Nothing is changed.

    Exit status: 0 all is well, 1 something is not, 2 a wrong call.
    """
    from balancer.nova.check import conf_checks, nova_checks
    from balancer.site import show_checks

    if wait_s is not None and nova_conf is None:
        fail("--wait-s goes with --nova-conf FILE: it is compared with the time limits there")
    reading = _cloud(cloud)
    with service_at(url) as balancer:
        found = list(nova_checks(balancer, reading, owner))
    if nova_conf is not None:
        try:
            found += conf_checks(nova_conf, wait_s)
        except ValueError as error:
            fail(str(error))
    else:
        click.echo("balancer: the scheduler's nova.conf was not looked at: give --nova-conf FILE", err=True)
    show_checks(found, as_json=as_json)


def _gate(cloud: str, trait: str | None, aggregate: str | None) -> Callable[[Collection[str]], None] | None:
    """Keeps the gate that was asked for."""
    from functools import partial

    from balancer.nova.gate import Gate, OpenStackGate

    if trait is None:
        if aggregate is not None:
            fail("--aggregate: an isolated aggregate is known by a trait; give --trait, too")
        return None
    try:
        gate = Gate(trait, aggregate)
    except ValueError as error:
        fail(f"--trait: {error}")
    return partial(gate.keep, OpenStackGate(_cloud(cloud)))


def _cloud(name: str) -> NovaCloud:
    try:
        from balancer.nova.cloud import NovaCloud
    except ModuleNotFoundError as error:
        if error.name != "openstack":
            raise
        fail("openstacksdk is not installed: install this package with its extra, FILE.whl[nova]")
    return NovaCloud(name)
