"""Manual pages of the two commands, made from their help: `python docs/site/man_pages.py` writes `docs/man`.

One page a program with all its commands, as wheels carry them (`share/man/man1`); a test says when they are old.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from balancer.console.commands import cli as balancer
from emulator.cli import main as emulator

if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDER = Path(__file__).parents[1] / "man"
_WIDTH = 10_000
"""Of a help text: lines are the reader's business."""
_STATUS = {
    "balancer": (
        "0 done or granted, 1 not obtainable or refused, 2 bad input, 3 no answer. "
        "`balancer hook` has the exit statuses that the batch system asks for."
    ),
    "emulator": (
        "0 done, 1 a run failed half-way or results differ, 2 bad input (nothing was written), "
        "130 ended by Ctrl-C (what was done is written)."
    ),
}
_ABOUT = {
    "balancer": "moves whole nodes between an on-demand pool and a batch pool while jobs run",
    "emulator": "replays workload traces on a machine for batch and on-demand work",
}


def page(name: str) -> str:
    """The manual page of a program, as roff."""
    root: click.Command = {"balancer": balancer, "emulator": emulator}[name]
    lines = [
        f'.TH {name.upper()} 1 "" "balancer-emulator" "User Commands"',
        ".SH NAME",
        rf"{name} \- {_ABOUT[name]}",
        ".SH SYNOPSIS",
        rf".B {name}",
        r"[\fIOPTIONS\fR] \fICOMMAND\fR [\fIARGS\fR]...",
        ".SH DESCRIPTION",
        *_prose(root.help or ""),
        ".SH COMMANDS",
    ]
    for context in _commands(click.Context(root, info_name=name, terminal_width=_WIDTH)):
        lines += _command(context)
    lines += [".SH EXIT STATUS", _escaped(_STATUS[name]), ".SH SEE ALSO", *_others(name)]
    return "\n".join(lines) + "\n"


def _others(name: str) -> list[str]:
    other = "emulator" if name == "balancer" else "balancer"
    return [rf".BR {other} (1);", "the docs that come with the sources"]


def _commands(context: click.Context) -> Iterator[click.Context]:
    """Each command that does something, in the order of the help."""
    command = context.command
    if not isinstance(command, click.Group):
        yield context
        return
    for name in command.list_commands(context):
        inner = command.get_command(context, name)
        if inner is not None and not inner.hidden:
            yield from _commands(click.Context(inner, info_name=name, parent=context, terminal_width=_WIDTH))


def _command(context: click.Context) -> list[str]:
    command = context.command
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [f".SS {_escaped(context.command_path)} {_escaped(usage)}", *_prose(command.help or "")]
    for each in command.get_params(context):
        record = each.get_help_record(context)
        if record is not None and "--help" not in each.opts:
            option, text = record
            lines += [".TP", rf"\fB{_escaped(option)}\fR", _escaped(" ".join(text.split()))]
    return lines


def _prose(text: str) -> list[str]:
    """Paragraphs; what click keeps as it is (after a line that marks it so) stays so."""
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        if paragraph.lstrip().startswith("\b"):
            kept = [_escaped(line.strip()) for line in paragraph.split("\n")[1:]]
            lines += [".PP", ".nf", *kept, ".fi"]
        else:
            lines += [".PP", _escaped(" ".join(paragraph.split()))]
    return lines


def _escaped(text: str) -> str:
    """Text in which roff sees nothing to do."""
    text = text.replace("\\", r"\e").replace("-", r"\-").replace("`", r"\(ga").replace("'", r"\(aq")
    return rf"\&{text}" if text.startswith(".") else text


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for program in _ABOUT:
        (FOLDER / f"{program}.1").write_text(page(program), "utf-8")
    sys.exit(0)
