"""Functions that compiled loops call by their address, and memory that they find by its address.

So the loops need not know a queue order when they are compiled, and those of static orders carry nothing of it.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

_INT = ir.IntType(64)


def _call_hook(_typing: Any, address: Any, context: Any, now: Any) -> Any:  # noqa: ARG001
    def codegen(target: Any, builder: Any, _: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [_INT, _INT])
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return target.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), codegen


def _call_score(_typing: Any, address: Any, order: Any, job: Any) -> Any:  # noqa: ARG001
    def codegen(_target: Any, builder: Any, _: Any, args: Any) -> Any:
        record = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.DoubleType(), [record, record])
        return builder.call(
            builder.inttoptr(args[0], kind.as_pointer()),
            [builder.inttoptr(each, record) for each in args[1:]],
        )

    return types.float64(types.int64, types.int64, types.int64), codegen


call_hook: Any = intrinsic(_call_hook)
"""`call_hook(address, context, now)` calls `void hook(int64 context, int64 now)`."""
call_score: Any = intrinsic(_call_score)
"""`call_score(address, order, job)` calls `double score(record *order, record *job)`; all are addresses."""


def _pointer(kind: Any, element: Any) -> Any:
    def typed(_typing: Any, address: Any) -> Any:  # noqa: ARG001
        def codegen(_target: Any, builder: Any, _: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], element.as_pointer())

        return types.CPointer(kind)(types.int64), codegen  # type: ignore[no-untyped-call]

    return intrinsic(typed)


ints_at = _pointer(types.int64, _INT)
"""`int64 *` of an address; `ints32_at` and `floats_at` are alike."""
ints32_at = _pointer(types.int32, ir.IntType(32))
floats_at = _pointer(types.float64, ir.DoubleType())
