"""Compiles a function and its entry with Numba. Only processes that find no code of it import this."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from llvmlite import binding, ir
from numba import types
from numba.np import arrayobj, numpy_support

from emulator.harness import entries as e
from emulator.harness.compiled import cache_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from emulator.harness.compiled import Kernel

_FOLDER = cache_folder()
if _FOLDER is not None:
    # Numba itself notices no change in a function's callees: the folder is that of one version of all.
    numba.config.CACHE_DIR = str(_FOLDER)  # type: ignore[attr-defined]

_populate_array: Any = arrayobj.populate_array
_types_of_numba: Any = types  # of which few have types of their own
_INT, _INT32, _FLOAT = ir.IntType(64), ir.IntType(32), ir.DoubleType()
# `PyArrayObject_fields` and `PyTupleObject`: where, in bytes, and NumPy's flags.
_TYPE, _DATA, _DIMENSIONS, _SHAPE, _STRIDES, _DTYPE, _FLAGS = 8, 16, 24, 32, 40, 56, 64
_LENGTH, _ITEMS = 16, 24
_CONTIGUOUS, _ALIGNED, _WRITEABLE = 0x1, 0x100, 0x400


def numba_form(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    return numba.njit(**options)(function)


def compile_entry(kernel: Kernel, kinds: str) -> bytes:
    """The object code of a function and its entry for arguments of these kinds, as it is kept."""
    argument_types = tuple(_types(e.words(kinds)))
    kernel.dispatcher.compile(argument_types)
    made = kernel.dispatcher.overloads[argument_types]
    entry = binding.parse_assembly(str(_Entry(made).module))
    # As Numba keeps code in its own cache: optimised, with copies of all that it calls.
    library = made.library
    target = library._codegen._tm  # noqa: SLF001
    return e.packed(target.emit_object(library._get_module_for_linking()), target.emit_object(entry))  # noqa: SLF001


class _Entry:
    """`PyObject *ENTRY(PyObject *table, PyObject **args, int64 count)`; addresses are whole numbers here."""

    def __init__(self, made: Any) -> None:
        self._context, self._types, self._result = (
            made.target_context,
            made.signature.args,
            made.signature.return_type,
        )
        self.module = self._context.create_module(e.ENTRY)
        function = ir.Function(self.module, ir.FunctionType(_INT, [_INT] * 3), e.ENTRY)
        self._table, arguments, count = function.args
        self._builder = ir.IRBuilder(function.append_basic_block("entry"))
        self._odd = function.append_basic_block("odd")
        self._arrays = 0
        self._expect(count, len(self._types))
        values = [self._value(kind, self._at(arguments, 8 * place)) for place, kind in enumerate(self._types)]
        self._call(made.fndesc.llvm_func_name, values)
        self._builder.position_at_end(self._odd)
        self._return(self._thing(e.NOT_IMPLEMENTED))

    def _at(self, address: Any, offset: int, kind: Any = _INT) -> Any:
        """What is in memory there."""
        b = self._builder
        place = b.add(address, ir.Constant(_INT, offset))
        return b.load(b.inttoptr(place, kind.as_pointer()))

    def _thing(self, place: int) -> Any:
        return self._at(self._table, e.TABLE + 8 * place)

    def _python(self, place: int, result: Any, *args: Any) -> Any:
        """Call a function of CPython."""
        kind = ir.FunctionType(result, [arg.type for arg in args])
        return self._builder.call(self._builder.inttoptr(self._thing(place), kind.as_pointer()), args)

    def _expect(self, found: Any, wanted: Any) -> None:
        """Go on if they are equal, else it is for another entry."""
        b = self._builder
        wanted = ir.Constant(found.type, wanted) if isinstance(wanted, int) else wanted
        goes_on = b.append_basic_block("goes_on")
        b.cbranch(b.icmp_signed("==", found, wanted), goes_on, self._odd)
        b.position_at_end(goes_on)

    def _return(self, thing: Any) -> None:
        self._python(e.INCREF, ir.VoidType(), thing)
        self._builder.ret(thing)

    def _value(self, kind: Any, thing: Any) -> Any:
        """The argument `thing` as the function takes it."""
        b = self._builder
        if isinstance(kind, _types_of_numba.BaseTuple):
            self._expect(self._at(thing, _TYPE), self._thing(e.TUPLE))
            self._expect(self._at(thing, _LENGTH), len(kind.types))
            items = [self._value(each, self._at(thing, _ITEMS + 8 * k)) for k, each in enumerate(kind.types)]
            return self._context.make_tuple(b, kind, items)
        if isinstance(kind, types.Array):
            return self._array(kind, thing)
        if kind == types.boolean:
            return b.trunc(self._python(e.AS_BOOL, _INT32, thing), self._context.get_value_type(kind))
        value = self._python(*((e.AS_FLOAT, _FLOAT) if kind == types.float64 else (e.AS_INT, _INT)), thing)
        self._expect_no_error()
        return value

    def _expect_no_error(self) -> None:
        b = self._builder
        failed, goes_on = b.append_basic_block("failed"), b.append_basic_block("goes_on")
        error = self._python(e.ERROR, _INT)
        b.cbranch(b.icmp_signed("==", error, ir.Constant(_INT, 0)), goes_on, failed)
        b.position_at_end(failed)
        self._python(e.CLEAR, ir.VoidType())
        b.branch(self._odd)
        b.position_at_end(goes_on)

    def _array(self, kind: types.Array, thing: Any) -> Any:
        b, context = self._builder, self._context
        self._expect(self._at(thing, _TYPE), self._thing(e.NDARRAY))
        self._expect(self._at(thing, _DTYPE), self._thing(e.DTYPES + self._arrays))
        self._arrays += 1
        self._expect(self._at(thing, _DIMENSIONS, _INT32), kind.ndim)
        flags = _ALIGNED | (_CONTIGUOUS if kind.layout == "C" else 0) | (_WRITEABLE if kind.mutable else 0)
        self._expect(b.and_(self._at(thing, _FLAGS, _INT32), ir.Constant(_INT32, flags)), flags)
        lengths, steps = self._at(thing, _SHAPE), self._at(thing, _STRIDES)
        array = context.make_array(kind)(context, b)
        size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
        _populate_array(
            array,
            data=b.inttoptr(self._at(thing, _DATA), array.data.type),
            shape=[self._at(lengths, 8 * k) for k in range(kind.ndim)],
            strides=[self._at(steps, 8 * k) for k in range(kind.ndim)],
            itemsize=ir.Constant(_INT, size),
            meminfo=None,
        )
        return array._getvalue()  # noqa: SLF001 - as Numba's own `carray` does

    def _call(self, name: str, values: list[Any]) -> None:
        """Let other threads run meanwhile, and make a Python object of the result."""
        b, convention = self._builder, self._context.call_conv
        called = ir.Function(self.module, convention.get_function_type(self._result, self._types), name)
        thread = self._python(e.RELEASE, _INT)
        status, value = convention.call_function(b, called, self._result, self._types, values)
        self._python(e.RESTORE, ir.VoidType(), thread)
        with b.if_then(status.is_error, likely=False):
            self._python(e.SET_ERROR, ir.VoidType(), self._thing(e.FAILED), self._thing(e.MESSAGE))
            b.ret(ir.Constant(_INT, 0))
        b.ret(self._object(self._result, value))

    def _object(self, kind: Any, value: Any) -> Any:
        """A new object of Python."""
        b = self._builder
        if kind == types.none:
            none = self._thing(e.NONE)
            self._python(e.INCREF, ir.VoidType(), none)
            return none
        if kind == types.float64:
            return self._python(e.FROM_FLOAT, _INT, value)
        if kind == types.boolean:
            return self._python(e.FROM_BOOL, _INT, b.zext(value, _INT))
        if isinstance(kind, types.Integer):
            wide = value if value.type.width == _INT.width else b.sext(value, _INT)
            return self._python(e.FROM_INT, _INT, wide)
        if isinstance(kind, _types_of_numba.BaseTuple):
            made = self._python(e.NEW_TUPLE, _INT, ir.Constant(_INT, len(kind)))
            for place, each in enumerate(kind.types):
                item = b.add(made, ir.Constant(_INT, _ITEMS + 8 * place))
                item = b.inttoptr(item, _INT.as_pointer())
                b.store(self._object(each, b.extract_value(value, place)), item)
            return made
        raise TypeError(
            f"a compiled loop results in numbers, truth values, tuples of these or nothing, not in {kind}"
        )


def _types(words: Iterator[str]) -> Iterator[Any]:
    """Numba's types of kinds (`compiled._kind`)."""
    plain = {"b": types.boolean, "i": types.int64, "f": types.float64}
    for word in words:
        if word == ")":
            return
        if word == "(":
            yield _types_of_numba.BaseTuple.from_types(tuple(_types(words)))
        elif word in plain:
            yield plain[word]
        else:
            dtype, dimensions, layout, can = word.split(" ")
            element = numpy_support.from_dtype(np.dtype(dtype))
            yield _types_of_numba.Array(element, int(dimensions), layout, readonly=can == "R")
