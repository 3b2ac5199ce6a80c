"""Who takes the nodes of whom, and what becomes of these, in the words of slurm.conf and sacctmgr."""

from __future__ import annotations

from typing import Literal, get_args

from emulator.schedulers.slurm.times import INFINITE, seconds

PreemptType = Literal["none", "partition_prio", "qos"]
PreemptMode = Literal["off", "requeue", "cancel"]
NO_SUSPENSION = "the twin suspends no jobs: they keep their nodes"
_NOT_WITHIN = "jobs of one QOS do not preempt each other in the twin"
_MODES: tuple[PreemptMode, ...] = ("requeue", "cancel", "off")
_PREFIX = "preempt/"


def preempt_type(text: str) -> PreemptType:
    """What `PreemptType` says; none where the twin does not know it."""
    return _known_type(text) or "none"


def is_known_type(text: str) -> bool:
    return _known_type(text) is not None


def _known_type(text: str) -> PreemptType | None:
    kind = text.lower().removeprefix(_PREFIX)
    return next((each for each in get_args(PreemptType) if each == kind), None)


def preempt_mode(text: str) -> PreemptMode:
    """What `PreemptMode` says; off where the twin does not do it."""
    return _followed(text) or "off"


def grace_time(text: str) -> int:
    """What `GraceTime` says: a number of seconds (slurm.conf, JSON), or a time (sacctmgr). Raises ValueError."""
    if text in {"", "-1"}:
        return 0
    return int(text) if text.isdecimal() else seconds(text)


def exempt_time(text: str) -> int:
    """What `PreemptExemptTime` says, in seconds; -1 if nothing. Raises ValueError."""
    found = seconds(text) if text else INFINITE
    return -1 if found == INFINITE else found


def not_followed(text: str) -> str:
    """What of a `PreemptMode` the twin does not do; '' if it does all of it. Jobs with whole nodes know no GANG."""
    if _followed(text) is None:
        return NO_SUSPENSION
    return _NOT_WITHIN if "within" in _words(text) else ""


def _followed(text: str) -> PreemptMode | None:
    return next((each for each in _MODES if each in _words(text)), None)


def _words(text: str) -> set[str]:
    return {word.strip() for word in text.lower().split(",")}
