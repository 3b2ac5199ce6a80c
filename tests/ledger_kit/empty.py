"""A ledger as the first start leaves it, for tests that need no migrations: those have their own."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

from balancer.ledger.store import Ledger


@cache
def empty_ledger(ledger_id: str) -> bytes:
    """The SQLite file of a new ledger with this name (8 hexadecimal digits)."""
    with TemporaryDirectory() as folder, mock.patch("secrets.token_hex", return_value=ledger_id):
        path = Path(folder) / "ledger.db"
        Ledger(path).close()
        return path.read_bytes()
