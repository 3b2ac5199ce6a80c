"""`emulator plugins`, `emulator mechanisms` and `emulator schedulers`: what there is, with parameters and defaults."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, get_args, get_type_hints

import click
from rich.table import Table
from rich.text import Text

from balancer.plugins import about, listing, nearest, noun
from emulator.commands.options import kinds_of_plugins, plugin_option
from emulator.plugins import KINDS, find_plugin
from emulator.report.terminal import InputError, stdout_console


def _text(values: dict[str, Any]) -> str:
    return "\n".join(f"{name}: {_default(value)}" for name, value in values.items())


def _default(value: Any) -> str:
    return "(needed)" if value == "..." else json.dumps(value, default=str)


@click.command()
@plugin_option
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def mechanisms(as_json: bool) -> None:
    """List the mechanisms, with their parameters and defaults.

    In a scenario: `mechanism: {NAME: {PARAMETER: VALUE}}`.
    """
    group = "emulator.mechanisms"
    found = {
        name: entry | {"about": about(find_plugin(group, name))} for name, entry in listing(group).items()
    }
    if as_json:
        click.echo(json.dumps(found, indent=2, default=str))
        return
    console = stdout_console()
    for name, entry in found.items():
        console.print(f"[bold]{name}[/bold]")
        console.print(entry["about"], markup=False)
        console.print(_text(entry["parameters"]), markup=False)


def _moment(order: Any) -> str:
    """When a queue order is asked."""
    return "at each pass" if hasattr(order, "score") or hasattr(order, "priority") else "once"


@click.command()
@plugin_option
@click.argument("kind", required=False, shell_complete=kinds_of_plugins)
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def plugins(kind: str | None, as_json: bool) -> None:
    """List all plug-ins, or those of one KIND (such as transform): parameters with defaults, and what each does.

    A plug-in is named by NAME, or by {NAME: {PARAMETER: VALUE}} (docs/plugins.md).
    """
    words = {noun(group).replace(" ", "_"): group for group in KINDS}
    kind_word = None if kind is None else kind.replace(" ", "_").replace("-", "_")
    if kind_word is not None and kind_word not in words:
        raise InputError(f"there is no kind of plug-in {kind!r}{nearest(kind_word, words)}")
    found = {word: listing(group) for word, group in words.items() if kind_word in (None, word)}
    if as_json:
        click.echo(json.dumps(found, indent=2, default=str))
        return
    console = stdout_console()
    for word, ones in found.items():
        table = Table(word, "parameters and defaults", "what it does", title=f"{word}", title_justify="left")
        for name, entry in ones.items():
            table.add_row(name, Text(_text(entry["parameters"])), Text(entry["about"]))
        console.print(table)


@click.command()
@plugin_option
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def schedulers(as_json: bool) -> None:
    """List queue orders, kinds of backfilling and the options of the scheduler.

    Short form: ORDER[+BACKFILL[+CHOICE]], for example fcfs+easy or sjf+easy+best_fit. In a scenario also
    `scheduler: {order: {ORDER: {PARAMETER: VALUE}}, backfill: easy, OPTION: VALUE}`. What each means:
    docs/schedulers.md.
    """
    from emulator.schedulers.config import SchedulerConfig  # noqa: PLC0415 - only here

    orders = {
        name: {**entry, "asked": _moment(find_plugin("emulator.queue_orders", name))}
        for name, entry in listing("emulator.queue_orders").items()
    }
    hints = get_type_hints(SchedulerConfig)
    options = {
        field.name.rstrip("_"): {
            "values": list(get_args(hints[field.name])) if hints[field.name] is not bool else [True, False],
            "default": {} if field.default is dataclasses.MISSING else field.default,
        }
        for field in dataclasses.fields(SchedulerConfig)
        if field.name not in {"order", "priorities", "decide", "rule", "predict"}
    }
    if as_json:
        click.echo(json.dumps({"orders": orders, "options": options}, indent=2))
        return
    console = stdout_console()
    table = Table("order", "serves first", "asked", "parameters", title="Queue orders", title_justify="left")
    for name, order in orders.items():
        table.add_row(name, order["about"], order["asked"], _text(order["parameters"]))
    console.print(table)
    table = Table("option", "values (default first)", title="Options", title_justify="left")
    for name, entry in options.items():
        values = [entry["default"], *(value for value in entry["values"] if value != entry["default"])]
        table.add_row(name, ", ".join(json.dumps(value) for value in values))
    table.add_row("priorities", "queue number: priority, for order priority")
    console.print(table)
