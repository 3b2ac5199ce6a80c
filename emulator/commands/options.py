"""Options that several commands have."""

from __future__ import annotations

import click


def _use_files(context: click.Context, _: click.Parameter, given: tuple[str, ...]) -> None:
    if given:
        from balancer.plugin_files import use_files  # noqa: PLC0415 - only then
        from emulator.commands.run import InputError  # noqa: PLC0415
        from emulator.plugins import KINDS  # noqa: PLC0415

        try:
            use_files(context, given, KINDS)
        except ValueError as error:
            raise InputError(f"--plugin: {error}") from error


plugin_option = click.option(
    "--plugin", metavar="FILE.py:NAME", multiple=True, expose_value=False, is_eager=True, callback=_use_files,
    help="A plug-in from a file of your own (docs/plugins.md). Repeatable.",
)  # fmt: skip
"""From here to its end the command, and every scenario that it makes, knows the plug-in."""
