"""`balancer usage`: requests granted and rejected, and node-hours lent, as the dashboard counts them."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from balancer.clock import micros, seconds
from balancer.console_kit import asks_service, fail, service_at, show
from balancer.timestamps import iso_s, parse_iso

if TYPE_CHECKING:
    from balancer.client_records import Usage

_HEADER = "PERIOD FROM REQUESTS GRANTED REJECTED NODES_GRANTED NODES_REJECTED LENT_NODE_H"


@click.command()
@asks_service
@click.option("--start", metavar="TIME", help="From here on instead (ISO 8601, at most 35 days back).")
@click.option("--end", metavar="TIME", help="With --start: up to here.  [default: now]")
def usage(url: str, as_json: bool, start: str | None, end: str | None) -> None:
    """Show requests granted and rejected, and node-hours lent, today and this week.

    Days begin at midnight here and weeks on Monday, by the service's clock. Requests count where they arrived.
    """
    if end and not start:
        fail("--end goes with --start: say from when on")
    until_s = _seconds("--end", end) if end else None
    with service_at(url) as balancer:
        now_s = seconds(parse_iso(balancer.status()["now"]))
        starts_s = {"chosen": _seconds("--start", start)} if start else begins(now_s)
        found = {
            period: balancer.usage(start_s=max(0.0, start_s), end_s=until_s)
            for period, start_s in starts_s.items()
        }
    rows = [_row(period, each) for period, each in found.items()]
    show(as_json, {period: asdict(each) for period, each in found.items()}, _HEADER.split(), rows)


def begins(now_s: float) -> dict[str, float]:
    """When the day and the week (Monday) that hold `now_s` began, by local clocks."""
    midnight = (
        datetime.fromtimestamp(now_s, UTC).astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    )
    # From the calendar's day: a week in which clocks change does not have seven times 24 hours.
    naive = midnight.replace(tzinfo=None)
    monday = naive - timedelta(days=naive.weekday())
    return {"today": naive.timestamp(), "week": monday.timestamp()}


def _row(period: str, each: Usage) -> list[str]:
    lent = f"{each.lent_node_h:.1f}"
    if each.lent_since_s > each.start_s:
        lent += f" (known since {_time(each.lent_since_s)})"
    counts = (each.requests, each.granted, each.rejected, each.nodes_granted, each.nodes_rejected)
    return [period, _time(each.start_s), *map(str, counts), lent]


def _time(at_s: float) -> str:
    return iso_s(micros(at_s))


def _seconds(option: str, text: str) -> float:
    try:
        return seconds(parse_iso(text))
    except (ValueError, OverflowError):
        fail(f"{option} {text!r} is not an ISO 8601 time, e.g. 2026-03-01T00:00:00Z")
