"""`balancer freeze` and `balancer thaw`: work on a file beside the ledger; the service sees it with its next plan."""

from __future__ import annotations

import getpass
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import click

from balancer.auth.console import where
from balancer.auth.files import AuthFileError
from balancer.clock import utc_us
from balancer.freeze import Freeze, Order
from balancer.timestamps import iso

if TYPE_CHECKING:
    from collections.abc import Callable


def _freeze(config: Path | None, db: str | None) -> Freeze:
    from balancer.config import ConfigError, read_config  # noqa: PLC0415 - only with --config

    if config is None:
        return Freeze(Path((db or "balancer.db") + ".frozen"))
    try:
        found = read_config(config, {"db": db}).freeze()
    except ConfigError as error:
        raise _bad(str(error)) from error
    if found is None:
        raise _bad("freeze_file must be given in the configuration when the ledger is not a file")
    return found


def _bad(text: str) -> SystemExit:
    click.echo(f"balancer: {text}", err=True)
    return SystemExit(2)


def _clearly(action: Callable[[], bool | None]) -> bool | None:
    try:
        return action()
    except AuthFileError as error:
        raise _bad(str(error)) from error


@click.command()
@where
@click.option("--reason", required=True, help="Why; shown wherever the service is looked at.")
def freeze(config: Path | None, db: str | None, reason: str) -> None:
    """Move no node until `balancer thaw`: calls are answered, grants come from the reserve alone."""
    order = Order(f"{getpass.getuser()}@{socket.gethostname()}", reason, iso(utc_us()))
    _clearly(lambda: _freeze(config, db).freeze(order))
    click.echo("frozen: no node changes its pool until `balancer thaw`")


@click.command()
@where
def thaw(config: Path | None, db: str | None) -> None:
    """Let nodes move again."""
    if not _clearly(lambda: _freeze(config, db).thaw()):
        raise _bad("nothing is frozen")
    click.echo("nodes move again, within reconcile_period_s at the latest")
