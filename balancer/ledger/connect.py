"""Connections to SQLite (the default) and PostgreSQL that are as durable as an answer has to be."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError

from balancer.ledger.errors import LedgerError
from balancer.ledger.filesystem import free_bytes
from balancer.ledger.statements import BEGIN, run_on_driver

_BUSY_TIMEOUT_MS = 5000


def url_of(target: str | Path) -> sa.URL:
    """An SQLAlchemy URL, or a file path (SQLite). Raises LedgerError."""
    text = str(target)
    if "://" not in text:
        return sa.make_url(f"sqlite:///{Path(text).absolute()}")
    try:
        url = sa.make_url(text)
    except SQLAlchemyError as error:
        raise LedgerError(f"the ledger's URL cannot be read: {error}") from error
    if url.drivername in ("postgresql", "postgres"):
        url = url.set(drivername="postgresql+psycopg")
    if url.drivername not in ("sqlite", "postgresql+psycopg"):
        raise LedgerError(
            f"a ledger is a file (SQLite) or postgresql://user@host/database, not {url.drivername}"
        )
    return url


def shown(url: sa.URL) -> str:
    """The URL as it may stand in a log: the file, or the URL without its password."""
    return url.database or "" if is_sqlite(url) else url.render_as_string(hide_password=True)


def is_sqlite(url: sa.URL) -> bool:
    return url.get_backend_name() == "sqlite"


def cause(error: SQLAlchemyError, url: sa.URL) -> str:
    """What the database said, in one line. SQLite calls a full disk an I/O error where it makes its shared memory."""
    message = " ".join(str(getattr(error, "orig", None) or error).split())
    if is_sqlite(url) and "full" not in message and _is_full(Path(url.database or "")):
        return f"the disk is full ({message})"
    return message


def _is_full(path: Path) -> bool:
    try:
        return free_bytes(path) == 0
    except OSError:
        return False  # the folder is gone: what the database said stands


def snapshot_options(url: sa.URL) -> dict[str, Any]:
    """Options of a connection whose queries all see the same state."""
    return {"snapshot": True} if is_sqlite(url) else {"isolation_level": "REPEATABLE READ"}


def create_engine(url: sa.URL) -> sa.Engine:
    """Transactions of a connection with the option `writes` are exclusive. Raises LedgerError."""
    return _sqlite(url) if is_sqlite(url) else _postgresql(url)


def _sqlite(url: sa.URL) -> sa.Engine:
    engine = sa.create_engine(url, isolation_level=None, connect_args={"check_same_thread": False})

    @sa.event.listens_for(engine, "do_connect")
    def open_it(_dialect: Any, _record: Any, arguments: list[Any], options: dict[str, Any]) -> None:
        # Never make one: where the file is gone a new connection must fail, not begin an empty ledger.
        arguments[0] = f"file:{quote(arguments[0])}?mode=rw"
        options["uri"] = True

    @sa.event.listens_for(engine, "connect")
    def set_up(connection: Any, _: Any) -> None:
        cursor = connection.cursor()
        for pragma in (
            f"busy_timeout={_BUSY_TIMEOUT_MS}",
            "journal_mode=WAL",
            "synchronous=FULL",
            "foreign_keys=ON",
        ):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @sa.event.listens_for(engine, "begin")
    def begin(connection: sa.Connection) -> None:
        # Readers must not wait for the writer, and one query needs no transaction: only the options say so.
        options = connection.get_execution_options()
        if options.get("writes"):
            run_on_driver(connection, BEGIN)
        elif options.get("snapshot"):
            run_on_driver(connection, "BEGIN")

    return engine


def _postgresql(url: sa.URL) -> sa.Engine:
    try:
        engine = sa.create_engine(
            url,
            pool_pre_ping=True,
            connect_args={"connect_timeout": 5, "tcp_user_timeout": 10_000},
        )
    except ModuleNotFoundError as error:
        raise LedgerError(
            "a ledger in PostgreSQL needs psycopg: install this package with its extra, FILE.whl[postgres]"
        ) from error

    @sa.event.listens_for(engine, "connect")
    def set_up(connection: Any, _: Any) -> None:
        connection.autocommit = True
        for setting in (
            "synchronous_commit = on",
            f"lock_timeout = {_BUSY_TIMEOUT_MS}",
            # A writer that is stopped within a transaction must not keep its successor out.
            f"idle_in_transaction_session_timeout = {_BUSY_TIMEOUT_MS}",
        ):
            connection.execute(f"SET {setting}")
        connection.autocommit = False

    return engine
