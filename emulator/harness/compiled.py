"""Compiles the kernel's loops (Numba) and keeps the machine code between runs."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numba

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


def _cache_folder() -> Path:
    """One folder per version of the sources: Numba itself notices no change in a function's callees."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
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


def _use_cache() -> None:
    folder = _cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return  # a read-only home: Numba compiles at every start, which is slow and right
    stale = sorted(folder.parent.iterdir(), key=lambda path: path.stat().st_mtime)[:-8]
    for old in stale:
        shutil.rmtree(old, ignore_errors=True)
    numba.config.CACHE_DIR = str(folder)  # type: ignore[attr-defined]


_use_cache()


def compiled(function: F) -> F:
    """The function as machine code. Arrays are not bounds-checked unless NUMBA_BOUNDSCHECK=1 is set."""
    return cast("F", numba.njit(cache=True, nogil=True)(function))
