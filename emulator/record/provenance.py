"""What a result depends on besides its scenario and seed: the code, the libraries and the files that it read."""

from __future__ import annotations

import hashlib
import os
import platform
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulator.kernel.source_digest import cache_base, cached_source_digest

if TYPE_CHECKING:
    from collections.abc import Iterator

_PACKAGES = ("balancer", "emulator")
_LIBRARIES = ("numpy", "numba", "pyarrow")
_SHOWN = 16
"""Digits of a hash of sources: enough to tell versions, short enough to read."""


def versions() -> dict[str, str]:
    """Versions of what figures depend on; `sources` tells what a number cannot: that somebody changed the code."""
    return {
        "emulator": _version("balancer-emulator"),
        "sources": sources(),
        "python": platform.python_version(),
        **{name: _version(name) for name in _LIBRARIES},
    }


_version = cache(version)
"""What is installed is looked up once: a sweep of 1,560 runs asked for seconds."""


@cache
def sources() -> str:
    """Hash of the Python code of both products, as it is on this disk: 16 hexadecimal digits."""
    return cached_source_digest(
        cache_base() / ".sources", [Path(folder) for _, folder in _folders()], _read_sources
    )


def _folders() -> Iterator[tuple[str, str]]:
    for package in _PACKAGES:
        spec = find_spec(package)
        for folder in (spec.submodule_search_locations if spec else None) or ():
            yield package, folder


def _read_sources() -> str:
    digest = hashlib.sha256()
    for package, folder in _folders():
        for inner, _, names in sorted(os.walk(folder)):
            for name in sorted(name for name in names if name.endswith(".py")):
                digest.update(f"{package}{inner.removeprefix(folder)}/{name}\0".encode())
                with open(f"{inner}/{name}", "rb") as file:  # noqa: PTH123 - 450 files at each start
                    digest.update(file.read())
    return digest.hexdigest()[:_SHOWN]


def file_digest(path: Path) -> str:
    """Hash of a file's content, or of a folder's files; read again only when they are others or have changed."""
    files = [file for file in (sorted(path.iterdir()) if path.is_dir() else [path]) if file.is_file()]
    return _digest(tuple((str(file), *_stamp(file)) for file in files), are_named=path.is_dir())


def _stamp(file: Path) -> tuple[int, int, int]:
    found = file.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


@cache
def _digest(files: tuple[tuple[str, int, int, int], ...], *, are_named: bool) -> str:
    digest = hashlib.sha256()
    for name, *_ in files:
        path = Path(name)
        digest.update(path.name.encode() if are_named else b"")
        with path.open("rb") as content:
            digest.update(hashlib.file_digest(content, "sha256").digest())
    return digest.hexdigest()


def traces(workload: Any) -> tuple[Path, ...]:
    """The files and folders that a workload (in JSON's types) reads and that exist: whatever is called `trace`."""
    return tuple(path for path in _named_traces(workload) if path.exists())


def _named_traces(part: Any) -> Iterator[Path]:
    if isinstance(part, dict):
        for key, value in part.items():
            if key == "trace" and isinstance(value, str):
                yield Path(value)
            else:
                yield from _named_traces(value)
    elif isinstance(part, list):
        for value in part:
            yield from _named_traces(value)
