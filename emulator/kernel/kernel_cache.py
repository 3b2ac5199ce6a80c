"""Compiled functions from the cache, without getting ready to compile."""

# mypy: allow-untyped-calls

from __future__ import annotations

from functools import cache
from typing import Any

import llvmlite.binding as llvm
from numba.core.caching import FunctionCache
from numba.core.runtime import _nrt_python  # type: ignore[attr-defined]


@cache
def _name_helpers() -> None:
    """Tell the loader where the functions are by which machine code gets at arrays, as Numba's runtime does."""
    for name, address in _nrt_python.c_helpers.items():
        llvm.add_symbol(name if name.startswith("_") else f"NRT_{name}", address)


class _KernelCache(FunctionCache):
    """Numba's cache, which otherwise registers everything that Numba can translate before it loads anything.

    That takes longer than importing Numba, and a function that is loaded needs none of it; the compiler sees to it by
    itself when there is something to compile.
    """

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The function as machine code; None if it is not there."""
        _name_helpers()
        with self._guard_against_spurious_io_errors():
            return self._load_overload(sig, target_context)


def _nothing() -> None:
    """In place of a look for packages that extend Numba: the compiler looks for them as well."""


def keep(dispatcher: Any) -> Any:
    """The same function of Numba's, kept in its cache folder."""
    dispatcher._cache = _KernelCache(dispatcher.py_func)  # noqa: SLF001 - as `enable_caching` does
    dispatcher._compilation_chain_init_hook = _nothing  # noqa: SLF001
    return dispatcher
