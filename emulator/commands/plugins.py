"""`emulator mechanisms` and `emulator schedulers`: what there is, with parameters and defaults."""

from __future__ import annotations

import dataclasses
import inspect
import json
from importlib.metadata import entry_points
from typing import Any, get_args, get_type_hints

import click
from rich.console import Console
from rich.table import Table


def _parameters(plugin: type) -> dict[str, Any]:
    """Name and default of each field that a scenario may set; required ones have `...`."""
    return {
        field.name: _default(field)
        for field in dataclasses.fields(plugin)
        if field.init and not field.name.startswith("_")
    }


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return "..." if field.default is dataclasses.MISSING else field.default


def _text(values: dict[str, Any]) -> str:
    return "\n".join(f"{name}: {json.dumps(value)}" for name, value in values.items())


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def mechanisms(as_json: bool) -> None:
    """List the mechanisms that are installed, with their parameters and defaults.

    In a scenario: `mechanism: {NAME: {PARAMETER: VALUE}}`.
    """
    found: dict[str, dict[str, Any]] = {}
    for entry in sorted(entry_points(group="emulator.mechanisms"), key=lambda entry: entry.name):
        plugin = entry.load()
        about = (inspect.getdoc(plugin) or "").strip()
        found[entry.name] = {"about": about, "parameters": _parameters(plugin)}
    if as_json:
        click.echo(json.dumps(found, indent=2))
        return
    console = Console()
    for name, one in found.items():
        console.print(f"[bold]{name}[/bold]")
        console.print(one["about"], markup=False)
        console.print(_text(one["parameters"]), markup=False)


def _order(order: Any) -> dict[str, Any]:
    """What a queue order serves first, when it is asked, and its parameters."""
    is_class = isinstance(order, type)
    return {
        "about": (inspect.getdoc(order) or "").split("\n")[0],
        "asked": "at each pass" if hasattr(order, "score") or hasattr(order, "priority") else "once",
        "parameters": _parameters(order) if is_class else {},
    }


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print as JSON.")
def schedulers(as_json: bool) -> None:
    """List queue orders, kinds of backfilling and the options of the scheduler.

    Short form: ORDER[+BACKFILL[+CHOICE]], for example fcfs+easy or sjf+easy+best_fit. In a scenario also
    `scheduler: {order: {ORDER: {PARAMETER: VALUE}}, backfill: easy, OPTION: VALUE}`. What each means:
    docs/schedulers.md.
    """
    from emulator.schedulers.config import SchedulerConfig  # noqa: PLC0415 - only here

    orders = {
        entry.name: _order(entry.load())
        for entry in sorted(entry_points(group="emulator.queue_orders"), key=lambda entry: entry.name)
    }
    hints = get_type_hints(SchedulerConfig)
    options = {
        field.name.rstrip("_"): {
            "values": list(get_args(hints[field.name])) if hints[field.name] is not bool else [True, False],
            "default": {} if field.default is dataclasses.MISSING else field.default,
        }
        for field in dataclasses.fields(SchedulerConfig)
        if field.name not in {"order", "priorities"}
    }
    if as_json:
        click.echo(json.dumps({"orders": orders, "options": options}, indent=2))
        return
    console = Console()
    table = Table("order", "serves first", "asked", "parameters", title="Queue orders", title_justify="left")
    for name, order in orders.items():
        table.add_row(name, order["about"], order["asked"], _text(order["parameters"]))
    console.print(table)
    table = Table("option", "values (default first)", title="Options", title_justify="left")
    for name, one in options.items():
        values = [one["default"], *(value for value in one["values"] if value != one["default"])]
        table.add_row(name, ", ".join(json.dumps(value) for value in values))
    table.add_row("priorities", "queue number: priority, for order priority")
    console.print(table)
