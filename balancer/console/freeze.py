"""`balancer freeze` and `balancer thaw`: work on a file beside the ledger; the service sees it with its next plan."""

from __future__ import annotations

import getpass
import os
import socket
from pathlib import Path

import click

from balancer.clock import utc_us
from balancer.console.keys import where
from balancer.console.places import missing_ledger, service_config
from balancer.console_kit import fail, one_line
from balancer.secret_files import AuthFileError
from balancer.service.freeze import Freeze, Order
from balancer.timestamps import iso

_clearly = one_line(AuthFileError, ValueError)


def _freeze(config: Path | None, db: str | None) -> Freeze:
    read = service_config(config, db)
    found, missing = read.freeze(), missing_ledger(read)
    if found is None:
        fail("freeze_file must be given in the configuration when the ledger is not a file")
    if missing is not None:
        fail(
            f"there is no ledger {missing}: no service would see this order. Say which service is meant with "
            "--config FILE (its configuration) or --db FILE (its ledger)"
        )
    if read.freeze_file is not None and not read.freeze_file.is_absolute() and Path(read.db).is_absolute():
        fail(
            f"freeze_file: {read.freeze_file} depends on the folder in which the service was started: give its whole "
            "path in the configuration"
        )
    return found


def _user() -> str:
    """Who asks; a user without an entry in passwd, as in a container, by number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


@click.command()
@where
@click.option("--reason", required=True, help="Reason, shown with every status of the service.")
@_clearly
def freeze(config: Path | None, db: str | None, reason: str) -> None:
    """Stop moving nodes until `balancer thaw`. The service still answers calls and grants from the reserve alone."""
    if not reason.strip():
        fail("--reason: say why; it is shown wherever the service is looked at")
    order = Order(f"{_user()}@{socket.gethostname()}", reason, iso(utc_us()))
    found = _freeze(config, db)
    stands = found.freeze(order)
    if stands is not None:
        fail(
            f"frozen already, by {stands.by} {stands.at}: {stands.reason}. That order stands as it is; "
            "`balancer thaw` ends it"
        )
    click.echo(f"frozen, by {found.path.absolute()}: no node changes its pool until `balancer thaw`")


@click.command()
@where
@_clearly
def thaw(config: Path | None, db: str | None) -> None:
    """Let nodes move again."""
    found = _freeze(config, db)
    if not found.thaw():
        fail(f"nothing is frozen: there is no {found.path.absolute()}")
    click.echo("nodes move again, within reconcile_period_s at the latest")
