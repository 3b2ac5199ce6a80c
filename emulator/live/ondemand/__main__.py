"""`python -m emulator.live.ondemand --config FILE`: run an on-demand manager until SIGTERM."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from emulator.live.config_option import config_option
from emulator.live.ondemand.config import OndemandConfig
from emulator.live.ondemand.server import OndemandServer
from emulator.live.process import stop_on_signal, write_ready
from emulator.live.settings import SettingsError, load_settings

if TYPE_CHECKING:
    from pathlib import Path


@click.command()
@config_option
def main(config_file: Path) -> None:
    """Serve Keystone, Nova, Glance, Placement and an empty Neutron; one whole node a server."""
    try:
        config = load_settings(config_file, OndemandConfig)
        server = OndemandServer(config)
    except (SettingsError, OSError, ValueError) as error:
        click.echo(f"error: {error}", err=True)
        raise SystemExit(2) from error
    stop_on_signal(server.stop)
    write_ready(config.ready_file, url=server.url)
    click.echo(f"on-demand manager at {server.auth_url}")
    server.serve()
    for left in server.close():
        click.echo(f"not done: {left}", err=True)


if __name__ == "__main__":
    main()
