"""`balancer freeze` and `balancer thaw`: work on a file beside the ledger; the service sees it with its next plan."""

from __future__ import annotations

import getpass
import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from balancer.clock import utc_us
from balancer.console.keys import where
from balancer.console.places import NoServiceError, missing_ledger, service_config
from balancer.secret_files import AuthFileError
from balancer.service.freeze import Freeze, Order
from balancer.timestamps import iso

if TYPE_CHECKING:
    from collections.abc import Callable


_T = TypeVar("_T")


def _freeze(config: Path | None, db: str | None) -> Freeze:
    from balancer.config import ConfigError  # noqa: PLC0415 - `balancer --help` starts without it

    try:
        read = service_config(config, db)
    except (ConfigError, NoServiceError) as error:
        raise _bad(str(error)) from error
    found, missing = read.freeze(), missing_ledger(read)
    if found is None:
        raise _bad("freeze_file must be given in the configuration when the ledger is not a file")
    if missing is not None:
        raise _bad(
            f"there is no ledger {missing}: no service would see this order. Say which service is meant with "
            "--config FILE (its configuration) or --db FILE (its ledger)"
        )
    if read.freeze_file is not None and not read.freeze_file.is_absolute() and Path(read.db).is_absolute():
        raise _bad(
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


def _bad(text: str) -> SystemExit:
    click.echo(f"balancer: {text}", err=True)
    return SystemExit(2)


def _clearly(action: Callable[[], _T]) -> _T:
    try:
        return action()
    except AuthFileError as error:
        raise _bad(str(error)) from error


@click.command()
@where
@click.option("--reason", required=True, help="Reason, shown with every status of the service.")
def freeze(config: Path | None, db: str | None, reason: str) -> None:
    """Stop moving nodes until `balancer thaw`. The service still answers calls and grants from the reserve alone."""
    if not reason.strip():
        raise _bad("--reason: say why; it is shown wherever the service is looked at")
    order = Order(f"{_user()}@{socket.gethostname()}", reason, iso(utc_us()))
    found = _freeze(config, db)
    stands = _clearly(lambda: found.freeze(order))
    if stands is not None:
        raise _bad(
            f"frozen already, by {stands.by} {stands.at}: {stands.reason}. That order stands as it is; "
            "`balancer thaw` ends it"
        )
    click.echo(f"frozen, by {found.path.absolute()}: no node changes its pool until `balancer thaw`")


@click.command()
@where
def thaw(config: Path | None, db: str | None) -> None:
    """Let nodes move again."""
    found = _freeze(config, db)
    if not _clearly(found.thaw):
        raise _bad(f"nothing is frozen: there is no {found.path.absolute()}")
    click.echo("nodes move again, within reconcile_period_s at the latest")
