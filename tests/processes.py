"""Whether a process of a test lives, asked at whatever moment it ends."""

from __future__ import annotations

from pathlib import Path


def is_alive(pid: int) -> bool:
    """A zombie is dead: where nobody reaps it, it stays. A process may be gone between being found and being read."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}
