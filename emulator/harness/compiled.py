"""Compiles the kernel's loops (Numba) and keeps the machine code between runs.

Numba is loaded when something must be compiled. Before and after that loops are called without it (`kernel_files.py`).
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
from functools import cache, cached_property, update_wrapper
from importlib.metadata import version
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar, cast

from emulator.harness.kernel_files import described, load

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


_IMPORTED = re.compile(r"^\s*from (emulator(?:\.\w+)+) import", re.MULTILINE)
_TYPES_ONLY = re.compile(r"^if TYPE_CHECKING:\n(?:(?:[ \t].*)?\n)*", re.MULTILINE)


def _module_path(package: Path, name: str) -> Path:
    path = package.joinpath(*name.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def kernel_sources(package: Path) -> list[Path]:
    """The modules with compiled functions, and all that they import: what the machine code depends on."""
    everything = (*package.glob("harness/*.py"), *package.glob("mechanisms/**/*.py"))
    texts = {path: path.read_text(encoding="utf-8") for path in everything}
    to_read = [path for path, text in texts.items() if "from emulator.harness.compiled import" in text]
    found = set(to_read)
    while to_read:
        path = to_read.pop()
        text = texts[path] if path in texts else path.read_text(encoding="utf-8")
        imported = {_module_path(package, name) for name in _IMPORTED.findall(_TYPES_ONLY.sub("", text))}
        to_read += imported - found
        found |= imported
    return sorted(found)


@cache
def cache_folder() -> Path:
    """One folder per version of the kernels: Numba itself notices no change in a function's callees."""
    sources = kernel_sources(Path(__file__).parents[1])
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    chosen = os.environ.get("EMULATOR_CACHE_DIR")
    prefix = Path(sys.prefix)
    if chosen:
        base = Path(chosen)
    elif sys.prefix != sys.base_prefix and os.access(prefix, os.W_OK):
        base = prefix / "var" / "emulator-kernels"
    else:
        base = Path.home() / ".cache" / "emulator-kernels"
    return base / digest


@cache
def numba_here() -> Any:
    """The compiler. Loading it takes longer than replaying a year of a small site."""
    import numba  # noqa: PLC0415 - see above

    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return numba  # a read-only home: everybody compiles for himself, which is slow and right
    stale = sorted(folder.parent.iterdir(), key=lambda path: path.stat().st_mtime)[:-32]
    for old in stale:
        shutil.rmtree(old, ignore_errors=True)
    numba.config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]  # for orders with a compiled score
    return numba


# Numba counts the references of arrays at each use, with an atomic instruction, unless told that nothing is
# allocated (`_nrt`, an option it has but does not declare). The loops work on the caller's arrays only, and are
# three times faster without. Nobody calls them as Numba's Python or C functions.
_OPTIONS: dict[str, Any] = {
    "nogil": True, "_nrt": False, "no_cpython_wrapper": True, "no_cfunc_wrapper": True,
}  # fmt: skip
_BY_NUMBA = any(os.environ.get(name) for name in ("NUMBA_BOUNDSCHECK", "NUMBA_DISABLE_JIT"))
"""Somebody wants to see more than machine code tells: Numba itself says which index is out of bounds."""


class Kernel:
    """A function as machine code: compiled when it is first called in an installation, by Python or by another one."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        update_wrapper(self, function)
        self.py_func = function
        self.targetoptions = options  # Numba asks for these two where it puts a function into its callers
        self._loaded: dict[str, Callable[[list[int]], Any]] = {}

    @cached_property
    def dispatcher(self) -> Any:
        """Numba's form of it, for those that are compiled with it inside."""
        return numba_here().njit(**self.targetoptions)(self.py_func)

    @cached_property
    def _numba_type_(self) -> Any:
        """What Numba asks of a thing that compiled functions name."""
        return self.dispatcher._numba_type_

    def __call__(self, *args: Any) -> Any:
        kinds, numbers = described(args)
        function = self._loaded.get(kinds) or self._load(kinds)
        return function(numbers)

    def _load(self, kinds: str) -> Callable[[list[int]], Any]:
        """The function of arguments of these kinds, from its file; where there is none, it is made."""
        with _LOADING:
            name = f"{self.py_func.__module__}.{self.py_func.__qualname__}"
            path = cache_folder() / f"{name}-{self._made_of(kinds)}.kernel"
            try:
                function = load(name, path.read_bytes())
            except (OSError, ValueError):  # nobody has made it, or the file is damaged
                from emulator.harness.kernel_maker import make  # noqa: PLC0415 - it loads Numba

                stored = make(self, kinds)
                _keep(path, stored)
                function = load(name, stored)
            self._loaded[kinds] = function
            return function

    def _made_of(self, kinds: str) -> str:
        """What the machine code depends on besides the sources of all loops, which name the folder."""
        code = self.py_func.__code__
        text = "\n".join((kinds, _made_by(), code.co_code.hex(), str(code.co_consts), str(code.co_names)))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


_LOADING = Lock()


@cache
def _made_by() -> str:
    """Compiler and processor."""
    from llvmlite import binding  # noqa: PLC0415 - only where there is something to load

    features = binding.get_host_cpu_features().flatten()
    return f"{version('numba')} {version('llvmlite')} {sys.version} {binding.get_host_cpu_name()} {features}"


def _keep(path: Path, stored: bytes) -> None:
    """Another process may do the same at the same time. A folder that cannot be written keeps nothing."""
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
            file.write(stored)
        Path(file.name).chmod(0o644)
        Path(file.name).replace(path)
    except OSError:
        return


def compiled(function: F) -> F:
    """The function as machine code; it allocates nothing. NUMBA_BOUNDSCHECK=1 checks indices."""
    return _made(function, _OPTIONS)


def inlined(function: F) -> F:
    """As `compiled`, and put into its callers: passing the arrays costs as much as the work of a start."""
    return _made(function, _OPTIONS | {"inline": "always"})


def _made(function: F, options: dict[str, Any]) -> F:
    if _BY_NUMBA:
        to_look_at = options | {"no_cpython_wrapper": False}
        return cast("F", numba_here().njit(**to_look_at)(function))
    return cast("F", Kernel(function, options))
