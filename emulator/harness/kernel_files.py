"""Compiled loops as object code in files, loaded without Numba and called as C functions.

Loading Numba and its tables of types takes longer than anything that a usual run does. So `kernel_maker.py` keeps a
C function around each loop: it takes the address of one block of numbers, in which an array is its address, lengths and
steps, a number itself, and leaves the result there. Any later process links the file (llvmlite's `LLJIT`) and calls the
function with ctypes.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
from array import array
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

RESULTS = 8
"""Numbers at the beginning of a block: the result's. A loop results in at most so many."""
ARGUMENTS = RESULTS + 2
"""Where in a block the arguments begin. Before them: what Numba's way of calling wants for a result and an error."""
_FUNCTION = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
"""As Numba calls its functions: where the result goes (there is none), where an error goes, and the one argument."""


# Arguments as numbers.


class Tables(tuple[Any, ...]):  # noqa: SLOT001 - it has more than its items
    """A tuple of arrays that is handed to many calls: what it is as numbers is worked out once."""

    kind: str
    numbers: list[int]

    def __reduce__(self) -> tuple[type[Tables], tuple[tuple[Any, ...]]]:
        """A copy is of other memory."""
        return Tables, (tuple(self),)


def described(args: tuple[Any, ...]) -> tuple[str, list[int]]:
    """The kinds of arguments, and the block of their numbers. Raises TypeError."""
    numbers = [0] * ARGUMENTS
    return ",".join([_describe(arg, numbers) for arg in args]), numbers


def _describe(arg: Any, numbers: list[int]) -> str:
    """Add the numbers that stand for an argument; its kind: `i`, `f`, `b`, that of an array, or those of its items."""
    kind = type(arg)
    if kind is int:
        numbers.append(arg)
        return "i"
    if kind is Tables:
        if "kind" not in arg.__dict__:
            arg.numbers = []
            arg.kind = f"({','.join([_describe(each, arg.numbers) for each in arg])})"
        numbers += arg.numbers
        return str(arg.kind)
    if isinstance(arg, np.ndarray):
        return _describe_array(arg, numbers)
    if kind is tuple:
        return f"({','.join([_describe(each, numbers) for each in arg])})"
    return _describe_number(arg, numbers)


def _describe_number(arg: Any, numbers: list[int]) -> str:
    if isinstance(arg, bool | np.bool_):
        numbers.append(int(arg))
        return "b"
    if isinstance(arg, int | np.integer):
        numbers.append(int(arg))
        return "i"
    if isinstance(arg, float | np.floating):
        numbers.append(int(np.float64(arg).view(np.int64)))
        return "f"
    raise TypeError(
        f"a compiled loop takes numbers, truth values, arrays and tuples of these, not {type(arg)}"
    )


_USUAL: dict[tuple[np.dtype[Any], int], str] = {}
"""Kinds of arrays that are contiguous and may be written."""


def _describe_array(given: NDArray[Any], numbers: list[int]) -> str:
    """`<i8.2CW`: type, dimensions, C for contiguous or A for any layout, W if it may be written or R."""
    if given.flags.carray and (kind := _USUAL.get((given.dtype, given.ndim))) and given.size:
        buffer: Any = given  # a buffer that is written: the quickest way to its address
        numbers.append(ctypes.addressof(ctypes.c_char.from_buffer(buffer)))
        numbers += given.shape
        return kind
    about = given.__array_interface__
    address, is_read_only = about["data"]
    shape, strides, element = about["shape"], about["strides"], about["typestr"]
    if element[0] == ">" or element[1] not in "biuf":
        raise TypeError(f"a compiled loop takes arrays of numbers, not of {given.dtype}")
    numbers.append(address)
    numbers += shape
    kind = f"{element}.{len(shape)}{'C' if strides is None else 'A'}{'R' if is_read_only else 'W'}"
    if strides is not None:
        numbers += strides
    elif not is_read_only:
        _USUAL[given.dtype, given.ndim] = kind
    return kind


# From a file to a function.


def load(name: str, stored: bytes) -> Callable[[list[int]], Any]:
    """The function that these bytes are; it takes the block of its arguments. Raises ValueError if they are damaged."""
    from llvmlite import binding  # noqa: PLC0415 - only where there is something to load

    head, _, code = stored.partition(b"\n")
    about = json.loads(head)
    if about["digest"] != digest(code):
        raise ValueError(f"the machine code of {name} is damaged")
    linker = binding.JITLibraryBuilder().add_object_img(code).add_current_process()
    # Each file has copies of the loops that its own calls, so it is a library by itself.
    library = linker.export_symbol(about["symbol"]).link(_linker(), f"{name}.{len(_KEPT)}")
    function = _FUNCTION(library[about["symbol"]])
    _KEPT.append(library)
    results, several = about["results"], about["several"]

    def call(numbers: list[int]) -> Any:
        block = array("q", numbers)
        at, _ = block.buffer_info()
        if function(at + 8 * RESULTS, at + 8 * RESULTS + 8, at):
            raise RuntimeError(
                f"the loop {name} met what it cannot do: a bug; NUMBA_BOUNDSCHECK=1 tells more"
            )
        if several:
            return tuple([_result(kind, value) for kind, value in zip(results, block, strict=False)])
        return _result(results, block[0])

    return call


def digest(code: bytes) -> str:
    return hashlib.sha256(code).hexdigest()


_KEPT: list[Any] = []
"""Libraries, for as long as the process lives."""


def _result(kind: str, value: int) -> int | float | bool | None:
    if kind == "i":
        return value
    if kind == "b":
        return bool(value)
    return float(np.int64(value).view(np.float64)) if kind == "f" else None


@cache
def _linker() -> Any:
    from llvmlite import binding  # noqa: PLC0415

    start_llvm(binding)
    return binding.create_lljit_compiler(target(binding, jit=True))


def start_llvm(binding: Any) -> None:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()


def target(binding: Any, *, jit: bool = False) -> Any:
    """What object code is made for: the processor that we are on."""
    return binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        opt=3,
        reloc="pic",
        jit=jit,
    )
