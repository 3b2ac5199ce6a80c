"""The jobs of a log in memory that processes share: the first of them reads the log, the others map what it found."""

from __future__ import annotations

import fcntl
import hashlib
import json
import mmap
import pickle
from contextvars import ContextVar
from typing import TYPE_CHECKING, cast

from balancer.whole_file import replacing

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from emulator.workload.workload import Workload

FOLDER: ContextVar[Path | None] = ContextVar("FOLDER", default=None)
"""Where such workloads lie for as long as the processes live; None where a process has its own."""
_ALIGNED = 64


def shared(key: str, make: Callable[[], Workload]) -> Workload:
    """What `make` makes; with a FOLDER only one process makes it. What one changes in its arrays no other sees."""
    folder = FOLDER.get()
    if folder is None:
        return make()
    path = folder / hashlib.sha256(key.encode()).hexdigest()[:32]
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            _write(path, make())
    return _mapped(path)


def _write(path: Path, work: Workload) -> None:
    """A line with the lengths of what follows: the pickle without its arrays, then each array; each begins aligned."""
    arrays: list[pickle.PickleBuffer] = []
    text = pickle.dumps(work, protocol=5, buffer_callback=arrays.append)
    parts = [memoryview(text), *(each.raw() for each in arrays)]
    with replacing(path) as draft, draft.open("wb") as file:
        file.write(json.dumps([len(part) for part in parts]).encode() + b"\n")
        for part in parts:
            file.seek(_aligned(file.tell()))
            file.write(part)


def _mapped(path: Path) -> Workload:
    with path.open("rb") as file:
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    place = memory.find(b"\n") + 1
    parts = []
    for length in json.loads(memory[:place]):
        place = _aligned(place)
        parts.append(memoryview(memory)[place : place + length])
        place += length
    return cast("Workload", pickle.loads(parts[0], buffers=parts[1:]))  # noqa: S301 - a file of our own, in a folder that only we can write into


def _aligned(place: int) -> int:
    return -(-place // _ALIGNED) * _ALIGNED
