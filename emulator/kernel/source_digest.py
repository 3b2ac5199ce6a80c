"""Hashes of our own modules that are noted from one process to the next: reading all modules takes a while."""

from __future__ import annotations

import hashlib
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from balancer.whole_file import write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def cache_base() -> Path:
    """Where the kernels of all versions are, and notes of what is dear to find out."""
    chosen = os.environ.get("EMULATOR_CACHE_DIR")
    prefix = Path(sys.prefix)
    if chosen:
        return Path(chosen)
    if sys.prefix != sys.base_prefix and os.access(prefix, os.W_OK):
        return prefix / "var" / "emulator-kernels"
    return Path.home() / ".cache" / "emulator-kernels"


def cached_source_digest(known: Path, packages: Sequence[Path], read: Callable[[], str]) -> str:
    """A hash of modules of these packages: what `read` says, or the note of what it said the last time.

    Reading all modules takes longer than the schedule of a small log. The file `known` holds the hash as long as no
    module is another one by size and times (Python goes by size and one time for its byte code).
    """
    asked = " ".join(map(_looks, packages))
    try:
        *looks, found = known.read_text(encoding="utf-8").split()
    except (OSError, ValueError):
        looks = []  # not there, or not ours
    if " ".join(looks) != asked:
        found = read()
        with suppress(OSError):  # a folder that cannot be written: read again the next time
            known.parent.mkdir(parents=True, exist_ok=True)
            write_text(known, f"{asked} {found}\n")
    return found


def _looks(package: Path) -> str:
    """Where all modules are, how long they are, when they were written and last touched, in short.

    Images of containers give all files one time; when they were touched nobody can set.
    """
    found = hashlib.sha256()
    folders = [str(package)]
    while folders:
        with os.scandir(folders.pop()) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.name.endswith(".py"):
                    seen = entry.stat()
                    found.update(
                        f"{entry.path} {seen.st_size} {seen.st_mtime_ns} {seen.st_ctime_ns}\n".encode()
                    )
                elif entry.name != "__pycache__" and entry.is_dir():
                    folders.append(entry.path)
    return found.hexdigest()
