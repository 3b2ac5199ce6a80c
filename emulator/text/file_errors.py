"""What the system said when it refused a file, and what to do about it: one wording for all who read or write files."""

from __future__ import annotations

import errno
import os

ADVICE = {
    errno.ENOSPC: "free space, or name another folder",
    errno.EDQUOT: "free space, or name another folder",
    errno.EACCES: "ask for the right, or name another",
    errno.EPERM: "ask for the right, or name another",
    errno.EROFS: "name another folder",
    errno.ENOENT: "look at the name",
    errno.ENOTDIR: "name a folder",
    errno.EISDIR: "name a file",
    errno.EEXIST: "name another",
    errno.ENAMETOOLONG: "take a shorter name",
}
"""What the system refuses because of what the user named, and what to do."""


def refusal(error: Exception) -> str:
    """Why a file was refused, without its name, and what to do where that is known."""
    if not isinstance(error, OSError) or error.errno is None:
        return str(error)
    said = os.strerror(error.errno)  # libraries add words of their own
    return f"{said}; {ADVICE[error.errno]}" if error.errno in ADVICE else said


def refuse_odd_name(path: os.PathLike[str]) -> None:
    """Raises ValueError for a name that is not UTF-8: results are, and name the files that they came from."""
    name = os.fspath(path)
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{ascii(name)[1:-1]}: the name is not UTF-8, as results are; rename it") from error
