"""The command `emulator`. Each command is loaded when it is used: `--help` does not wait for kernels."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from emulator.report.terminal import StoppedError, UsageError, file_error

if TYPE_CHECKING:
    from collections.abc import Iterator

# Else pydantic reads the entry points of everything that is installed, in search of plug-ins of its own.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
# Nothing here multiplies large matrices: threads for it take longer to start than NumPy's other parts.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

_COMMANDS = {
    # name: (module, attribute, help for the list of commands)
    "run": ("emulator.commands.run", "run", "Run a scenario or a trace, in virtual time or live."),
    "replay": ("emulator.commands.replay", "replay", "Submit a log to a real Slurm or PBS that is there."),
    "compare": ("emulator.commands.report", "compare", "What changed from one result folder to others."),
    "export": ("emulator.commands.report", "export", "Write results in the files of Batsim or AccaSim."),
    "report": ("emulator.commands.report", "report", "Make the report of a result folder again."),
    "gui": (
        "emulator.commands.report",
        "gui",
        "Open the newest report, or that of a folder, in the browser.",
    ),
    "sweep": (
        "emulator.commands.sweep",
        "sweep",
        "Run every combination of a grid, on all cores or on Dask.",
    ),
    "reproduce": (
        "emulator.commands.reproduce",
        "reproduce",
        "Run a paper's experiments and check its claims.",
    ),
    "study": ("emulator.commands.study", "study", "Answer an operator's question from his own logs."),
    "whatif": ("emulator.commands.whatif", "whatif", "Say what another slurm.conf would have done to a log."),
    "trace": ("emulator.commands.trace", "trace", "Look at job logs, convert them, generate jobs."),
    "fleet": (
        "emulator.commands.fleet",
        "fleet",
        "A live fleet of containers: up, status, follow, fault, down; swarm, over several hosts.",
    ),
    "calibrate": (
        "emulator.commands.calibrate",
        "calibrate",
        "Hold a twin, such as Slurm's, against the real program.",
    ),
    "examples": (
        "emulator.commands.examples",
        "examples",
        "Copy the notebook, scenarios and logs that the docs name.",
    ),
    "plugins": ("emulator.commands.plugins", "plugins", "List all plug-ins, or those of one kind."),
    "mechanisms": ("emulator.commands.plugins", "mechanisms", "List mechanisms and their parameters."),
    "schedulers": ("emulator.commands.plugins", "schedulers", "List queue orders, backfilling and options."),
}


_OBJECTS = 400_000
"""New ones before garbage is looked for. Imports make more than 100,000, all to stay; 700 is Python's default."""

# Python ends with a last look for garbage, at all there is: a fifth of the time of a small run.
atexit.register(gc.freeze)

_HELP: dict[str, Any] = {"help_option_names": ["-h", "--help"]}


def _with_short_help(command: click.Command) -> click.Command:
    """The command, and all below it, with `-h`, whoever calls it."""
    command.context_settings = {**_HELP, **command.context_settings}
    command._help_option = None  # noqa: SLF001 - click keeps that of the first call, perhaps by another program
    for inner in getattr(command, "commands", {}).values():
        _with_short_help(inner)
    return command


@contextmanager
def _in_one_form() -> Iterator[None]:
    """What click finds wrong, and what the system refuses, looks as every other error does."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        raise UsageError(error) from error
    except OSError as error:
        if (refused := file_error(error)) is None:
            raise
        raise refused from error
    except KeyboardInterrupt as error:
        raise StoppedError from error


@contextmanager
def _reading_is_shown() -> Iterator[None]:
    """Where a command reads a log for long, it says how far it is, unless it is to be quiet."""
    from emulator.report.progress import ReadingProgress  # noqa: PLC0415 - not for `--help`
    from emulator.workload.files import WATCH  # noqa: PLC0415

    def is_quiet() -> bool:
        said = click.get_current_context().params
        return bool(said.get("quiet") or said.get("as_json"))

    progress = ReadingProgress(is_quiet)
    token = WATCH.set(progress.update)
    try:
        yield
    finally:
        WATCH.reset(token)
        progress.close()


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        module, attribute, _ = _COMMANDS[cmd_name]
        gc.set_threshold(_OBJECTS)
        command: click.Command = getattr(import_module(module), attribute)
        return _with_short_help(command)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in _COMMANDS.items()])

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        if sys.stdout is None:  # it was closed (`>&-`), and nobody reads what is printed
            sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open to the end of the program
        with _in_one_form():
            return super().make_context(*args, **more)

    def invoke(self, ctx: click.Context) -> Any:
        with _in_one_form(), _reading_is_shown():
            return super().invoke(ctx)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        from balancer.plugins import nearest  # noqa: PLC0415 - only for a wrong command

        if args and not args[0].startswith("-") and args[0] not in _COMMANDS and Path(args[0]).exists():
            args = ["run", *args]  # a log or a scenario
        elif args and not args[0].startswith("-") and args[0] not in _COMMANDS:
            if Path(args[0]).name != args[0] or Path(args[0]).suffix:  # a scenario or a log was meant
                ctx.fail(f"{args[0]}: no such file")
            ctx.fail(f"unknown command {args[0]!r}{nearest(args[0], _COMMANDS)}")
        return super().resolve_command(ctx, args)


@click.command(cls=_Lazy, context_settings=_HELP)
@click.version_option(package_name="balancer-emulator", prog_name="emulator")
def main() -> None:
    """Replay workloads against the Balancer and other mechanisms, in virtual time and live.

    `emulator FILE` is short for `emulator run FILE`.
    """
