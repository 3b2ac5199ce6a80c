"""openstackclient's commands, unmodified, many in one interpreter: `python osc.py OPTIONS...`, those of one account.

Each line of the input is a JSON list, the words of a command; each line of the output its [status, output, errors]. A
process a command costs one to two seconds of start each. The shell is kept as in the client's own interactive mode:
`run_subcommand` is what that calls. It keeps clients of the first account, so an account has a process.
"""

from __future__ import annotations

import io
import json
import logging
import os
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from openstackclient.shell import OpenStackShell


def made(options: list[str]) -> Any:
    with redirect_stdout(io.StringIO()):
        shell = OpenStackShell()
        status = shell.run([*options, "configuration", "show"])
    assert status == 0, "the shell starts"
    return shell


def run(shell: Any, words: list[str]) -> tuple[int, str, str]:
    output, errors = io.StringIO(), io.StringIO()
    shell.stdout, shell.stderr, shell.stdin = output, errors, io.StringIO()
    handler = logging.StreamHandler(errors)
    handler.setLevel(logging.WARNING)
    logging.getLogger().addHandler(handler)
    try:
        with redirect_stdout(output), redirect_stderr(errors):
            status = shell.run_subcommand(words)
    except SystemExit as end:  # words that the command does not take
        status = end.code if isinstance(end.code, int) else 1
    finally:
        logging.getLogger().removeHandler(handler)
    return status, output.getvalue(), errors.getvalue()


def main() -> None:
    warnings.simplefilter("ignore")
    for name in [name for name in os.environ if name.startswith("OS_")]:
        del os.environ[name]
    shell = made(sys.argv[1:])
    lines, sys.stdin = sys.stdin, io.StringIO()  # a command that asks somebody finds nobody
    for line in lines:
        print(json.dumps(run(shell, json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
