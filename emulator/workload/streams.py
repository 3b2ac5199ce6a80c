"""Named random streams: one per source of chance, all derived from the run's seed."""

from __future__ import annotations

import hashlib

import numpy as np


def stream(seed: int, name: str) -> np.random.Generator:
    """The random stream of this name. Streams of different names or seeds are independent.

    The name goes in through a hash that is the same everywhere (unlike `hash`), so that drawing more from
    one stream, or adding a stream, changes no other. ValueError for a seed that is no whole number >= 0.
    """
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ValueError(f"a seed is a whole number from 0 on, not {seed!r}")
    words = np.frombuffer(hashlib.sha256(name.encode()).digest(), "<u4")
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=words.tolist())))
