"""The option that gives a process of the live fleet its configuration file.

Apart from `settings.py`, which node agents read too: their image has no click.
"""

from __future__ import annotations

from pathlib import Path

import click

config_option = click.option(
    "--config",
    "config_file",
    required=True,
    type=click.Path(path_type=Path),
    help="YAML file; see docs/live-ondemand.md.",
)
