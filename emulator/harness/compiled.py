"""Loops as machine code (Numba), kept between runs and called without Numba.

Loading Numba takes ten times as long as replaying a year of a small site. So what it makes is kept as object code with
an entry of our own: one function that takes the address of a block of numbers. A process that finds the code loads it
with LLVM's binding alone; one that does not compiles first (`machine_code.py`), and then goes the same way.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import sys
import tempfile
from functools import cache, cached_property, update_wrapper
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from emulator.harness.entries import load

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")

_IMPORTED = re.compile(r"^\s*from (emulator(?:\.\w+)+) import", re.MULTILINE)
_TYPES_ONLY = re.compile(r"^if TYPE_CHECKING:\n(?:(?:[ \t].*)?\n)*", re.MULTILINE)
_MARKS = ("from emulator.harness.compiled import", "from numba import", "import numba")
_MOST_VERSIONS = 32


def _module_path(package: Path, name: str) -> Path:
    path = package.joinpath(*name.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def kernel_sources(package: Path) -> list[Path]:
    """The modules with compiled functions, and all that they import: what the machine code depends on."""
    everything = (*package.glob("harness/*.py"), *package.glob("mechanisms/**/*.py"))
    texts = {path: path.read_text(encoding="utf-8") for path in everything}
    to_read = [path for path, text in texts.items() if any(mark in text for mark in _MARKS)]
    found = set(to_read)
    while to_read:
        path = to_read.pop()
        text = texts[path] if path in texts else path.read_text(encoding="utf-8")
        imported = {_module_path(package, name) for name in _IMPORTED.findall(_TYPES_ONLY.sub("", text))}
        to_read += imported - found
        found |= imported
    return sorted(found)


@cache
def cache_folder() -> Path | None:
    """One folder per version of the kernels, of Numba and of the processor; None where nothing can be kept."""
    from llvmlite import binding  # noqa: PLC0415 - only where there is something to load

    digest = hashlib.sha256(b"".join(path.read_bytes() for path in kernel_sources(Path(__file__).parents[1])))
    processor = f"{binding.get_host_cpu_name()} {binding.get_host_cpu_features().flatten()}"
    made_by = (
        version("numba"),
        version("llvmlite"),
        platform.machine(),
        platform.python_version(),
        processor,
    )
    digest.update("\n".join(made_by).encode())
    chosen = os.environ.get("EMULATOR_CACHE_DIR")
    prefix = Path(sys.prefix)
    if chosen:
        base = Path(chosen)
    elif sys.prefix != sys.base_prefix and os.access(prefix, os.W_OK):
        base = prefix / "var" / "emulator-kernels"
    else:
        base = Path.home() / ".cache" / "emulator-kernels"
    folder = base / digest.hexdigest()[:16]
    try:
        if not folder.exists():
            folder.mkdir(parents=True, exist_ok=True)
            for old in sorted(base.iterdir(), key=lambda path: path.stat().st_mtime)[:-_MOST_VERSIONS]:
                shutil.rmtree(old, ignore_errors=True)
    except OSError:
        return None  # a read-only home: everybody compiles for himself, which is slow and right
    return folder


# Numba counts the references of arrays at each use, with an atomic instruction, unless told that nothing is
# allocated (`_nrt`, an option it has but does not declare). The loops work on the caller's arrays only, and are
# three times faster without. Nobody calls them as Numba's Python or C functions.
_OPTIONS: dict[str, Any] = {
    "cache": True, "nogil": True, "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True,
}  # fmt: skip


class Kernel:
    """A function as machine code, for any kind of arguments: numbers, truth values, arrays, tuples of these.

    Its result is a number, a truth value, a tuple of these or None. Compiled functions see Numba's form of it.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        update_wrapper(self, function)
        self.py_func = function
        self.targetoptions = options  # Numba asks for these two where it puts a function into its callers
        self._entries: dict[str, Callable[..., Any]] = {}
        self._usual: Callable[..., Any] = _no_entry

    @cached_property
    def dispatcher(self) -> Any:
        """Numba's form."""
        from emulator.harness.machine_code import numba_form  # noqa: PLC0415 - it loads Numba

        return numba_form(self.py_func, self.targetoptions)

    @property
    def _numba_type_(self) -> Any:
        return self.dispatcher._numba_type_

    def __call__(self, *args: Any) -> Any:
        result = self._usual(*args)
        if result is not NotImplemented:
            return result
        args = tuple(_plain(arg) for arg in args)
        kinds = ",".join(_kind(arg) for arg in args)
        entry = self._entries.get(kinds)
        if entry is None:
            entry = self._entries[kinds] = _entry(self, kinds)
            if self._usual is _no_entry:
                self._usual = entry
        result = entry(*args)
        if result is NotImplemented:
            raise TypeError(f"{self.py_func.__qualname__} cannot take arguments of kinds {kinds}")
        return result


def _no_entry(*_: Any) -> Any:
    return NotImplemented


def compiled(function: F) -> F:
    """The function as machine code; it allocates nothing. NUMBA_BOUNDSCHECK=1 checks indices."""
    return _made(function, _OPTIONS)


def inlined(function: F) -> F:
    """As `compiled`, and put into its callers: passing the arrays costs as much as the work of a start."""
    return _made(function, _OPTIONS | {"inline": "always"})


def _made(function: F, options: dict[str, Any]) -> F:
    kernel = Kernel(function, options)
    # Numba itself says which index is out of bounds, or runs the Python text.
    to_debug = os.environ.get("NUMBA_BOUNDSCHECK") or os.environ.get("NUMBA_DISABLE_JIT")
    return cast("F", kernel.dispatcher if to_debug else kernel)


# What arguments are.

_KINDS = "biuf"


def _plain(arg: Any) -> Any:
    """The same memory, of a type that entries know by its address."""
    if isinstance(arg, np.ndarray):
        return arg.view(np.ndarray).view(np.dtype(arg.dtype.str))
    return tuple(_plain(each) for each in arg) if isinstance(arg, tuple) else arg


def _kind(arg: Any) -> str:
    """`b`, `i`, `f`; of an array type, dimensions, C for contiguous (else A), W where it may be written (else R)."""
    if isinstance(arg, np.ndarray):
        dtype, flags = arg.dtype, arg.flags
        if dtype.kind not in _KINDS or not dtype.isnative:
            raise TypeError(f"a compiled loop takes arrays of numbers, not of {dtype}")
        layout, can = "C" if flags.c_contiguous else "A", "W" if flags.writeable else "R"
        return f"{dtype.str[1:]} {arg.ndim} {layout} {can}"
    if isinstance(arg, bool | np.bool_):
        return "b"
    if isinstance(arg, int | np.integer):
        return "i"
    if isinstance(arg, float | np.floating):
        return "f"
    if isinstance(arg, tuple):
        return f"({','.join(_kind(each) for each in arg)})"
    raise TypeError(
        f"a compiled loop takes numbers, truth values, arrays and tuples of these, not {type(arg)}"
    )


# From object code to something to call.

_LOADING = Lock()


def _entry(kernel: Kernel, kinds: str) -> Callable[..., Any]:
    with _LOADING:
        code = kernel.py_func.__code__
        made_of = (kinds, code.co_code.hex(), str(code.co_consts), str(code.co_names))
        digest = hashlib.sha256("\n".join(made_of).encode()).hexdigest()[:16]
        name = f"{kernel.py_func.__module__}.{kernel.py_func.__qualname__}"
        folder = cache_folder()
        path = None if folder is None else folder / f"{name}-{digest}.kernel"
        if path is not None and path.exists():
            stored = path.read_bytes()
        else:
            from emulator.harness.machine_code import compile_entry  # noqa: PLC0415 - it loads Numba

            stored = compile_entry(kernel, kinds)
            if path is not None:
                _keep(path, stored)
        return load(name, stored, kinds)


def _keep(path: Path, stored: bytes) -> None:
    """Another process may do the same at the same time."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
        file.write(stored)
    Path(file.name).chmod(0o644)
    Path(file.name).replace(path)
