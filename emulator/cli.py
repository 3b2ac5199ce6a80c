"""The command `emulator`. Each command is loaded when it is used: `--help` does not wait for kernels."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import click

# Else pydantic reads the entry points of everything that is installed, in search of plug-ins of its own.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")

_COMMANDS = {
    # name: (module, attribute, help for the list of commands)
    "run": ("emulator.commands.run", "run", "Run a scenario or a trace, in virtual time or live."),
    "compare": ("emulator.report.cli", "compare", "Compare two result folders job by job."),
    "report": ("emulator.report.cli", "report", "Make the report of a result folder again."),
    "sweep": ("emulator.sweep.cli", "sweep", "Run every combination of a grid, on all cores or on Dask."),
    "reproduce": ("emulator.experiments.cli", "reproduce", "Run a paper's experiments and check its claims."),
    "study": ("emulator.study.cli", "study", "Answer an operator's question from his own logs."),
    "trace": ("emulator.workload.cli", "trace", "Look at job logs, convert them, generate jobs."),
    "fleet": (
        "emulator.commands.fleet",
        "fleet",
        "A live fleet of containers: up, status, follow, fault, down.",
    ),
    "plugins": ("emulator.commands.plugins", "plugins", "List all plug-ins, or those of one kind."),
    "mechanisms": ("emulator.commands.plugins", "mechanisms", "List mechanisms and their parameters."),
    "schedulers": ("emulator.commands.plugins", "schedulers", "List queue orders, backfilling and options."),
}


class _Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in _COMMANDS:
            return None
        module, attribute, _ = _COMMANDS[cmd_name]
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, _, text) in _COMMANDS.items()])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        from difflib import get_close_matches  # noqa: PLC0415 - only for a wrong command

        if args and not args[0].startswith("-") and args[0] not in _COMMANDS:
            close = get_close_matches(args[0], _COMMANDS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(_COMMANDS)}"
            ctx.fail(f"unknown command {args[0]!r}; {hint}")
        return super().resolve_command(ctx, args)


@click.command(cls=_Lazy)
@click.version_option(package_name="balancer-emulator", prog_name="emulator")
def main() -> None:
    """Replay workloads against the Balancer and other mechanisms, in virtual time and live."""
