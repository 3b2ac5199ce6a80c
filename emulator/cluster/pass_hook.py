"""What a compiled loop calls in Python at each scheduling pass: an order, a scheduler, a selection, a predictor."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from emulator.kernel import tables as t

if TYPE_CHECKING:
    from collections.abc import Callable

    from emulator.workload.table import JobTable

HOOK = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)
"""The form of a hook: of a context, and the time in us."""


def address_of_hook(hook: ctypes._CFunctionType) -> int:
    """Where compiled code finds it."""
    return ctypes.cast(hook, ctypes.c_void_p).value or 0


class PassHook(ABC):
    """A hook of one cluster. It learns of every job, and `use` must follow whenever the cluster's tables moved.

    `inner`: another hook, which this one asks, since a cluster has one only.
    """

    def __init__(self, inner: PassHook | None = None) -> None:
        self._inner = inner
        self._failure: BaseException | None = None
        self._hook: ctypes._CFunctionType | None = None

    def learn(self, jobs: JobTable, first: int) -> None:
        """Jobs that are the rows from `first` on."""
        if self._inner is not None:
            self._inner.learn(jobs, first)

    def use(self, state: t.State) -> None:
        """Work on these tables of the cluster from now on."""
        if self._inner is not None:
            self._inner.use(state)
        self._state = state
        state.registers.ask = self._address()

    def _address(self) -> int:
        """Where the compiled loop finds it."""
        if self._hook is None:
            self._hook = HOOK(lambda _context, now_us: self.ask(now_us))
        return address_of_hook(self._hook)

    @abstractmethod
    def ask(self, now_us: int) -> None:
        """What the compiled loop calls."""

    def check(self) -> None:
        """Raise what has failed since the last look, with the name of the plug-in that it is of."""
        if isinstance(self._failure, KeyboardInterrupt):
            raise self._failure  # nobody's fault: the user ends the program
        if self._failure is not None:
            self._raise(self._failure)
        if self._inner is not None:
            self._inner.check()

    def _raise(self, failure: BaseException) -> None:
        raise failure

    def _safely(self, do: Callable[[int], None], now_us: int) -> None:
        """Nothing can be raised through compiled code: `check` does that. The loop ends at this instant."""
        if self._failure is not None:
            return
        try:
            do(now_us)
        except BaseException as error:  # noqa: BLE001 - as said; sys.exit and Ctrl-C would be lost as well
            self._failure = error
            self._state.registers.order_failed = t.OrderFailure.RAISED
            self._state.registers.instants_left = 0


class ChoiceHook(PassHook):
    """One that decides who starts. `inner`: an order that puts the queue in order before."""

    def ask(self, now_us: int) -> None:
        self._safely(self._choose_in_order, now_us)

    def _choose_in_order(self, now_us: int) -> None:
        if self._inner is not None:
            self._inner.ask(now_us)
            if self._state.registers.order_failed:
                return
        self._choose(now_us)

    @abstractmethod
    def _choose(self, now_us: int) -> None:
        """Start jobs of the queue, which is in order."""
