"""Times as slurm.conf and sacctmgr write them."""

from __future__ import annotations

import re

INFINITE = 1 << 40
"""Stands for INFINITE and UNLIMITED, in any unit."""
MOST = (1 << 32) - 1
"""The largest number of a setting: Slurm keeps them in 32 bits."""
UNLIMITED = frozenset({"infinite", "unlimited", "-1"})
_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?")
_HOURS_MINUTES_SECONDS = 3


def minutes(text: str) -> int:
    """A time, as Slurm rounds it up. Raises ValueError."""
    found = seconds(text)
    return INFINITE if found == INFINITE else -(-found // 60)


def seconds(text: str) -> int:
    """A time: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]], or INFINITE.

    Raises ValueError.
    """
    if text.lower() in UNLIMITED:
        return INFINITE
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no time; write minutes, hours:minutes:seconds or days-hours")
    days, *rest = match.groups()
    numbers = [int(each) for each in rest if each is not None]
    if days is not None:
        hours, minute, second = [*numbers, 0, 0][:3]
    elif len(numbers) == _HOURS_MINUTES_SECONDS:
        hours, minute, second = numbers
    else:
        hours, minute, second = 0, *[*numbers, 0][:2]
    return min(((int(days or 0) * 24 + hours) * 60 + minute) * 60 + second, INFINITE)
