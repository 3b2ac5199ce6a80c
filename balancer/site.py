"""`balancer check`: what files, batch system and cloud must be like, before the service runs. It only reads."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import click

from balancer.console_kit import one_line
from balancer.drivers.base import BatchDriver, ChecksSite, DriverError, NodeStatus, SiteCheck
from balancer.drivers.claims import KeepsClaims
from balancer.nodelist import some
from balancer.service.claims import LIVES_S, WATCH_S

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from balancer.config import Config
    from balancer.drivers.cloud import CloudDriver


def site_checks(config: Config) -> tuple[SiteCheck, ...]:
    """Looks at what the service opens, asks batch system and cloud. Raises ConfigError where nobody could be asked."""
    from balancer.startup_checks import ledger_id, may_be_copy, own_checks  # noqa: PLC0415 - the other commands start without it

    config.check_bind()
    nodes, driver, cloud = config.node_names(), config.make_driver(), config.make_cloud()
    return (
        *own_checks(config),
        *_batch(nodes, driver, ledger_id(config), may_be_copy=may_be_copy(config)),
        *(() if cloud is None else _cloud(nodes, cloud)),
    )


def _batch(
    nodes: Sequence[str], driver: BatchDriver, ledger_id: str, *, may_be_copy: bool
) -> Iterator[SiteCheck]:
    answers = f"{driver.name} answers"
    try:
        listed = driver.get_status_of_all_nodes()
    except DriverError as error:
        yield SiteCheck(
            answers,
            f"{error}; the service starts all the same, and is not ready until it does. Nodes, marks and claims were "
            "not looked at",
        )
        return
    yield SiteCheck(answers, "")
    unread = [name for name in nodes if name in listed and listed[name].state == "unknown"]
    yield SiteCheck(f"{driver.name} lists the nodes", _missing(nodes, listed, driver.name))
    yield SiteCheck(
        "what it says of them can be read",
        f"{some(unread)} cannot: they are neither lent nor granted until they can" if unread else "",
    )
    yield SiteCheck("no other Balancer's marks are on them", _foreign_marks(nodes, listed, ledger_id))
    yield from _foreign_claims(driver, ledger_id, may_be_copy=may_be_copy)
    if isinstance(driver, ChecksSite):
        try:
            yield from driver.check_site(nodes)
        except DriverError as error:
            yield SiteCheck("it can tell how it is set up", str(error))


def _cloud(nodes: Sequence[str], cloud: CloudDriver) -> Iterator[SiteCheck]:
    answers = f"{cloud.name} answers"
    try:
        listed = cloud.get_status_of_hosts()
    except DriverError as error:
        yield SiteCheck(
            answers,
            f"{error}; leases do not end and doubts are not settled until it does. Its hosts were not looked at",
        )
        return
    yield SiteCheck(answers, "")
    yield SiteCheck(f"{cloud.name} lists the nodes", _missing(nodes, listed, cloud.name))


def _foreign_marks(nodes: Sequence[str], listed: Mapping[str, NodeStatus], ledger_id: str) -> str:
    """Which nodes carry marks of ledgers other than ours ("": there is none yet)."""
    stamps = {name: stamp for name in nodes if name in listed and (stamp := listed[name].stamp) is not None}
    foreign_marks = {name: stamp.ledger_id for name, stamp in stamps.items() if stamp.ledger_id != ledger_id}
    if not foreign_marks:
        return ""
    ledgers = " and ".join(sorted(set(foreign_marks.values())))
    ours = f"this one is {ledger_id}" if ledger_id else "this one does not exist yet"
    return (
        f"{some(list(foreign_marks))} are marked by ledger {ledgers}, {ours}: another Balancer may be running. Stop "
        "one of the two; a service that has lent nothing moves no node beside the other's marks. Only if no "
        "other runs: `balancer adopt`"
    )


def _foreign_claims(driver: BatchDriver, ledger_id: str, *, may_be_copy: bool) -> Iterator[SiteCheck]:
    """Whether another service claims the nodes; one look does not tell whether it is alive."""
    if not (isinstance(driver, KeepsClaims) and driver.keeps_claims):
        return
    what = "no other Balancer claims the nodes"
    try:
        claims = list(driver.read_claims())
    except DriverError as error:
        yield SiteCheck(what, f"it cannot be told: {error}")
        return
    foreign_ledgers = [key for key in claims if key != ledger_id]
    ours = f"this one is {ledger_id}" if ledger_id else "this one does not exist yet"
    if foreign_ledgers:
        problem = (
            f"ledger {' and '.join(foreign_ledgers)} does, {ours}: stop that service. A claim whose service is gone "
            f"counts no more after {LIVES_S:.0f} s, or at once with `balancer adopt`"
        )
    elif ledger_id in claims and may_be_copy:
        problem = (
            f"ledger {ledger_id} does, and this file of it was copied or put back, or its machine was started again: "
            f"another Balancer may run on a copy. Stop that one. If there is none, the service goes on by itself "
            f"{WATCH_S:.0f} s after its start"
        )
    else:
        problem = ""
    yield SiteCheck(what, problem)


def _missing(nodes: Sequence[str], listed: Collection[str], system: str) -> str:
    absent = [name for name in nodes if name not in listed]
    return f"{some(absent)} not known to {system}: mend `nodes`, or add them there" if absent else ""


@click.command()
@click.option(
    "--config", type=click.Path(path_type=Path, dir_okay=False), help="The service's configuration."
)
@click.option("--nodes", metavar="FILE|PATTERN", help="The nodes to move, where no file says so.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check(config: Path | None, nodes: str | None, as_json: bool) -> None:
    """Check the setup: what the service opens, the batch system and the cloud. Nothing is changed.

    The service need not run. Run this as its user. A line for each thing, with what to do if it is wrong. Exit
    status: 0 all is well, 1 something is not, 2 the configuration cannot be used.
    """
    from balancer.config import read_config  # noqa: PLC0415 - the other commands start fast

    with one_line(ValueError):
        found = site_checks(read_config(config, {"nodes": nodes}))
    show_checks(found, as_json=as_json)


def show_checks(found: Sequence[SiteCheck], *, as_json: bool) -> NoReturn:
    """A line for each. Exit status 0: all is well, 1: something is not."""
    if as_json:
        click.echo(json.dumps([asdict(each) for each in found], indent=2))
    else:
        for each in found:
            click.echo(f"not so  {each.what}: {each.problem}" if each.problem else f"ok      {each.what}")
    raise SystemExit(1 if any(each.problem for each in found) else 0)
