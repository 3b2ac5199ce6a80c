"""Makes the files of `kernel_files.py`. Only a process that finds no file of a loop imports this: it loads Numba."""

from __future__ import annotations

import json
import re
from itertools import count
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj

from emulator.harness.kernel_files import ARGUMENTS, RESULTS, digest, start_llvm, target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from emulator.harness.compiled import Kernel

# Of these few have types of their own.
_numba: Any = numba
_types_of_numba: Any = types
_unpack_tuple: Any = cgutils.unpack_tuple
_populate_array: Any = arrayobj.populate_array
_PLAIN = {"b": types.boolean, "i": types.int64, "f": types.float64}
_WORD = re.compile(r"[(),]|[^(),]+")
_ARRAY = re.compile(r"(?P<element>.+)[.](?P<dimensions>\d)(?P<layout>[CA])(?P<access>[RW])")
_INT = ir.IntType(64)


def _pointer(kind: Any, element: Any) -> Any:
    def typed(_typing: Any, address: Any) -> Any:  # noqa: ARG001
        def codegen(_target: Any, builder: Any, _: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], element.as_pointer())

        return types.CPointer(kind)(types.int64), codegen  # type: ignore[no-untyped-call]

    return intrinsic(typed)


ints_at = _pointer(types.int64, _INT)
"""`int64 *` of an address, in a compiled function; `ints32_at` and `floats_at` are alike."""
ints32_at = _pointer(types.int32, ir.IntType(32))
floats_at = _pointer(types.float64, ir.DoubleType())


def _array_at(kind: Any) -> Any:
    """An array of this type: of its address and a tuple of its lengths, and of its steps unless it is contiguous."""

    def typed(_typing: Any, address: Any, numbers: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            array = context.make_array(kind)(context, builder)
            found = _unpack_tuple(builder, args[1], len(signature.args[1]))
            size = ir.Constant(_INT, context.get_abi_sizeof(context.get_data_type(kind.dtype)))
            shape, strides = found[: kind.ndim], found[kind.ndim :]
            if kind.layout == "C":
                strides = [size]
                for length in shape[:0:-1]:
                    strides.insert(0, builder.mul(strides[0], length))
            _populate_array(
                array,
                data=builder.inttoptr(args[0], array.data.type),
                shape=shape,
                strides=strides,
                itemsize=size,
                meminfo=None,
            )
            return array._getvalue()  # noqa: SLF001 - as Numba's own `carray` does, which wants to count references

        return kind(address, numbers), codegen

    return intrinsic(typed)


def make(kernel: Kernel, kinds: str) -> bytes:
    """The file of a loop for arguments of these kinds: one line of JSON, then object code."""
    words = [word for word in _WORD.findall(kinds) if word != ","]
    argument_types = tuple(_types(iter(words)))
    kernel.dispatcher.compile(argument_types)
    result = kernel.dispatcher.overloads[argument_types].signature.return_type
    several = isinstance(result, _types_of_numba.BaseTuple)
    results = [_result_kind(each) for each in (result if several else [result])]
    if len(results) > RESULTS:
        raise TypeError(f"{kernel.py_func.__name__} results in more than {RESULTS} numbers")
    function = _numba.njit(nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, _nrt=False)(
        _by_block(kernel, words, results, several=several)
    )
    signature = (types.int64,)
    function.compile(signature)
    start_llvm(binding)
    code: bytes = target(binding).emit_object(binding.parse_assembly(function.inspect_llvm(signature)))
    about = {
        "digest": digest(code),
        "symbol": function.overloads[signature].fndesc.llvm_func_name,
        "results": "".join(results),
        "several": several,
    }
    return json.dumps(about).encode() + b"\n" + code


def _by_block(kernel: Kernel, words: list[str], results: list[str], *, several: bool) -> Any:
    """The function of one address that calls the loop."""
    names: dict[str, Any] = {"ints_at": ints_at, "floats_at": floats_at, "loop": kernel.dispatcher}
    arguments = ", ".join(_arguments(iter(words), count(ARGUMENTS), names))
    lines = ["def by_block(block):", f"    result = loop({arguments})"]
    for place, kind in enumerate(results):
        if kind:
            value = f"result[{place}]" if several else "result"
            lines.append(f"    {'floats_at' if kind == 'f' else 'ints_at'}(block + {8 * place})[0] = {value}")
    exec("\n".join(lines), names)  # noqa: S102 - our own text, made of kinds
    return names["by_block"]


def _arguments(words: Iterator[str], places: Iterator[int], names: dict[str, Any]) -> Iterator[str]:
    """How each argument is got from the block."""

    def next_number() -> str:
        return f"ints_at(block + {8 * next(places)})[0]"

    for word in words:
        if word == ")":
            return
        if word == "(":
            yield f"({', '.join(_arguments(words, places, names))},)"
        elif word == "f":
            yield f"floats_at(block + {8 * next(places)})[0]"
        elif word in _PLAIN:
            yield next_number() + (" != 0" if word == "b" else "")
        else:
            kind = _array_type(word)
            name = f"array{len(names)}"
            names[name] = _array_at(kind)
            address = next_number()
            numbers = [next_number() for _ in range(kind.ndim * (1 if kind.layout == "C" else 2))]
            yield f"{name}({address}, ({', '.join(numbers)},))"


def _types(words: Iterator[str]) -> Iterator[Any]:
    """Numba's types of kinds."""
    for word in words:
        if word == ")":
            return
        if word == "(":
            yield _types_of_numba.BaseTuple.from_types(tuple(_types(words)))
        else:
            yield _PLAIN[word] if word in _PLAIN else _array_type(word)


def _array_type(word: str) -> Any:
    parts = _ARRAY.fullmatch(word)
    if parts is None:
        raise TypeError(f"{word} is no kind of array")
    element = numba.from_dtype(np.dtype(parts["element"]))
    return _types_of_numba.Array(
        element, int(parts["dimensions"]), parts["layout"], readonly=parts["access"] == "R"
    )


def _result_kind(result: Any) -> str:
    """As in `_PLAIN`; nothing for no result."""
    if result == types.none:
        return ""
    if result == types.boolean:
        return "b"
    if isinstance(result, types.Integer):
        return "i"
    if result == types.float64:
        return "f"
    raise TypeError(
        f"a compiled loop results in numbers, truth values, tuples of these or nothing, not in {result}"
    )
