"""What several commands of `balancer` have in common: options, the service to ask, tables, errors."""
# ruff: noqa: PLC0415 - what a command does not use it does not load

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from math import isnan
from typing import TYPE_CHECKING, Any, NoReturn

import click

from balancer.clock import LONGEST_S

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

    from balancer.client import Balancer

_NOT_OBTAINABLE, _USAGE, _NO_ANSWER = 1, 2, 3


class _Item(click.ParamType[Any]):
    """A plug-in as in a file: its name, or YAML with its parameters."""

    name = "plug-in"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        import yaml

        from balancer.yaml_text import read_yaml

        try:
            found = read_yaml(value) if isinstance(value, str) else value
        except yaml.YAMLError as error:
            self.fail(f"{value} is not YAML: {' '.join(str(error).split())}", param, ctx)

        if found is None:
            self.fail("no name is given", param, ctx)
        return found


class _Seconds(click.FloatRange):
    """A time that is a number, and whose end can be told."""

    def __init__(self, *, min_open: bool = False) -> None:
        super().__init__(0, LONGEST_S, min_open=min_open)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = float(super().convert(value, param, ctx))
        if isnan(found):
            self.fail(f"{value} is no number of seconds", param, ctx)
        return found


class _Url(click.ParamType[str]):
    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from urllib.parse import urlsplit

        try:
            parts = urlsplit(value)
            is_usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_usable = False
        if not is_usable:
            self.fail(f"{value!r} is no address of a service: write it like {_DEFAULT_URL}", param, ctx)
        return str(value)


ITEM = _Item()
SECONDS, SOME_SECONDS = _Seconds(), _Seconds(min_open=True)
"""Of options; the second is more than 0."""
SERVICE_URL = _Url()
_DEFAULT_URL = "http://127.0.0.1:8090"


def names_of(group: str) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """For the shell's completion: the installed plug-ins of a kind."""

    def complete(_: click.Context, __: click.Parameter, begun: str) -> list[str]:
        from balancer.plugins import plugin_names

        return [name for name in plugin_names(group) if name.startswith(begun)]

    return complete


def _use_files(context: click.Context, _: click.Parameter, files: tuple[str, ...]) -> None:
    if files:
        from balancer.plugin_files import use_files

        try:
            use_files(context, files)
        except ValueError as error:
            raise click.BadParameter(str(error)) from error


PLUGIN = click.option(
    "--plugin", metavar="FILE.py:NAME", multiple=True, expose_value=False, is_eager=True, callback=_use_files,
    help="A plug-in from a file of your own. Repeatable.",
)  # fmt: skip


def fail(text: str, status: int = _USAGE) -> NoReturn:
    """One clear text. Exit status 1: not obtainable; 2: a wrong call; 3: no (usable) answer."""
    click.echo("\n".join(map(printable, f"balancer: {text}".splitlines())), err=True)
    raise SystemExit(status)


@contextmanager
def one_line(*errors: type[Exception]) -> Iterator[None]:
    """What goes wrong in one of these ways is one clear line and exit status 2. Also around a whole command."""
    try:
        yield
    except errors as error:
        fail(str(error))


def file_error(error: OSError) -> str:
    """What went wrong with which file, and, where it is a right that is missing, what to do."""
    where = "" if error.filename is None else f"{error.filename}: "
    hint = "; run this as the service's user" if isinstance(error, PermissionError) else ""
    return f"{where}{error.strerror or error}{hint}"


def given_options() -> dict[str, str]:
    """The options of this command line: name of the parameter to how it is written."""
    context = click.get_current_context()
    return {
        each.name or "": each.opts[0]
        for each in context.command.params
        if isinstance(each, click.Option)
        and context.get_parameter_source(each.name or "") is click.core.ParameterSource.COMMANDLINE
    }


def left_out(options: Sequence[str], why: str) -> str:
    """What is said of options that are not used, and why."""
    return f"{', '.join(options)}: {why}; leave {'it' if len(options) == 1 else 'them'} out"


def refuse(unused: Container[str], why: str) -> None:
    """End with status 2 where options of this command line have no use, by their parameters."""
    if options := [option for name, option in given_options().items() if name in unused]:
        fail(left_out(options, why))


URL = click.option(
    "--url",
    envvar="BALANCER_URL",
    default=_DEFAULT_URL,
    type=SERVICE_URL,
    show_default=True,
    help="The service.",
)


def asks_service(function: Callable[..., None]) -> Callable[..., None]:
    """For the function of a command that asks the service: adds --url and --json."""
    return URL(click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function))


@contextmanager
def service_at(url: str, *, patience_s: float = 1.0) -> Iterator[Balancer]:
    """The service; what goes wrong is one clear line and its exit status."""
    from balancer.client import BalancerError, NotObtainable, Refused, of_environment

    with one_line(ValueError):
        made = of_environment(url, patience_s=patience_s)
    with made as balancer:
        try:
            yield balancer
        except NotObtainable as error:
            fail(_with_notes(error), _NOT_OBTAINABLE)
        except Refused as error:
            fail(_with_notes(error))
        except BalancerError as error:
            fail(_with_notes(error), _NO_ANSWER)


def _with_notes(error: Exception) -> str:
    """The error with what a command added to it."""
    return "\n".join((str(error), *getattr(error, "__notes__", ())))


def list_plugins(group: str, as_json: bool) -> None:
    """A line for each, and one for each of its parameters with its default."""
    from balancer.plugins import listing, noun

    found = listing(group)
    if as_json:
        show(
            as_json, [{"name": name, "kind": noun(group), **plugin} for name, plugin in found.items()], [], []
        )
        return
    rows = []
    for name, plugin in found.items():
        rows.append([name, plugin["about"]])
        rows += [["", f"{key}: {_default(value)}"] for key, value in plugin["parameters"].items()]
    show(as_json, found, [noun(group).upper(), "SUMMARY, PARAMETERS AND DEFAULTS"], rows)


def _default(value: Any) -> str:
    return "(needed)" if value == "..." else json.dumps(value, default=str)


def printable(text: str) -> str:
    """On one line, and without what a terminal obeys: a job or a note is named by anybody."""
    return (
        text
        if text.isprintable()
        else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
    )


def show(as_json: bool, shown: Any, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Aligned columns that `awk` can read as well as people; the last column may be long."""
    if as_json:
        click.echo(json.dumps(shown, indent=None if not os.isatty(1) else 2))
        return
    lines = [header, *([printable(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    for row in lines:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        click.echo("  ".join(cells).rstrip())
