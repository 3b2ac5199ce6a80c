"""Files that appear whole or not at all: written beside their place, then renamed into it.

The one place that does so: what a reader finds is the old file or the new one, also when two write at once.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from secrets import token_hex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def replacing(path: Path, *, durable: bool = False) -> Iterator[Path]:
    """Write the file at the path that this gives; it takes the place of `path` at the end, unless something is raised.

    `durable`: it and its name survive a power cut once this has ended. Raises OSError, which names `path`.
    """
    # No two writers have the same draft: neither threads, nor processes, nor machines that share the folder.
    draft = path.with_name(f".{path.name}.{token_hex(4)}.new")
    try:
        yield draft
        if durable:
            _sync(draft)
        os.replace(draft, path)  # noqa: PTH105 - the documented atomic replacement
        if durable:
            _sync(path.parent)
    except OSError as error:
        # The system names no file where what is written into an open one finds no room.
        if error.filename == str(draft) or (error.filename is None and error.errno is not None):
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    finally:
        if os.path.lexists(draft):  # else to unlink it could fail, and hide why there is none
            draft.unlink(missing_ok=True)


def write_text(path: Path, text: str, *, durable: bool = False) -> None:
    """The file holds this text, in UTF-8. Raises OSError."""
    write_bytes(path, text.encode(), durable=durable)


def write_bytes(path: Path, content: bytes, *, durable: bool = False) -> None:
    """The file holds these bytes. Raises OSError."""
    with replacing(path, durable=durable) as draft:
        draft.write_bytes(content)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
