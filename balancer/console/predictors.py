"""`balancer predict` and `balancer predictor`. What only one command needs is imported there."""
# ruff: noqa: PLC0415

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from balancer.console_kit import (
    ITEM,
    PLUGIN,
    SECONDS,
    SERVICE_URL,
    asks_service,
    fail,
    given_options,
    list_plugins,
    one_line,
    refuse,
    show,
)


@click.command("predict")
@asks_service
@PLUGIN
@click.option("--predictor", type=ITEM, default="peak", show_default=True,
              help="NAME, or '{NAME: {PARAMETER: VALUE}}' (see `balancer predictor list`).")  # fmt: skip
@click.option("--set", "changes", metavar="NAME=VALUE", multiple=True, help="A parameter of it. Repeatable.")
@click.option("--slots-per-day", type=int, default=4, show_default=True)
@click.option("--keep", type=click.Choice(["slot", "hold"]), default="slot", show_default=True,
              help="Keep the nodes to the end of the slot, or for the service's I.")  # fmt: skip
@click.option("--once", is_flag=True, help="One step for the present slot, then end.")
@click.option("--dry-run", is_flag=True, help="With --once: only say what would be reserved.")
@click.option("--before", type=click.Path(path_type=Path), metavar="FILE",
              help="Earlier slots that the service cannot know: JSON or CSV, as for `predictor backtest`.")  # fmt: skip
@click.option(
    "--until-s", type=SECONDS, help="Begin no slot after this time (seconds of the service's clock)."
)
@click.option("--ready-file", type=click.Path(path_type=Path), help="Write the last step here, as JSON.")
@click.option("--clock", type=ITEM, default="wall", show_default=True, help="The service's clock.")
def predict(once: bool, dry_run: bool, **options: Any) -> None:
    """Reserve nodes for each slot as a predictor of demand says (until SIGTERM)."""
    from balancer.predictors.console import run_predictor

    if dry_run and not once:
        fail("--dry-run goes with --once")
    if once:
        refuse({"until_s"}, "--once is one step")
    with one_line(ValueError):
        run_predictor(once=once, dry_run=dry_run, **options)


@click.group()
def predictor() -> None:
    """Look at predictors and try them on history."""


@predictor.command("list")
@PLUGIN
@click.option("--json", "as_json", is_flag=True)
def list_predictors(as_json: bool) -> None:
    """List the predictors with their parameters."""
    from balancer.plugins import PREDICTORS

    list_plugins(PREDICTORS, as_json)


@predictor.command("backtest")
@PLUGIN
@click.argument("names", metavar="[PREDICTOR...]", nargs=-1)
@click.option("--url", envvar="BALANCER_URL", type=SERVICE_URL, help="Take the history of this service.")
@click.option("--history", type=click.Path(path_type=Path, dir_okay=False),
              help="Take it from a file: JSON as /v1/history answers, or CSV with nodes_requested.")  # fmt: skip
@click.option("--quantile", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.9,
              show_default=True, help="Of the pinball loss: how much worse a node short is than one idle.")  # fmt: skip
@click.option("--warmup-days", type=click.IntRange(min=0), default=28, show_default=True)
@click.option("--slots-per-day", type=int, default=4, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def backtest(
    names: tuple[str, ...], url: str | None, history: Path | None, as_json: bool, **options: Any
) -> None:
    """How predictors (all, unless named) would have done on past requests.

    Each slot is predicted from what was known when it began. The best is the one with the least pinball loss.
    --history goes before $BALANCER_URL.
    """
    from balancer.predictors.console import backtest_table

    if history is not None and "url" not in given_options():
        url = None  # that of the environment
    with one_line(ValueError):
        shown, header, rows = backtest_table(names, url, history, **options)
    show(as_json, shown, header, rows)
