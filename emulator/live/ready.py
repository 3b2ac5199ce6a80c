"""How a process of the live fleet says that it is ready."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def write_ready(path: Path | None, **more: str) -> None:
    """Write `{"pid": ..., **more}`; the file appears whole. Nothing happens without a path."""
    if path is None:
        return
    draft = path.with_name(f"{path.name}.new")
    draft.write_text(json.dumps(more | {"pid": os.getpid()}) + "\n", encoding="utf-8")
    draft.replace(path)
