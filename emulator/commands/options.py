"""Options that several commands have."""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import TYPE_CHECKING, get_args

import click

from balancer.console_kit import given_options, left_out

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence


def _use_files(context: click.Context, _: click.Parameter, texts: tuple[str, ...]) -> None:
    if texts:
        from balancer.plugin_files import use_files  # noqa: PLC0415 - only then
        from emulator.plugins import KINDS  # noqa: PLC0415
        from emulator.report.terminal import InputError  # noqa: PLC0415

        try:
            use_files(context, texts, KINDS)
        except ValueError as error:
            raise InputError(f"--plugin: {error}") from error


plugin_option = click.option(
    "--plugin", metavar="FILE.py:NAME", multiple=True, expose_value=False, is_eager=True, callback=_use_files,
    help="A plug-in from a file of your own (docs/plugins.md). Repeatable.",
)  # fmt: skip
"""From here to its end the command, and every scenario that it makes, knows the plug-in."""


def _name_column(context: click.Context, _: click.Parameter, name: str | None) -> None:
    if name is not None:
        from emulator.workload.usage_columns import USAGE_COLUMN, NamedColumn  # noqa: PLC0415 - only then

        column = NamedColumn(name.strip().lower())
        token = USAGE_COLUMN.set(column)

        def end() -> None:
            USAGE_COLUMN.reset(token)
            is_error = isinstance(sys.exc_info()[1], click.ClickException)  # which says enough
            if not column.is_used and not is_error:
                click.echo(
                    f"emulator: --usage-column {name}: no table over time was read, so it was not used",
                    err=True,
                )

        context.call_on_close(end)


def _name_zone(context: click.Context, _: click.Parameter, name: str | None) -> None:
    from emulator.workload.local_times import in_zone  # noqa: PLC0415 - only then

    if name is None:
        return
    try:
        zone = context.with_resource(in_zone(name))
    except ValueError as error:
        from emulator.report.terminal import InputError  # noqa: PLC0415

        raise InputError(f"--time-zone: {error}") from error

    def end() -> None:
        is_error = isinstance(sys.exc_info()[1], click.ClickException)  # which says enough
        if zone is not None and not zone.is_used and not is_error:
            click.echo(
                f"emulator: --time-zone {name}: all times say when they were, so it was not used", err=True
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


def refuse_others(used: Container[str], why: str) -> None:
    """Raise InputError that names the options of this command line whose parameters are not among those used."""
    _refuse([option for name, option in given_options().items() if name not in used], why)


def refuse(unused: Container[str], why: str) -> None:
    """Raise InputError that names the options of this command line whose parameters are among those not used."""
    _refuse([option for name, option in given_options().items() if name in unused], why)


def tell_unused(unused: Container[str], why: str) -> None:
    """Name the options of this command line whose parameters are among those not used; the command goes on."""
    if others := [option for name, option in given_options().items() if name in unused]:
        click.echo(f"emulator: {', '.join(others)}: {why}", err=True)


def _refuse(others: list[str], why: str) -> None:
    if others:
        from emulator.report.terminal import InputError  # noqa: PLC0415 - only then

        raise InputError(left_out(others, why))


def grouped(sections: Mapping[str, Sequence[str]]) -> type[click.Command]:
    """A class of command whose help has its options in these sections: title to names of parameters.

    What is in none (`--help`) comes last.
    """

    class Grouped(click.Command):
        def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
            options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
            open_ = {each.name: each.get_help_record(ctx) for each in options}
            for title, names in sections.items():
                _section(formatter, title, [open_.pop(name) for name in names])
            _section(formatter, "Other options", list(open_.values()))

    return Grouped


def _section(formatter: click.HelpFormatter, title: str, records: Sequence[tuple[str, str] | None]) -> None:
    found = [record for record in records if record is not None]
    if found:
        with formatter.section(title):
            formatter.write_dl(found)


def schedulers(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """For the shell's completion: queue orders and schedulers, and behind `ORDER+` the backfill rules."""
    from emulator.plugins import plugin_names  # noqa: PLC0415 - only there
    from emulator.schedulers.config import Backfill  # noqa: PLC0415

    order, plus, _rest = begun.rpartition("+")
    names = [name for group in ("queue_orders", "schedulers") for name in plugin_names(f"emulator.{group}")]
    if plus:
        rules = (*get_args(Backfill), *plugin_names("emulator.backfills"))
        names = [f"{order}+{name}" for name in rules]
    return sorted({name for name in names if name.startswith(begun)})


USUAL_FIGURES = (
    "mean_wait_s", "median_wait_s", "p95_wait_s", "max_wait_s", "mean_response_s", "mean_bounded_slowdown",
    "utilization", "requeues", "ondemand_granted", "ondemand_rejected", "reserve_idle_node_h",
)  # fmt: skip
"""Of all that a sweep's rows have (docs/results.md): those that most people rank by."""


def figures(context: click.Context, _: click.Parameter, begun: str) -> list[str]:
    """For the shell's completion of `--rank`: numbers of the results in --out, or the newest; else the usual ones."""
    out = context.params.get("out")
    tables = [*Path(out or "sweeps").glob("results.csv" if out else "*/results.csv")]
    row = dict.fromkeys(USUAL_FIGURES, "0")
    if tables:
        newest = max(tables, key=lambda path: path.stat().st_mtime_ns)
        with newest.open(newline="", encoding="utf-8") as file:
            row = next(csv.DictReader(file), {})
    return sorted(name for name, value in row.items() if name.startswith(begun) and _is_number(value))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def kinds_of_plugins(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
    """For the shell's completion: the kinds of plug-ins, as `emulator plugins` calls them."""
    from balancer.plugins import noun  # noqa: PLC0415 - only there
    from emulator.plugins import KINDS  # noqa: PLC0415

    return sorted(kind for group in KINDS if (kind := noun(group).replace(" ", "_")).startswith(begun))


def changes(context: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    """For the shell's completion of `--set`: keys of a scenario, and the names that some of them take."""
    from emulator.plugins import plugin_names  # noqa: PLC0415 - only there
    from emulator.runs.scenario import Scenario  # noqa: PLC0415

    key, equals, value = begun.partition("=")
    if not equals:
        return sorted(f"{name}=" for name in Scenario.model_fields if name.startswith(key))
    if key == "scheduler":
        return [f"{key}={name}" for name in schedulers(context, parameter, value)]
    if key == "mechanism":
        names = plugin_names("emulator.mechanisms")
        return [f"{key}={name}" for name in names if name.startswith(value)]
    return []
