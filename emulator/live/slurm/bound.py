"""Programs of a run, each a script that gives the real one its environment."""

from __future__ import annotations

import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def bound(program: str, environ: Mapping[str, str]) -> str:
    """A script that runs the program with this environment and nothing of the user's."""
    words = [f"'{name}={value}'" for name, value in environ.items()]
    return "#!/bin/sh\nexec env -i " + " ".join(words) + f' {program} "$@"\n'


def write_script(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
