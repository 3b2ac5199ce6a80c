"""Compiles the kernel's loops (Numba) and keeps the machine code between runs.

Nothing of Numba is loaded before a loop is called: a command that calls none does not wait for it.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from functools import cache, cached_property, update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from emulator.kernel.source_digest import cache_base, cached_source_digest

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


_IMPORTED = re.compile(r"^\s*from (emulator(?:\.\w+)+) import", re.MULTILINE)
_TYPES_ONLY = re.compile(r"^if TYPE_CHECKING:\n(?:(?:[ \t].*)?\n)*", re.MULTILINE)


_MAKERS = ("kernel/compiled_parts.py", "kernel/kernel_cache.py")
"""How machine code is made and kept."""
_PLACES = (
    "kernel/*.py", "record/*.py", "cluster/*.py", "machine/*.py", "mechanisms/**/*.py", "schedulers/**/*.py", "rl/*.py",
)  # fmt: skip
"""Where compiled functions are."""


def _module_path(package: Path, name: str) -> Path:
    path = package.joinpath(*name.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def kernel_sources(package: Path) -> list[Path]:
    """The modules with compiled functions, how these are compiled, and all that both import."""
    everything = [each for place in _PLACES for each in package.glob(place)]
    texts = {path: path.read_text(encoding="utf-8") for path in everything}
    to_read = [path for path, text in texts.items() if "from emulator.kernel.compiled import" in text]
    to_read += [path for path in map(package.joinpath, _MAKERS) if path in texts]
    found = set(to_read)
    while to_read:
        path = to_read.pop()
        text = texts[path] if path in texts else path.read_text(encoding="utf-8")
        imported = {_module_path(package, name) for name in _IMPORTED.findall(_TYPES_ONLY.sub("", text))}
        to_read += imported - found
        found |= imported
    return sorted(found)


def version_of(package: Path, known: Path) -> str:
    """What the kernels of a package were made of: a hash of all their sources, noted in the file `known`."""
    return cached_source_digest(known, (package,), lambda: _hash_of(kernel_sources(package)))


def _hash_of(sources: list[Path]) -> str:
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:16]


@cache
def _folder(base: Path) -> Path:
    package = Path(__file__).parents[1]
    return base / version_of(package, base / ".version")


def cache_folder() -> Path:
    """One folder per version of the kernels: Numba itself notices no change in a function's callees."""
    return _folder(cache_base())


def is_first_time() -> bool:
    """Whether the loops of this version have never been compiled here."""
    folder = cache_folder()
    return not folder.exists() or not any(folder.iterdir())


@cache
def compiler() -> Any:
    """The compiler, told where to keep what it makes. Loading it takes longer than replaying a year of a small site."""
    import numba  # noqa: PLC0415 - see above

    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        numba.config.CACHE_DIR = ""  # type: ignore[attr-defined]
        return numba  # a read-only home: Numba compiles at every start, which is slow and right
    versions = [path for path in folder.parent.iterdir() if path.is_dir()]
    stale = sorted(versions, key=lambda path: path.stat().st_mtime)[:-32]
    for old in stale:
        shutil.rmtree(old, ignore_errors=True)
    numba.config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]
    return numba


def keeps_code() -> bool:
    """Whether there is a folder for what is compiled. Beside its source nobody would notice that a callee changed."""
    return bool(compiler().config.CACHE_DIR)


# Numba counts the references of arrays at each use, with an atomic instruction, unless told that nothing is
# allocated (`_nrt`, an option it has but does not declare). The loops work on the caller's arrays only, and are
# three times faster without.
_OPTIONS: dict[str, Any] = {"nopython": True, "nogil": True, "_nrt": False, "no_cfunc_wrapper": True}


class Kernel:
    """A function that Numba compiles when it is first called, by Python or by another one."""

    def __init__(self, function: Callable[..., Any], *, always_inline: bool = False) -> None:
        update_wrapper(self, function)
        self.py_func = function
        self._always_inline = always_inline

    @cached_property
    def dispatcher(self) -> Any:
        """Numba's form of it, as Python calls it: kept in the cache with all that it calls."""
        numba = compiler()
        from emulator.kernel.compiled_parts import Whole, WholeDispatcher  # noqa: PLC0415 - it needs Numba
        from emulator.kernel.kernel_cache import keep  # noqa: PLC0415

        if numba.config.DISABLE_JIT:
            return self.py_func
        whole = WholeDispatcher(self.py_func, targetoptions=dict(_OPTIONS), pipeline_class=Whole)
        return keep(whole) if keeps_code() else whole

    @cached_property
    def part(self) -> Any:
        """Numba's form of it, as other compiled functions call it (`compiled_parts.py`)."""
        from emulator.kernel.compiled_parts import Part, PartDispatcher  # noqa: PLC0415 - only to compile

        options = _OPTIONS | {"no_cpython_wrapper": True, "forceinline": self._always_inline}
        return PartDispatcher(self.py_func, targetoptions=options, pipeline_class=Part)

    @property
    def _numba_type_(self) -> Any:
        """What Numba asks of a thing that compiled functions name."""
        return self.part._numba_type_

    def __call__(self, *args: Any) -> Any:
        return self.dispatcher(*args)

    def entry(self, *args: Any) -> Any:
        """The machine code for arguments of these types. It does not look at the types of those that it gets."""
        dispatcher = self.dispatcher
        if dispatcher is self.py_func:
            return dispatcher
        return dispatcher.compile(tuple(map(dispatcher.typeof_pyval, args)))


def compiled(function: F) -> F:
    """The function as machine code; it allocates nothing. NUMBA_BOUNDSCHECK=1 checks indices."""
    return cast("F", Kernel(function))


def inlined(function: F) -> F:
    """As `compiled`, and put into its callers: passing the arrays costs as much as the work of a start."""
    return cast("F", Kernel(function, always_inline=True))


def inner(function: F) -> F:
    """As `compiled`, for what only compiled functions call."""
    return compiled(function)
