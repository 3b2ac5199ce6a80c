"""The commands of `balancer`. What only one command needs is imported there: the others start fast."""
# ruff: noqa: PLC0415

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from balancer.console_kit import (
    ITEM,
    PLUGIN,
    SECONDS,
    asks_service,
    fail,
    file_error,
    list_plugins,
    names_of,
    one_line,
    refuse,
    service_at,
    show,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from balancer.client import Balancer
    from balancer.client_records import Node, Request, Reserve

_HELP = {"help_option_names": ["-h", "--help"], "max_content_width": 110}
_WHOLE = 1000
"""So long may the first sentence of a command be in the list of commands."""


_SECTIONS = {
    "The service": ("serve", "check", "adopt", "ledger", "token", "hook-key", "nova", "openapi"),
    "What there is": ("status", "usage", "nodes", "requests", "reserves", "events"),
    "Nodes for on-demand use": ("request", "confirm", "renew", "release", "withdraw", "reserve", "predict"),
    "Emergency": ("freeze", "thaw", "node"),
    "Plug-ins": ("algorithms", "drivers", "predictor"),
}
"""The commands as `balancer --help` groups them; others follow."""


class _Cli(click.Group):
    """`ledger` is loaded when it is asked for: the other commands start faster without its database."""

    def invoke(self, ctx: click.Context) -> Any:
        """A file or folder that cannot be used is one clear line, whichever command it is."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # whoever read our output has ended: click ends quietly
        except OSError as error:
            if ctx.invoked_subcommand == "serve":
                raise  # status 2 would keep systemd from starting it again
            fail(file_error(error))

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted((*super().list_commands(ctx), "ledger"))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name != "ledger":
            return super().get_command(ctx, cmd_name)
        from balancer.console.ledger import ledger

        return ledger

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        grouped = {name for names in _SECTIONS.values() for name in names}
        others = tuple(name for name in self.list_commands(ctx) if name not in grouped)
        for title, names in (*_SECTIONS.items(), ("Other commands", others)):
            commands = [(name, self.get_command(ctx, name)) for name in names]
            rows = [(name, each.get_short_help_str(_WHOLE)) for name, each in commands if each is not None]
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows)


@click.group(cls=_Cli, context_settings=_HELP)
@click.version_option(package_name="balancer-emulator")
def cli() -> None:
    """Move whole nodes between an on-demand pool and a batch pool while jobs run.

    `balancer serve` runs the service; the other commands ask it, at --url or $BALANCER_URL, with the token in
    $BALANCER_TOKEN or $BALANCER_TOKEN_FILE. A service without tokens takes the caller's name from $BALANCER_CLIENT
    (`operator` may end requests of others). Exit status: 0 done, 1 not obtainable, 2 a wrong call, 3 no answer.
    `balancer hook prologue|epilogue` is for Torque's mom.
    """


@cli.command()
@PLUGIN
@click.option(
    "--config", type=click.Path(path_type=Path, dir_okay=False), help="YAML file; options go over it."
)
@click.option(
    "--nodes", metavar="FILE|PATTERN", help="The nodes to move, e.g. n[001-064] or a file of patterns."
)
@click.option("--driver", type=ITEM, shell_complete=names_of("balancer.batch_drivers"),
              help="The batch system: NAME, or '{NAME: {PARAMETER: VALUE}}' (see"
              " `balancer drivers`).  [default: torque]")  # fmt: skip
@click.option("--algorithm", type=ITEM, shell_complete=names_of("balancer.algorithms"),
              help="NAME, or '{NAME: {PARAMETER: VALUE}}' (see `balancer algorithms`)."
              "  [default: basic]")  # fmt: skip
@click.option("--reserve", type=int, help="R: nodes that stay in the on-demand pool.  [default: 0]")
@click.option("--reserve-rule", help="fixed: granted nodes count for R; refilled: idle nodes take their place."
              "  [default: fixed]")  # fmt: skip
@click.option("--wait-s", type=float, help="W: how long requests wait for jobs to end.  [default: 0]")
@click.option(
    "--idle-reserve-s",
    "--idle-hold-s",
    "idle_reserve_s",
    type=float,
    help="I: how long a node beyond R stays reserved.  [default: 600]",
)
@click.option("--db", help="The ledger: a file on a local disk, or a PostgreSQL URL.  [default: balancer.db]")
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=int, help="0: a free one, which is printed.  [default: 8090]")
@click.option("--threads", type=int, help="Threads; three quarters may wait for nodes.  [default: 32]")
@click.option(
    "--ready-file", type=click.Path(path_type=Path), help="Gets {url, pid} once the service is ready."
)
@click.option(
    "--clock", type=ITEM, help="NAME, or '{NAME: {PARAMETER: VALUE}}': the clock to go by.  [default: wall]"
)
@click.option("--reconcile-period-s", type=float, help="How often all nodes are read.  [default: 60]")
@click.option("--refresh-age-s", type=float, help="Age up to which a reading serves a request.  [default: 1]")
@click.option("--confirm-poll-s", type=float, help="Wall time between looks at a moving node.  [default: 1]")
@click.option("--auth/--no-auth", default=None, help="Ask for tokens.  [default: beyond loopback]")
@click.option("--token-file", type=click.Path(path_type=Path), help="Tokens.  [default: DB.tokens]")
@click.option("--hook-key-file", type=click.Path(path_type=Path), help="Hook keys.  [default: DB.hook-keys]")
@click.option("--tls-cert", type=click.Path(path_type=Path), help="Certificate chain (PEM): serve HTTPS.")
@click.option("--tls-key", type=click.Path(path_type=Path), help="Its private key (PEM).")
@click.option("--insecure-bind/--no-insecure-bind", default=None, help="Listen beyond loopback without auth.")
def serve(config: Path | None, **options: Any) -> None:
    """Run the service until SIGTERM. SIGHUP: read nodes, R, W, I, waiting times and limits again."""
    from balancer.config import read_config
    from balancer.console.serve import serve as run
    from balancer.ledger.errors import LedgerError

    with one_line(LedgerError, ValueError):
        run(read_config(config, options), lambda: read_config(config, options))


@cli.command()
@PLUGIN
@click.option("--json", "as_json", is_flag=True)
def algorithms(as_json: bool) -> None:
    """List the algorithms with their parameters. In the configuration: `algorithm: {NAME: {PARAMETER: VALUE}}`."""
    from balancer.plugins import ALGORITHMS

    list_plugins(ALGORITHMS, as_json)


@cli.command()
@PLUGIN
@click.option("--json", "as_json", is_flag=True)
def drivers(as_json: bool) -> None:
    """List the drivers of batch systems and clouds with their parameters."""
    from balancer.plugins import BATCH_DRIVERS, CLOUD_DRIVERS

    list_plugins(BATCH_DRIVERS, as_json)
    list_plugins(CLOUD_DRIVERS, as_json)


@cli.command()
def openapi() -> None:
    """Print the OpenAPI document of the service."""
    from balancer.http.app import openapi_text

    click.echo(openapi_text(), nl=False)


@cli.command("status")
@asks_service
def status(url: str, as_json: bool) -> None:
    """Show nodes by state, waiting requests, and whether batch system and cloud answer."""
    from balancer.console.status_rows import rows_of

    with service_at(url) as balancer:
        found = balancer.status()
    show(as_json, found, ["WHAT", "HOW"], rows_of(found))


@cli.command("nodes")
@asks_service
@click.option("--state", help="Only nodes in this state.")
def nodes(url: str, as_json: bool, state: str | None) -> None:
    """List the nodes."""
    from balancer.lifecycle.states import NodeState

    wanted = "QUARANTINED" if state == "HELD" else state  # its name up to 0.3
    if wanted is not None and wanted not in [*NodeState]:
        fail(f"--state {state}: a node is {', '.join(NodeState)}")
    with service_at(url) as balancer:
        found = [node for node in balancer.nodes() if wanted in (None, node.state)]
    rows = [
        [n.name, n.state, n.pool, _time(n.since_s), n.request_id or "", " ".join(n.jobs), _reported(n)]
        for n in found
    ]
    header = ["NODE", "STATE", "POOL", "SINCE", "REQUEST", "JOBS", "REPORTED"]
    show(as_json, [asdict(node) for node in found], header, rows)


def _reported(node: Node) -> str:
    """What the batch system says of it; of a node that is down, with its note."""
    report = node.reported or ""
    if node.down_since_s is not None:
        return f"{report}: failed, down since {_time(node.down_since_s)}"
    return f"{report}: {node.note}" if node.state == "DOWN" and node.note else report


@cli.command("node")
@asks_service
@click.argument("name")
@click.argument("verb", type=click.Choice(["set"]))
@click.argument("state", type=click.Choice(["quarantined", "on-demand", "batch", "held"]))
@click.option("--reason", required=True, help="Reason, for the log and beside a quarantined node.")
@click.option("--yes", is_flag=True, help="Do it; without it nothing is changed.")
def node(url: str, as_json: bool, name: str, verb: str, state: str, reason: str, yes: bool) -> None:  # noqa: ARG001, PLR0917
    """Override which pool owns NAME (emergency use). Operators only; first shows what it would do.

    quarantined (held is its old name): nobody's, from whatever state it is in; it carries our mark, so that batch
    starts no job there. batch: its grant ends and its mark is taken off, batch may start jobs there at once: look
    first that nothing runs there. on-demand: a quarantined node is allocated again, as it was.
    """
    with service_at(url) as balancer:
        found = balancer.node(name)
        if state == "batch" and found.state != "QUARANTINED" and found.pool == "batch":
            fail(f"{name} is {found.state}: it is batch's already")
        if state == "on-demand" and found.state != "QUARANTINED":
            fail(f"{name} is {found.state}: only a quarantined node can be on-demand's; quarantine it first")
        if yes:
            if found.state != "QUARANTINED" or state in ("quarantined", "held"):
                balancer.quarantine_nodes([name], reason)
            if state in ("on-demand", "batch"):
                _adopt(balancer, name, state, reason)
            found = balancer.node(name)
    whom = f", for {found.request_id}" if found.request_id else ""
    rows = [[name, found.state + whom, found.reported or "", state if yes else f"{state}, with --yes"]]
    show(as_json, asdict(found), ["NODE", "STATE", "REPORTED", "SET"], rows)


def _adopt(balancer: Balancer, name: str, state: str, reason: str) -> None:
    """The second half of `node set`; what goes wrong says what the first half has left."""
    from balancer.client import BalancerError

    try:
        balancer.adopt_nodes([name], state, reason=reason)
    except BalancerError as error:
        error.add_note(
            f"{name} is quarantined now; give the command again, or `node {name} set` another pool"
        )
        raise


@cli.command("requests")
@asks_service
@click.option("--state", type=click.Choice(["waiting", "granted", "rejected", "withdrawn"]))
@click.option("--mine", is_flag=True, help="Only the caller's own.")
@click.option("--overdue", is_flag=True, help="Only grants that are past their end and still have nodes.")
@click.option("--limit", default=30, show_default=True, type=click.IntRange(1, 1000))
def requests(url: str, as_json: bool, state: str | None, mine: bool, overdue: bool, limit: int) -> None:  # noqa: PLR0917
    """List requests, newest first."""
    with service_at(url) as balancer:
        found = balancer.requests(state=state, owner="me" if mine else None, overdue=overdue, limit=limit)
    _show_requests(as_json, found, [asdict(request) for request in found])


@cli.command("events")
@asks_service
@click.option("--after", default=0, help="Number of the last event that is known already.")
@click.option("--limit", default=1000, type=click.IntRange(min=1), help="At most so many.")
@click.option("--last", type=click.IntRange(min=1), help="The newest so many.")
def events(url: str, as_json: bool, after: int, limit: int, last: int | None) -> None:
    """List events, oldest first."""
    from itertools import islice

    if last is not None:
        refuse({"after", "limit"}, "--last says which")
    with service_at(url) as balancer:
        if last is not None:
            after, limit = max(0, balancer.status()["newest_event"] - last), last
        found = list(islice(balancer.events(after=after), limit))
    rows = [[str(e.seq), _time(e.at_s), e.kind, json.dumps(e.body)[:120]] for e in found]
    show(as_json, [asdict(event) for event in found], ["NUMBER", "TIME", "EVENT", "DETAIL"], rows)


@cli.command("request")
@asks_service
@click.argument("count", type=click.IntRange(min=1))
@click.option("--wait-s", type=SECONDS, help="How long to wait. [default: the service's W]")
@click.option("--lease-s", type=SECONDS, help="Length of the lease; it ends unless renewed.")
@click.option(
    "--candidate", "candidates", metavar="NODES", multiple=True, help="Only these nodes. Repeatable."
)
@click.option("--exclude", metavar="NODES", multiple=True, help="Not these nodes. Repeatable.")
@click.option(
    "--replace", is_flag=True, help="A granted node that fails is replaced, by a request of its own."
)
@click.option("--async", "respond_async", is_flag=True, help="Do not wait for the decision, nor confirm it.")
@click.option("--patience-s", type=SECONDS, default=90.0, show_default=True,
              help="How long to try while the service does not answer.")  # fmt: skip
def request(url: str, as_json: bool, count: int, patience_s: float, **wishes: Any) -> None:
    """Get COUNT nodes for on-demand use. Interrupted, it leaves no request behind."""
    # Its other options are named like the parameters of the call.
    wishes["candidates"] = wishes["candidates"] or None
    _call_for_request(
        url, as_json, lambda balancer: balancer.request_nodes(count, **wishes), patience_s=patience_s
    )


def _call_for_request(
    url: str, as_json: bool, call: Callable[[Balancer], Request], *, patience_s: float = 1.0
) -> None:
    with service_at(url, patience_s=patience_s) as balancer:
        found = call(balancer)
    _show_requests(as_json, [found], asdict(found))


@cli.command("withdraw")
@asks_service
@click.argument("request_id", metavar="REQUEST|RESERVE")
def withdraw(url: str, as_json: bool, request_id: str) -> None:
    """Cancel a waiting REQUEST, or a RESERVE. A granted request keeps its nodes: release them."""
    if request_id.startswith("h"):
        with service_at(url) as balancer:
            ended = balancer.withdraw_reserve(request_id)
        _show_reserves(as_json, [ended], asdict(ended))
        return
    _call_for_request(url, as_json, lambda balancer: balancer.withdraw_request(request_id))


@cli.command("confirm")
@asks_service
@click.argument("request_id", metavar="REQUEST")
def confirm(url: str, as_json: bool, request_id: str) -> None:
    """Confirm that the nodes of REQUEST have arrived (`request` does so by itself)."""
    _call_for_request(url, as_json, lambda balancer: balancer.confirm_request(request_id))


@cli.command("renew")
@asks_service
@click.argument("request_id", metavar="REQUEST")
@click.option("--lease-s", type=SECONDS, help="Seconds from now. [default: as in the request]")
def renew(url: str, as_json: bool, request_id: str, lease_s: float | None) -> None:
    """Keep the nodes of REQUEST for longer."""
    _call_for_request(url, as_json, lambda balancer: balancer.renew_lease(request_id, lease_s))


@cli.command("release")
@asks_service
@click.argument("pattern", metavar="NODES...", nargs=-1, required=True)
def release(url: str, as_json: bool, pattern: Sequence[str]) -> None:
    """Give NODES (names or patterns like n[001-004]) back."""
    from balancer.nodelist import NodeListError, expand

    with one_line(NodeListError):
        names = expand(",".join(pattern))
    with service_at(url) as balancer:
        balancer.release_nodes(names)
    show(as_json, {"nodes": names}, ["RELEASED"], [[name] for name in names])


@cli.command("reserve")
@asks_service
@click.argument("count", type=click.IntRange(min=1), required=False)
@click.option("--nodes", type=click.IntRange(min=1), help="The same as COUNT.")
@click.option("--in-s", "notice_s", type=SECONDS, help="How far ahead; with --every: how long before"
              " each window its nodes are collected, 1800 if it is not given.")  # fmt: skip
@click.option("--every", metavar="WINDOWS", help="In each of these, e.g. 'Mon-Fri 20:00-06:00' or"
              " 'FREQ=MONTHLY;BYDAY=1MO 08:00-18:00' (RFC 5545).")  # fmt: skip
@click.option("--zone", help="Time zone of --every, e.g. Europe/Berlin.  [default: UTC]")
@click.option(
    "--except", "exceptions", metavar="DAY", multiple=True, help="A day without windows. Repeatable."
)
def reserve(  # noqa: PLR0917
    url: str,
    as_json: bool,
    count: int | None,
    nodes: int | None,
    notice_s: float | None,
    every: str | None,
    zone: str | None,
    exceptions: tuple[str, ...],
) -> None:
    """Reserve COUNT more nodes for a later time, or for recurring windows."""
    if (count is None) == (nodes is None):
        fail("say how many nodes, as COUNT or with --nodes")
    if every is None and (notice_s is None or zone or exceptions):
        fail("say when: --in-s, or --every (which --zone and --except go with)")
    with service_at(url) as balancer:
        made = balancer.add_reserve(
            count or nodes or 0, notice_s, every=every, zone=zone, exceptions=exceptions
        )
    _show_reserves(as_json, [made], asdict(made))


@cli.command("reserves")
@asks_service
def reserves(url: str, as_json: bool) -> None:
    """List reserves for a later time and recurring ones (with the next window)."""
    with service_at(url) as balancer:
        found = balancer.reserves()
    _show_reserves(as_json, found, [asdict(each) for each in found])


def _show_reserves(as_json: bool, found: Sequence[Reserve], shown: Any) -> None:
    rows = [
        [each.id, str(each.count), _time(each.by_s), _time(each.kept_until_s), _windows(each)]
        for each in found
    ]
    show(as_json, shown, ["RESERVE", "NODES", "BY", "KEPT UNTIL", "EVERY"], rows)


def _windows(reserve: Reserve) -> str:
    without = f", not on {' '.join(reserve.exceptions)}" if reserve.exceptions else ""
    return "" if reserve.every is None else f"{reserve.every} {reserve.zone}{without}"


def _show_requests(as_json: bool, found: Sequence[Request], shown: Any) -> None:
    rows = [
        [r.id, _standing(r), str(r.count), r.owner, _time(r.submitted_s), r.reason or " ".join(r.nodes)]
        for r in found
    ]
    show(as_json, shown, ["REQUEST", "STATE", "NODES", "OWNER", "SUBMITTED", "DETAIL"], rows)


def _standing(request: Request) -> str:
    """Its state; of a grant, what there is to know about it."""
    if request.state != "granted":
        return request.state
    if request.ended_s is not None:
        return "ended"
    if request.overdue:
        return "overdue"
    if request.down:
        return f"granted, {len(request.down)} down"
    return "granted" if request.confirmed else "provisional"


def _time(at_s: float) -> str:
    from balancer.clock import micros
    from balancer.timestamps import iso_s

    return iso_s(micros(at_s))


def _add_commands() -> None:
    from balancer.console.adopt import adopt
    from balancer.console.freeze import freeze, thaw
    from balancer.console.keys import hook_key, token
    from balancer.console.nova import nova
    from balancer.console.predictors import predict, predictor
    from balancer.console.usage import usage
    from balancer.site import check

    for command in (predict, predictor, check, adopt, freeze, thaw, token, hook_key, nova, usage):
        cli.add_command(command)


_add_commands()
