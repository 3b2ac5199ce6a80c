"""The hook of a queue order with a compiled `score`: look, ask, sort. Loaded for such orders only: it loads Numba."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numba
from llvmlite import ir
from numba import carray, types  # type: ignore[attr-defined]
from numba.core.errors import NumbaError
from numba.extending import intrinsic

from emulator.kernel.compiled import compiled, compiler, keeps_code
from emulator.kernel.reorder import (
    Account,
    Counted,
    Given,
    count_usage,
    look,
    look_at_usage,
    set_keys,
    sort_queue,
)
from emulator.kernel.rows import dtype_of
from emulator.kernel.tables import Job, Registers, Run
from emulator.schedulers.dynamic import WAITING
from emulator.schedulers.plain import Compiled

if TYPE_CHECKING:
    import numpy as np

    from emulator.kernel.reorder import Floats
    from emulator.kernel.tables import Ints32

_INT = ir.IntType(64)
_OURS = f"{__name__.partition('.')[0]}."


def _call_score(_typing: Any, address: Any, order: Any, job: Any) -> Any:  # noqa: ARG001
    def codegen(_target: Any, builder: Any, _: Any, args: Any) -> Any:
        record = ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.DoubleType(), [record, record])
        return builder.call(
            builder.inttoptr(args[0], kind.as_pointer()),
            [builder.inttoptr(each, record) for each in args[1:]],
        )

    return types.float64(types.int64, types.int64, types.int64), codegen


call_score: Any = intrinsic(_call_score)
"""`call_score(address, order, job)` calls `double score(record *order, record *job)`; all are addresses."""


def _pointer(kind: Any, element: Any) -> Any:
    def typed(_typing: Any, address: Any) -> Any:  # noqa: ARG001
        def codegen(_target: Any, builder: Any, _: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], element.as_pointer())

        return types.CPointer(kind)(types.int64), codegen  # type: ignore[no-untyped-call]

    return intrinsic(typed)


ints_at = _pointer(types.int64, _INT)
"""`int64 *` of an address; `ints32_at`, `floats_at`, `jobs_at` and `runs_at` are alike."""
ints32_at = _pointer(types.int32, ir.IntType(32))
floats_at = _pointer(types.float64, ir.DoubleType())


def _rows_at(row: np.dtype[Any]) -> Any:
    return _pointer(numba.from_dtype(row), ir.ArrayType(ir.IntType(8), row.itemsize))


jobs_at, runs_at, accounts_at = map(_rows_at, map(dtype_of, (Job, Run, Account)))
registers_at = _rows_at(dtype_of(Registers))
counted_at, given_at, waiting_at = _rows_at(dtype_of(Counted)), _rows_at(dtype_of(Given)), _rows_at(WAITING)
_WAITING_BYTES = WAITING.itemsize


@compiled
def score_all(queue: Ints32, registers: Registers, scores: Floats, given: Given) -> None:
    """Ask the compiled order for the priority of each waiting job."""
    for place in range(registers.queue_lo, registers.queue_hi):
        row = queue[place]
        scores[row] = call_score(given.score, given.parameters, given.waiting + row * _WAITING_BYTES)


def reorder(context: int, now: int) -> None:
    """The hook of an order with a compiled `score`: look, ask, sort. `context`: the address of a `Given`."""
    given = carray(given_at(context), 1)[0]
    rooms = given.jobs_room
    job = carray(jobs_at(given.job), rooms)
    queue = carray(ints32_at(given.queue), 2 * rooms + 8)
    registers = carray(registers_at(given.registers), 1)[0]
    waiting = carray(waiting_at(given.waiting), rooms)
    counted = carray(counted_at(given.counted), 1)[0]
    scores = carray(floats_at(given.scores), rooms)
    look(job, queue, registers, waiting, now)
    if counted.accounts_n:
        runs = carray(runs_at(given.runs), given.runs_room)
        accounts = carray(accounts_at(given.accounts), given.accounts_room)
        open_runs = carray(ints_at(given.open_runs), given.open_room)
        count_usage(runs, waiting, accounts, open_runs, counted, registers, now, given.half_life_us)
        look_at_usage(queue, registers, waiting, accounts, counted)
    score_all(queue, registers, scores, given)
    set_keys(job, queue, registers, scores, carray(ints_at(given.scores), rooms))
    sort_queue(job, queue, registers, carray(ints32_at(given.spare), rooms))


@cache
def hook() -> Any:
    """`reorder` as machine code, whose address loops may call. Made when the first order needs it."""
    return compiler().cfunc(types.void(types.int64, types.int64), cache=keeps_code())(reorder)


def compiled_score(order: Any, parameters: np.dtype[Any]) -> Any:
    """The machine code of an order's `score`: of one of ours from the cache, and it raises nothing.

    That of another one is compiled anew, since nobody would notice that what it calls has changed, and its answer is
    NaN where it raises: machine code that Python did not call can raise nothing. Raises ValueError if it has none.
    """
    signature = types.float64(numba.from_dtype(parameters), numba.from_dtype(WAITING))
    score = type(order).score
    if (score.__module__ or "").startswith(_OURS) and not isinstance(
        order, Compiled
    ):  # none: typed at a prompt
        return compiler().cfunc(signature, cache=keeps_code())(score)
    try:
        return numba.cfunc(signature)(_guarded(order))
    except (NumbaError, KeyError) as error:  # KeyError: a field that a record does not have
        raise ValueError(_why_not(order, parameters, error)) from error


def _guarded(order: Any) -> Any:
    if isinstance(order, Compiled):
        function = numba.njit(order.function)

        def guarded(_: Any, job: Any) -> float:
            try:
                return float(function(job))
            except Exception:  # noqa: BLE001 - `OrderHook.check` asks again in Python, which says what it was
                return math.nan

        return guarded
    score = numba.njit(type(order).score)

    def guarded_score(parameters: Any, job: Any) -> float:
        try:
            return float(score(parameters, job))
        except Exception:  # noqa: BLE001 - likewise
            return math.nan

    return guarded_score


def _why_not(order: Any, parameters: np.dtype[Any], error: Exception) -> str:
    """Why there is no machine code, and what to do."""
    name = getattr(order, "__name__", type(order).__name__)
    if isinstance(error, KeyError):
        numbers = ", ".join(parameters.names or ()) or "none"
        reads = f"it reads {error.args[0]}; of a job there are {', '.join(WAITING.names or ())}"
        return f"{name} cannot be compiled ({reads}; of its parameters, those that are finite numbers: {numbers})"
    said = next((line for line in str(error).splitlines() if line and not line.startswith("Failed in")), "")
    cure = (
        "without @emulator.compiled it runs"
        if isinstance(order, Compiled)
        else "a method called `rank` in its place runs"
    )
    return f"{name} cannot be compiled ({said.strip()}); {cure} in Python"
