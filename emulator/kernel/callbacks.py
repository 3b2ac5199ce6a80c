"""Functions that compiled loops call by their address.

So the loops need not know a queue order when they are compiled, and those of static orders carry nothing of it.
"""

from __future__ import annotations

import ctypes
from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Intrinsic:
    """What a compiled loop does in a way of its own: `define(typing, *types)` gives signature and code to Numba.

    Made when the first loop that uses it is compiled; loaded loops need neither it nor Numba.
    """

    def __init__(self, define: Callable[..., Any], plain: Callable[..., None]) -> None:
        self._define = define
        self._plain = plain

    @cached_property
    def _numba_type_(self) -> Any:
        from numba.core.registry import cpu_target  # noqa: PLC0415 - slow, and only to compile
        from numba.extending import intrinsic  # noqa: PLC0415

        made = intrinsic(self._define)
        cpu_target.typing_context.refresh()
        return cpu_target.typing_context.resolve_value_type(made)

    def __call__(self, *args: int) -> None:
        """The same where loops are not compiled (NUMBA_DISABLE_JIT=1)."""
        self._plain(*args)


def _call_hook(_typing: Any, address: Any, context: Any, now: Any) -> Any:  # noqa: ARG001
    from llvmlite import ir  # noqa: PLC0415
    from numba import types  # noqa: PLC0415

    number = ir.IntType(64)

    def codegen(target: Any, builder: Any, _: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [number, number])
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return target.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


def _call_plain(address: int, context: int, now: int) -> None:
    hook = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(int(address))
    hook(int(context), int(now))


call_hook: Any = Intrinsic(_call_hook, _call_plain)
"""`call_hook(address, context, now)` calls `void hook(int64 context, int64 now)`."""
