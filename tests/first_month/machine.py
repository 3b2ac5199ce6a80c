"""Commands on the booted machine, the blocks of the docs' pages, and answers that are waited for."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

CHECKOUT = Path("/first-month/checkout")
DOCS = CHECKOUT / "docs"
_POLL_S = 0.3
_LIMIT_S = 200


class StepError(AssertionError):
    """An answer is not what the step asserts."""


def run(command: str, *, status: int | None = 0, user: str = "root", **environment: str) -> str:
    """What a command of the shell says on both streams. `status`: what it must end with; None: whatever it is."""
    set_there = [f"{name}={value}" for name, value in environment.items()]
    words = ["runuser", "-u", user, "--", "env", *set_there, "bash", "-euo", "pipefail", "-c", command]
    done = subprocess.run(
        words, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=_LIMIT_S
    )
    if status is not None and done.returncode != status:
        raise StepError(f"`{command}` ended with {done.returncode}, not {status}:\n{done.stdout}")
    return done.stdout


def says(text: str, *wanted: str) -> None:
    """Each of the regular expressions is found in the text. Raises StepError."""
    for each in wanted:
        if not re.search(each, text, re.MULTILINE):
            raise StepError(f"nothing like {each!r} in:\n{text}")


def is_so(found: object, wanted: object) -> None:
    """Raises StepError."""
    if found != wanted:
        raise StepError(f"{found!r}, not {wanted!r}")


def eventually(look: Callable[[], object], wanted: object, *, within_s: float = 120) -> None:
    """`look` comes to give what is wanted. Raises StepError with what it gave last."""
    end_s = time.monotonic() + within_s
    while (found := look()) != wanted:
        if time.monotonic() > end_s:
            raise StepError(f"after {within_s:.0f} s it is {found!r}, not {wanted!r}")
        time.sleep(_POLL_S)


def block(page: str, start: str) -> list[str]:
    """The lines of the page's indented block of which a line starts with `start`, without comments that stand beside.

    Raises StepError where there is not exactly one.
    """
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = [
        [line.strip().removeprefix("$ ") for line in found.splitlines()]
        for found in re.findall(r"(?:^ {4,}\S.*\n)+", text, re.MULTILINE)
    ]
    found = [lines for lines in blocks if any(line.startswith(start) for line in lines)]
    if len(found) != 1:
        raise StepError(f"docs/{page} has {len(found)} blocks with a line `{start}...`")
    return [re.sub(r"\s+# .*", "", line) for line in found[0]]


def command(page: str, start: str) -> str:
    """The page's one line that starts so."""
    (line,) = (line for line in block(page, start) if line.startswith(start))
    return line


def write(path: str, text: str) -> None:
    Path(path).write_text(text, encoding="utf-8")


def edit(path: str, pattern: str, replacement: str) -> None:
    """What an operator changes in a file by hand. Raises StepError if nothing is."""
    old = Path(path).read_text(encoding="utf-8")
    new = re.sub(pattern, replacement, old, flags=re.MULTILINE)
    if new == old:
        raise StepError(f"nothing like {pattern!r} in {path}:\n{old}")
    Path(path).write_text(new, encoding="utf-8")
