"""Compiled functions as Python calls them with tables of the same types again and again.

To look at the types of a state whose tables have names takes ten times as long as the call itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.kernel.compiled import Kernel

F = TypeVar("F", bound="Callable[..., Any]")


class EntryPoint:
    """A compiled function for arguments of the types that its first call has."""

    __slots__ = ("_entry", "_kernel")

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._entry: Any = None

    def __call__(self, *args: Any) -> Any:
        if self._entry is None:
            self._entry = self._kernel.entry(*args)
        return self._entry(*args)


def entry_point(function: F) -> F:
    """The compiled function, bound at its first call: later ones must have arguments of the same types."""
    return cast("F", EntryPoint(cast("Kernel", function)))


def entry_points(*functions: Callable[..., Any]) -> tuple[Callable[..., Any], ...]:
    """`entry_point` of each."""
    return tuple(entry_point(each) for each in functions)
