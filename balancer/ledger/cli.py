"""`balancer ledger`: look at a ledger itself, also while a service uses it."""

from __future__ import annotations

import json
from contextlib import closing, contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from balancer.ledger.errors import LedgerError
from balancer.ledger.reading import open_to_read
from balancer.ledger.replay import Replay
from balancer.ledger.verify import verify as examine
from balancer.timestamps import iso

if TYPE_CHECKING:
    from collections.abc import Iterator

    from balancer.ledger.reading import Reader
    from balancer.lifecycle.records import NodeRecord


@click.group()
def ledger() -> None:
    """Check a ledger, replay its log, tell the story of a node. Reads only; works beside a running service."""


_db = click.option(
    "--db", default="balancer.db", show_default=True, help="The ledger: a file or a PostgreSQL URL."
)


@contextmanager
def _opened(db: str) -> Iterator[Reader]:
    """A ledger that cannot be read is one clear line and exit status 2."""
    try:
        with closing(open_to_read(db)) as reader:
            yield reader
    except LedgerError as error:
        click.echo(f"balancer: {error}", err=True)
        raise SystemExit(2) from error


@ledger.command()
@_db
def verify(db: str) -> None:
    """Whether it is what was written: pages, rows, the chain of events, the state; exit status 1 where it is not."""
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
                    when = str(event.seq), iso(event.at_us)[:19] + "Z", str(event.epoch)
                    rows.append((*when, event.kind, event.event_id, _change(before, record)))
                    before = record
        if before is None:
            raise LedgerError(f"no event in this ledger names node {node}")
    for row in [("NUMBER", "TIME", "EPOCH", "EVENT", "CAUSE", "CHANGE"), *rows[-limit:]]:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, _WIDTHS, strict=True)).rstrip())


def _change(before: NodeRecord | None, now: NodeRecord) -> str:
    text = str(now.state) if before is None or before.state is now.state else f"{before.state} -> {now.state}"
    if now.held_for is not None:
        text += f", for {now.held_for}"
    if now.jobs:
        text += f", runs {' '.join(now.jobs)}"
    return f"{text} (generation {now.generation})"
