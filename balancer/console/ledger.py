"""`balancer ledger`: look at a ledger itself, also while a service uses it."""

from __future__ import annotations

import json
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from balancer.console_kit import URL, one_line, printable, service_at
from balancer.ledger.backup import back_up, restore
from balancer.ledger.errors import LedgerError
from balancer.ledger.reader import Reader, open_to_read
from balancer.ledger.replay import Replay
from balancer.ledger.verify import verify as examine
from balancer.nodelist import NodeListError, expand
from balancer.timestamps import iso_s

if TYPE_CHECKING:
    from collections.abc import Iterator

    from balancer.lifecycle.records import NodeRecord


@click.group()
def ledger() -> None:
    """Check, back up and restore a ledger, replay its log, show a node's history, settle doubts."""


_db = click.option(
    "--db", default="balancer.db", show_default=True, help="The ledger: a file or a PostgreSQL URL."
)


_clearly = one_line(LedgerError, NodeListError)


@contextmanager
def _opened(db: str) -> Iterator[Reader]:
    with one_line(LedgerError), closing(open_to_read(db)) as reader:
        yield reader


@ledger.command()
@_db
def verify(db: str) -> None:
    """Verify that it is what was written: pages, rows, the chain of events, the state; exit status 1 if it is not."""
    with _opened(db) as reader:
        found, summary = examine(reader)
    if found:
        click.echo("\n".join(found))
        raise SystemExit(1)
    click.echo(f"ok: {summary}")


@ledger.command("replay")
@_db
@click.option("--to", type=click.IntRange(min=0), help="Number of an event; else the newest.")
def show_state(db: str, to: int | None) -> None:
    """Print the state after an event as JSON, from the log alone."""
    with _opened(db) as reader:
        base = reader.base()
        if to is not None and to < base.seq:
            raise LedgerError(f"the log begins after event {base.seq}: the state at {to} is gone")
        state = Replay(base)
        for event in reader.log(base.seq, to):
            state.apply(event)
        if to is not None and state.seq < to:
            raise LedgerError(f"there is no event {to} yet: {state.seq} is the newest")
    click.echo(json.dumps({"seq": state.seq, **asdict(state.base().snapshot)}))


_WIDTHS = (8, 20, 5, 16, 12, 0)


@ledger.command()
@_db
@click.option("--limit", default=1000, show_default=True, type=click.IntRange(min=1), help="The latest.")
@click.argument("node")
def story(db: str, node: str, limit: int) -> None:
    """What happened to NODE: every event that changed it, oldest first."""
    rows: list[tuple[str, ...]] = []
    with _opened(db) as reader:
        base = reader.base()
        before = next((record for record in base.snapshot.nodes if record.name == node), None)
        for event in reader.log(base.seq, touching=f'["{node}",'):
            for record in event.changes.nodes:
                if record.name == node:
                    when = str(event.seq), iso_s(event.at_us), str(event.epoch)
                    rows.append((*when, event.kind, event.event_id, _change(before, record)))
                    before = record
        if before is None:
            raise LedgerError(f"no event in this ledger names node {node}")
    for row in [("NUMBER", "TIME", "EPOCH", "EVENT", "CAUSE", "CHANGE"), *rows[-limit:]]:
        click.echo(
            "  ".join(printable(cell).ljust(width) for cell, width in zip(row, _WIDTHS, strict=True)).rstrip()
        )


def _change(before: NodeRecord | None, now: NodeRecord) -> str:
    text = str(now.state) if before is None or before.state is now.state else f"{before.state} -> {now.state}"
    if now.reserved_for is not None:
        text += f", for {now.reserved_for}"
    if now.jobs:
        text += f", runs {' '.join(now.jobs)}"
    return f"{text} (generation {now.generation})"


@ledger.command()
@_db
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@_clearly
def backup(db: str, file: Path) -> None:
    """Copy the ledger to FILE, also while a service uses it, and verify the copy."""
    click.echo(f"{file}: {back_up(db, file)}")


@ledger.command("restore")
@_db
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, exists=True))
@_clearly
def put_back(db: str, file: Path) -> None:
    """Put the backup FILE in the ledger's place; the service must be stopped."""
    summary, writer, replaced = restore(db, file)
    click.echo(f"{db}: {summary}")
    if replaced is not None:
        click.echo(f"what was there is {replaced} now")
    click.echo(
        f"the next start compares it with the marks on the nodes: what was lent at event {writer.seq}, or has a newer "
        "mark, is quarantined until the cloud or `balancer ledger adopt` says whose it is"
    )


@ledger.command()
@click.option("--to", type=click.Choice(["on-demand", "batch"]), help="Whose they are.")
@click.option("--yes", is_flag=True, help="Do it; without it nothing is changed.")
@URL
@click.argument("pattern", metavar="[NODES...]", nargs=-1)
@_clearly
def adopt(to: str | None, yes: bool, url: str, pattern: tuple[str, ...]) -> None:
    """Give quarantined NODES (names or patterns; all, unless named) to a pool. First shows what it would do.

    on-demand: allocated, as they were. batch: their mark is taken off, and batch may start jobs there at once: look
    first that nothing of on-demand's runs there.
    """
    with service_at(url) as balancer:
        quarantined = {node.name: node for node in balancer.nodes() if node.state == "QUARANTINED"}
        names = expand(",".join(pattern)) if pattern else list(quarantined)
        not_quarantined = [name for name in names if name not in quarantined]
        if not_quarantined:
            raise LedgerError(
                f"not quarantined: {', '.join(not_quarantined[:10])}; without names this lists those that are"
            )
        for name in names:
            node = quarantined[name]
            then = {"on-demand": "OD_ALLOC", "batch": "given back", None: "stays QUARANTINED"}[to]
            whom = f", was granted to {node.request_id}" if node.request_id else ""
            click.echo(
                printable(f"{name}  reads {node.reported or 'nothing'}{whom}; {node.doubt}  ->  {then}")
            )
        if not names:
            click.echo("no node is quarantined")
        elif to is None or not yes:
            click.echo("nothing is changed: say --to on-demand or --to batch, and --yes")
        else:
            balancer.adopt_nodes(names, to)
            click.echo(f"{len(names)} nodes are {to}'s now")
