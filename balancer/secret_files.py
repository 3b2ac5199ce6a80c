"""Small files of secrets or their digests: replaced whole, readable by the owner only, read again when changed.

What root writes belongs to the service: to whoever has the file that is replaced, or else the folder.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from balancer.whole_file import replacing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Stamp = tuple[int, int, int]


class AuthFileError(Exception):
    """A file of tokens or keys cannot be used; the text names it and says what to do."""


def stamp(path: Path) -> Stamp | None:
    """Changes whenever the file does; None: there is none. Raises AuthFileError."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise AuthFileError(f"{path} cannot be read: {error.strerror}") from error
    return status.st_mtime_ns, status.st_size, status.st_ino


def read(path: Path) -> str:
    """The text; empty when there is no file. Raises AuthFileError."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise AuthFileError(f"{path} cannot be read: {error}") from error


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One writer at a time. Raises AuthFileError."""
    try:
        descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise AuthFileError(f"{path} cannot be written: {error.strerror}") from error
    try:
        _give_to_service(descriptor, path)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _give_to_service(descriptor: int, path: Path) -> None:
    """What root opened. Raises AuthFileError."""
    if os.geteuid() != 0:
        return
    try:
        owner = (path if path.exists() else path.absolute().parent).stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    except OSError as error:
        raise AuthFileError(f"{path} cannot be given to the service's user: {error.strerror}") from error


def replace(path: Path, text: str, *, mode: int = 0o600) -> None:
    """The whole file, durably, or nothing. Raises AuthFileError."""
    try:
        with replacing(path, durable=True) as draft:
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                _give_to_service(descriptor, path)
                os.fchmod(descriptor, mode)
                file.write(text)
    except OSError as error:
        raise AuthFileError(f"{path} cannot be written: {error.strerror}") from error
