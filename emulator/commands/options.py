"""Options that several commands have."""

from __future__ import annotations

import sys

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


def _name_column(context: click.Context, _: click.Parameter, given: str | None) -> None:
    if given is not None:
        from emulator.workload.usage_columns import USAGE_COLUMN, NamedColumn  # noqa: PLC0415 - only then

        column = NamedColumn(given.strip().lower())
        token = USAGE_COLUMN.set(column)

        def end() -> None:
            USAGE_COLUMN.reset(token)
            is_error = isinstance(sys.exc_info()[1], click.ClickException)  # which says enough
            if not column.is_used and not is_error:
                click.echo(
                    f"emulator: --usage-column {given}: no table over time was read, so it was not used",
                    err=True,
                )

        context.call_on_close(end)


def _name_zone(context: click.Context, _: click.Parameter, given: str | None) -> None:
    from emulator.workload.local_times import in_zone  # noqa: PLC0415 - only then

    if given is None:
        return
    try:
        zone = context.with_resource(in_zone(given))
    except ValueError as error:
        from emulator.commands.run import InputError  # noqa: PLC0415

        raise InputError(f"--time-zone: {error}") from error

    def end() -> None:
        is_error = isinstance(sys.exc_info()[1], click.ClickException)  # which says enough
        if zone is not None and not zone.is_used and not is_error:
            click.echo(
                f"emulator: --time-zone {given}: all times say when they were, so it was not used", err=True
            )

    context.call_on_close(end)


zone_option = click.option(
    "--time-zone", metavar="ZONE", expose_value=False, is_eager=True, callback=_name_zone,
    help="Whose clock wrote times that say no offset from UTC, such as Europe/Berlin. [default: UTC]",
)  # fmt: skip
"""For commands that read logs."""
usage_option = click.option(
    "--usage-column", metavar="NAME", expose_value=False, is_eager=True, callback=_name_column,
    help="Of a table over time: the column that counts nodes, servers or cores in use.",
)  # fmt: skip
"""For commands that read logs: which column of a series is usage, where its name and unit do not say so."""
