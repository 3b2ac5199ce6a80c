"""Checkpoints of a job: small files in a shared folder, each one whole or not there at all."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from balancer.whole_file import write_text

if TYPE_CHECKING:
    from pathlib import Path

_KEPT = 3


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """`done` node-microseconds of `total`; `number` counts the checkpoints of the job from 1."""

    number: int
    done: int
    total: int


class Checkpoints:
    """The checkpoints of the job `name` in `folder`, which need not exist yet.

    A file is written beside its place, flushed to the disk and renamed, so that neither the end of the process nor
    that of its node leaves half a checkpoint under a good name; a hash tells a file that was damaged later.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name

    def save(self, done: int, total: int) -> Checkpoint:
        """Write the next one and drop the oldest."""
        self._folder.mkdir(parents=True, exist_ok=True)
        numbers = self._numbers()
        made = Checkpoint(max(numbers, default=0) + 1, done, total)
        content = {"number": made.number, "done": done, "total": total}
        text = json.dumps(content | {"sha256": _digest(content)})
        write_text(self._path(made.number), text, durable=True)
        for number in sorted(numbers)[: -_KEPT + 1]:
            self._path(number).unlink(missing_ok=True)
        return made

    def newest(self, most: int | None = None) -> Checkpoint | None:
        """The newest whole checkpoint of not more than `most` work; None if there is none."""
        found = (self._read(number) for number in sorted(self._numbers(), reverse=True))
        return next(
            (each for each in found if each is not None and (most is None or each.done <= most)), None
        )

    def _path(self, number: int) -> Path:
        return self._folder / f"{self._name}.checkpoint-{number:06d}"

    def _numbers(self) -> list[int]:
        texts = [path.name.rpartition("-")[2] for path in self._folder.glob(f"{self._name}.checkpoint-*")]
        return [int(text) for text in texts if text.isdecimal()]

    def _read(self, number: int) -> Checkpoint | None:
        try:
            content = json.loads(self._path(number).read_text(encoding="utf-8"))
            digest = content.pop("sha256")
            found = Checkpoint(int(content["number"]), int(content["done"]), int(content["total"]))
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None  # damaged, or dropped meanwhile: an older one will do
        return found if digest == _digest(content) else None


def _digest(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
