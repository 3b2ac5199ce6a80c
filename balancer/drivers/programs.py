"""Runs a batch system's programs: whatever they do, there is output in time or a DriverError."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING

from balancer.drivers.base import RefusedError, UnclearError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_NODES_PER_CALL = 500
_KILL_LIMIT_S = 1.0


def run_program(
    command: Sequence[str],
    *,
    timeout_s: float,
    unreachable_words: Sequence[str] = (),
    stderr_is_refusal: bool = False,
    environ: Mapping[str, str] | None = None,
) -> str:
    """Standard output of a command that ended well, in its own session.

    Raises UnreachableError (cannot be started; failed with one of `unreachable_words` on standard error),
    RefusedError (failed otherwise; `stderr_is_refusal`: or said anything there), UnclearError (killed by a
    signal, or by us after `timeout_s`).
    """
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
            errors="replace",
            start_new_session=True,
            env=environ,
        )
    except OSError as error:
        raise UnreachableError(f"{command[0]} cannot be started: {error.strerror}") from error
    shown = " ".join(command[:2])
    try:
        stdout, stderr = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired as error:
        raise UnclearError(f"{shown} did not end within {timeout_s:g} s{_kill(process)}") from error
    message = " ".join(stderr.split())
    what = f"{shown} exited {process.returncode}: {message[:300] or 'no message'}"
    if process.returncode != 0:
        if any(words in message.lower() for words in unreachable_words):
            raise UnreachableError(what)
        if process.returncode < 0:
            raise UnclearError(what)
        raise RefusedError(what)
    if stderr_is_refusal and message:
        raise RefusedError(what)
    return stdout


def _kill(process: subprocess.Popen[str]) -> str:
    """Kill it with its children, without ever waiting for long; what is to be said about that.

    A child in a session of its own may keep the pipes open, and a program that waits for a dead file server
    does not even die of SIGKILL: neither may hold up the thread that talks to the batch system.
    """
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(_KILL_LIMIT_S)
    except subprocess.TimeoutExpired:
        return f", and process {process.pid} cannot be killed"
    return ""


def batches(nodes: Sequence[str]) -> Iterator[Sequence[str]]:
    """At most so many nodes as one command line takes well."""
    for start in range(0, len(nodes), _NODES_PER_CALL):
        yield nodes[start : start + _NODES_PER_CALL]
