"""How a process of the live fleet says that it is ready."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from balancer.whole_file import write_text

if TYPE_CHECKING:
    from pathlib import Path


def write_ready(path: Path | None, **more: str) -> None:
    """Write `{"pid": ..., **more}`; the file appears whole. Nothing happens without a path."""
    if path is None:
        return
    write_text(path, json.dumps(more | {"pid": os.getpid()}) + "\n")
