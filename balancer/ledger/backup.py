"""A copy of an SQLite ledger while it is in use, and putting one back. PostgreSQL has programs of its own for that."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from balancer.ledger.connect import is_sqlite, url_of
from balancer.ledger.errors import LedgerError
from balancer.ledger.files import Head, HeadFile
from balancer.ledger.home import Home, is_left_here, lock
from balancer.ledger.reader import open_to_read
from balancer.ledger.verify import verify

if TYPE_CHECKING:
    from balancer.ledger.lease import Seen


def back_up(db: str, to: Path) -> str:
    """Copies the ledger as it is at one moment, also while a service writes; what the copy was found to be.

    Raises LedgerError; then there is no copy.
    """
    source = _file(db)
    open_to_read(source).close()  # one of ours, of this release
    if to.exists():
        raise LedgerError(f"{to} is there already: a backup does not replace a file")
    beside = to.with_name(f"{to.name}.new")
    _copy(source, beside)
    try:
        summary = _sound(beside)
    except LedgerError:
        _remove(beside)
        raise
    _move(beside, to)
    return summary


def restore(db: str, backup: Path) -> tuple[str, Seen, Path | None]:
    """Puts a backup in the place of the ledger, while no service uses it. Raises LedgerError; nothing is changed then.

    What the backup was found to be, who wrote it, and where the ledger is that was there. The next start quarantines
    nodes that were lent in the backup, unless nothing was stored since.
    """
    target = _file(db)
    summary = _sound(backup)
    is_left = is_left_here(target)
    descriptor = lock(target, 0.0)
    try:
        beside = target.with_name(f"{target.name}.new")
        _copy(backup, beside)
        with closing(open_to_read(backup)) as reader:
            writer = reader.writer()
        if HeadFile(target).read() != Head(writer.ledger_id, writer.seq, writer.head):
            with closing(sqlite3.connect(beside)) as connection, connection:
                doubt = f"it was put back from {backup.name}, as of event {writer.seq}"
                connection.execute("UPDATE writer SET doubt = ?", (doubt,))
        replaced = _set_aside(target)
        _move(beside, target)
        Home(descriptor, target, is_left=is_left)
    finally:
        os.close(descriptor)
    return summary, writer, replaced


def _file(db: str) -> Path:
    url = url_of(db)
    if not is_sqlite(url):
        raise LedgerError(
            "a ledger in PostgreSQL is backed up with pg_dump: docs/balancer/backup.md says how"
        )
    return Path(url.database or "")


def _sound(ledger: Path) -> str:
    """What it was found to be. Raises LedgerError for one that is damaged."""
    with closing(open_to_read(ledger)) as reader:
        found, summary = verify(reader)
    if found:
        raise LedgerError(f"{ledger} is not sound: {'; '.join(found[:3])}")
    return summary


def _copy(source: Path, to: Path) -> None:
    _remove(to)
    try:
        os.close(os.open(to, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with (
            closing(sqlite3.connect(f"file:{quote(str(source))}?mode=rw", uri=True)) as origin,
            closing(sqlite3.connect(to)) as other,
        ):
            origin.backup(other)
    except (OSError, sqlite3.Error) as error:
        _remove(to)
        raise LedgerError(f"{source} cannot be copied to {to}: {error}") from error


def _set_aside(ledger: Path) -> Path | None:
    """The ledger that is there, with its log, gets another name."""
    if not ledger.exists():
        _remove(ledger)
        return None
    number = 1
    while (aside := ledger.with_name(f"{ledger.name}.replaced-{number}")).exists():
        number += 1
    for end in ("-wal", "-shm"):
        with suppress(FileNotFoundError):
            Path(f"{ledger}{end}").rename(f"{aside}{end}")
    return ledger.rename(aside)


def _move(file: Path, to: Path) -> None:
    """Durable when this returns."""
    for path in (file, to.parent):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if path is file:
            file.rename(to)


def _remove(ledger: Path) -> None:
    for end in ("", "-wal", "-shm"):
        Path(f"{ledger}{end}").unlink(missing_ok=True)
