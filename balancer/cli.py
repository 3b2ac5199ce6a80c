"""The entry point of the `balancer` command."""

from __future__ import annotations

import sys


def main() -> None:
    """Hooks have their own way in: they must start fast, and their exit status is Torque's business.

    A command-line parser ends with status 2 when it does not like an option, which would requeue every job.
    """
    if sys.argv[1:2] == ["hook"]:
        from balancer.hooks.torque import main as hook  # noqa: PLC0415 - a prologue waits for every import

        sys.exit(hook(sys.argv[2:]))
    from balancer.console.commands import cli  # noqa: PLC0415

    cli(prog_name="balancer")
