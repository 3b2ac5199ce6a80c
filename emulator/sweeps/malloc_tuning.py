"""What a process does with the memory of what is over: runs of a sweep, results that are written."""

from __future__ import annotations

import ctypes
from functools import cache

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_MOST_KEPT, _LEAST_RETURNED = 32 << 20, 4 << 20


@cache
def return_large_arrays() -> None:
    """From now on what arrays of 4 MiB and more had is the system's again as soon as they are gone.

    The GNU C library does so from 128 KiB on, but moves that limit up to 32 MiB with each that it returns (mallopt(3),
    M_MMAP_THRESHOLD): columns of millions of jobs then leave holes of a hundred megabytes in its heap. To have smaller
    arrays anew from the system costs short runs a tenth. Other C libraries are left as they are.
    """
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_MMAP_THRESHOLD, _LEAST_RETURNED)
        library.mallopt(_TRIM_THRESHOLD, _MOST_KEPT)
