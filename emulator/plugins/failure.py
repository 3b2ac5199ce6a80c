"""A plug-in that raises ends the run: one error that names the plug-in, the event and the cluster time."""

from __future__ import annotations

import traceback
from typing import Any, NamedTuple

from balancer.clock import seconds


class PluginError(RuntimeError):
    """A plug-in raised. `plugin`: kind and name; `event`: what it was called for, in words."""

    result: Any = None
    """Of `emulator.run`: the run up to then (`emulator.Result`)."""

    def __init__(self, plugin: str, event: str, at_us: int, reason: str) -> None:
        super().__init__(plugin, event, at_us, reason)  # so that it goes through a pickle

    def __str__(self) -> str:
        plugin, event, at_us, reason = self.args
        return f"{plugin} failed in {event} at {seconds(at_us):.6f} s: {reason}"


class Cause(NamedTuple):
    """Who made an event, as a `PluginError` names it, and what to change where its events lead nowhere."""

    plugin: str
    event: str
    advice: str


def plugin_error(plugin: str, event: str, at_us: int, error: BaseException) -> PluginError:
    """The error to raise `from` what a plug-in raised; one that has its names already keeps them."""
    if isinstance(error, PluginError):
        return error
    return PluginError(plugin, event, at_us, f"{type(error).__name__}: {error}")


def traceback_of(error: BaseException) -> str:
    """What Python would print: of the cause, if there is one."""
    return "".join(traceback.format_exception(error.__cause__ or error))
