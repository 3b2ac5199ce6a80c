"""What tests left open until their worker ended fails the run: pytest alone would raise it in the worker, unheard."""

from __future__ import annotations

import gc
import sys
import warnings

import pytest

_KEY = "left_open"


def left_open() -> list[str]:
    """What of the objects that nobody uses any more was not closed. Python 3.13 and newer also tell of connections."""
    found: list[str] = []
    usual = sys.unraisablehook

    def note(each: sys.UnraisableHookArgs) -> None:
        if isinstance(each.exc_value, ResourceWarning):
            found.append(str(each.exc_value))
        else:
            usual(each)

    sys.unraisablehook = note
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ResourceWarning)
            gc.collect()
    finally:
        sys.unraisablehook = usual
    return found


class LeaksPlugin:
    """In a worker it looks at the end, in the process that starts workers it fails the run."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output[_KEY] = left_open()
        elif self.found and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        self.found += getattr(node, "workeroutput", {}).get(_KEY, [])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for each in self.found:
            terminalreporter.write_line(
                f"left open by some test: {each}; python -X tracemalloc=20 -m pytest says where", red=True
            )
