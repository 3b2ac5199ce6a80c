"""Large compiled functions that others call by their address: two of them are compiled at the same time.

A function that Python calls is one program with all its parts (`compiled_parts.py`), and one processor compiles it. One
that is `apart` is a program of its own. Whoever is compiled and calls it leaves it to a process beside, which keeps it
in the cache, goes on, and waits for it only at the end. A call passes each array in seven words, and neither knows of
the other what it does: this pays where the function is large and called once for each event.
"""

# mypy: allow-untyped-calls

from __future__ import annotations

import hashlib
import importlib
import os
import pickle
import subprocess
import sys
from contextlib import suppress
from functools import cache, partial
from typing import IO, Any, cast

import llvmlite.binding as llvm
from numba.core import types
from numba.core.compiler import compile_result
from numba.core.funcdesc import ExternalFunctionDescriptor

from emulator.harness.compiled_parts import Library, PartDispatcher
from emulator.harness.kernel_cache import is_kept

_RESULTS = {int: types.int64, "int": types.int64, None: types.none, "None": types.none}
"""By annotation: a caller is compiled before it is known what the function gives back."""

_PROGRAM = "import sys; sys.path[:] = {path!r}; from {module} import compile_what_is_asked as it; it()"
"""Of the process beside: the caller's modules, whatever lies in the folder where it is begun."""


class _Elsewhere(Library):
    """In place of the function's code, of which a caller sees only the name."""

    def _ensure_finalized(self) -> None:
        """There is nothing."""

    def _get_module_for_linking(self) -> Any:
        return self._final_module


class ApartDispatcher(PartDispatcher):
    """A compiled function as others see it that call it by its address."""

    def compile(self, sig: Any) -> Any:
        """Make it known; it is compiled meanwhile by a process beside."""
        arguments = tuple(sig)
        if arguments not in self.overloads:
            module, name = self.py_func.__module__, self.py_func.__qualname__
            _compile_beside(module, name, arguments)
            result = _said(self.py_func)
            symbol = _symbol(module, name, arguments)
            context: Any = self.targetctx
            library = _Elsewhere(context.codegen(), symbol)
            library._reload_init.add(partial(reach, module, name, arguments))  # noqa: SLF001
            told = ExternalFunctionDescriptor(symbol, result, arguments)
            entry = object()  # in place of what Python would call
            context.insert_user_function(entry, told, [library])
            known = {"entry_point": entry, "fndesc": told, "library": library, "objectmode": False}
            self.overloads[arguments] = compile_result(signature=result(*arguments), **known)
        return self.get_overload(sig)


@cache
def _beside() -> dict[str, subprocess.Popen[bytes]]:
    """Processes that compile, by the symbol of what."""
    return {}


def _symbol(module: str, name: str, arguments: tuple[Any, ...]) -> str:
    return f"{module}.{name}.{hashlib.sha256(repr(arguments).encode()).hexdigest()[:16]}"


def _said(function: Any) -> Any:
    return _RESULTS[function.__annotations__["return"]]


def _dispatcher(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name).dispatcher


def _compile_beside(module: str, name: str, arguments: tuple[Any, ...]) -> None:
    """Begin with it, where there is a processor for it and it is not in the cache. Otherwise it is left to `reach`."""
    symbol = _symbol(module, name, arguments)
    begun = symbol in _beside() or is_kept(_dispatcher(module, name), arguments)
    if begun or len(os.sched_getaffinity(0)) == 1 or not sys.executable:
        return
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _PROGRAM.format(path=sys.path, module=__name__)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,  # what fails there is done here, and says why
    )
    asked = pickle.dumps((module, name, arguments))
    with suppress(BrokenPipeError), cast("IO[bytes]", process.stdin) as pipe:
        pipe.write(asked)
    _beside()[symbol] = process


def compile_what_is_asked() -> None:
    """In the process beside: compile a function into the cache."""
    module, name, arguments = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the process that began this one
    _dispatcher(module, name).compile(arguments)


def reach(module: str, name: str, arguments: tuple[Any, ...]) -> None:
    """Have the function here, and its address known to whatever is loaded next and calls it.

    TypeError if it does not return what it says.
    """
    symbol = _symbol(module, name, arguments)
    process = _beside().pop(symbol, None)
    if process is not None:
        process.wait()  # whatever became of it: what is not in the cache is compiled here
    dispatcher = _dispatcher(module, name)
    dispatcher.compile(arguments)
    code = dispatcher.overloads[arguments]
    said, returns = _said(dispatcher.py_func), code.signature.return_type
    if returns != said:
        raise TypeError(f"{module}.{name} returns {returns}, and says {said}")
    llvm.add_symbol(symbol, code.library.get_pointer_to_function(code.fndesc.llvm_func_name))
