"""What commands that talk to a Docker engine have in common."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from emulator.report.terminal import RunError

if TYPE_CHECKING:
    from collections.abc import Callable


def report_engine_errors(act: Callable[[], int | None]) -> None:
    """Do it; what cannot be done is one clear line."""
    import docker.errors  # noqa: PLC0415 - slow imports only when they are needed
    import requests  # noqa: PLC0415

    from emulator.live.containers.docker_engine import FleetError  # noqa: PLC0415

    try:
        status = act()
    except FleetError as error:
        raise RunError(str(error)) from error
    except (docker.errors.DockerException, requests.RequestException) as error:
        raise RunError(f"the Docker engine: {error}") from error
    sys.exit(status or 0)


def say(text: str) -> None:
    click.echo(f"emulator: {text}", err=True)
