"""How Python calls kept machine code: each function has an entry, a C function of CPython's (`METH_FASTCALL`).

An entry reads arrays where NumPy keeps them (`PyArrayObject_fields`, the same in all its versions), after a look at
type, dimensions and flags; what is not of the kind that it was made for gets NotImplemented. All addresses that it
needs are in a table, which CPython hands it as `self`. So the object code has no symbols to find and can be kept.
"""

from __future__ import annotations

import ctypes
import re
import struct
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ENTRY = "emulator_entry"
"""The symbol of an entry."""

# Places in the table. The first ones are objects, the next ones functions of CPython, then the types of arrays.
(
    NDARRAY, TUPLE, NONE, NOT_IMPLEMENTED, FAILED, MESSAGE,
    INCREF, AS_INT, AS_FLOAT, AS_BOOL, FROM_INT, FROM_FLOAT, FROM_BOOL, ERROR, CLEAR, SET_ERROR, RELEASE, RESTORE,
    NEW_TUPLE, DTYPES,
) = range(20)  # fmt: skip
_FUNCTIONS = (
    "Py_IncRef", "PyLong_AsLongLong", "PyFloat_AsDouble", "PyObject_IsTrue", "PyLong_FromLongLong",
    "PyFloat_FromDouble", "PyBool_FromLong", "PyErr_Occurred", "PyErr_Clear", "PyErr_SetString",
    "PyEval_SaveThread", "PyEval_RestoreThread", "PyTuple_New",
)  # fmt: skip
TABLE = bytes.__basicsize__ - 1
"""Where the bytes of a `bytes` object begin."""
_FASTCALL = 0x80
_WORD = re.compile(r"[(),]|[^(),]+")


class _Method(ctypes.Structure):
    """`PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


def words(kinds: str) -> Iterator[str]:
    """The parts of a list of kinds: `(`, `)`, `i`, `i8 2 C W`."""
    return (word for word in _WORD.findall(kinds) if word != ",")


def packed(*objects: bytes) -> bytes:
    """Object files as they are kept: each behind its length."""
    return b"".join(struct.pack("q", len(each)) + each for each in objects)


def load(name: str, stored: bytes, kinds: str) -> Callable[..., Any]:
    """The function that this object code is, for arguments of these kinds."""
    from llvmlite import binding  # noqa: PLC0415 - only where there is something to load

    engine = _engine(binding)
    place = 0
    while place < len(stored):
        (length,) = struct.unpack_from("q", stored, place)
        place += 8
        engine.add_object_file(binding.ObjectFileRef.from_data(stored[place : place + length]))
        place += length
    engine.finalize_object()
    method = _Method(name.encode(), engine.get_function_address(ENTRY), _FASTCALL, None)
    message = f"the loop {name} met what it cannot do: a bug; NUMBA_BOUNDSCHECK=1 tells more".encode()
    table = _table(message, [word for word in words(kinds) if " " in word])
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    function: Callable[..., Any] = make(ctypes.addressof(method), table, None)
    _KEPT.append((engine, method, message, table))
    return function


_KEPT: list[Any] = []
"""What functions point to, for as long as the process lives."""


def _table(message: bytes, arrays: list[str]) -> bytes:
    things = (np.ndarray, tuple, None, NotImplemented, RuntimeError)
    numbers = [*(id(thing) for thing in things), id(message) + TABLE]
    numbers += [_address(name) for name in _FUNCTIONS]
    numbers += [id(_dtype(array.split()[0])) for array in arrays]
    return struct.pack(f"{len(numbers)}q", *numbers)


@cache
def _address(name: str) -> int:
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


@cache
def _dtype(name: str) -> np.dtype[Any]:
    """NumPy has one object of each."""
    return np.dtype(name)


def _engine(binding: Any) -> Any:
    """One for each function, because each has copies of the functions that it calls."""
    _start(binding)
    target = binding.Target.from_default_triple().create_target_machine()
    return binding.create_mcjit_compiler(binding.parse_assembly(""), target)


@cache
def _start(binding: Any) -> None:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
