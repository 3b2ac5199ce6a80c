"""Capacity that comes again: the reserves of a run that `balancer reserve --every` makes at a service."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from balancer.clock import micros, seconds
from balancer.lifecycle.recurrence import Recurrence
from balancer.timestamps import parse_iso
from emulator.plugins import check_number

if TYPE_CHECKING:
    from collections.abc import Iterable

_KEYS = ("windows", "nodes", "zone", "exceptions", "notice_s")


@dataclass(frozen=True, slots=True)
class Standing:
    """`nodes` in each window of `every`, collected `lead_us` before it."""

    every: Recurrence
    nodes: int
    lead_us: int

    @property
    def body(self) -> dict[str, Any]:
        """Of the call that makes it at a service."""
        rule = self.every
        return {
            "nodes": self.nodes,
            "notice_s": seconds(self.lead_us),
            "every": rule.rule,
            "zone": rule.zone,
            "exceptions": list(rule.exceptions),
        }


def standing(given: object, time_zero: str | None) -> tuple[Standing, ...]:
    """As a scenario has them; `time_zero`: the date and time at time 0. Raises ValueError."""
    if not isinstance(given, list | tuple):
        raise ValueError("balancer: every is a list, each of windows and nodes")  # noqa: TRY004 - as all of it
    origin_us = zero_us(time_zero)
    return tuple(_one(each, origin_us) for each in given)


def zero_us(time_zero: str | None) -> int:
    """The date and time at time 0, since 1970-01-01T00:00Z, which it is where nothing is said. Raises ValueError."""
    if time_zero is None:
        return 0
    try:
        return parse_iso(time_zero)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"balancer: time_zero: {time_zero!r} is no time: write it like 2026-01-05T00:00:00+01:00"
        ) from error


def _one(given: Any, origin_us: int) -> Standing:
    if not isinstance(given, dict) or not {"windows", "nodes"} <= {*given} <= {*_KEYS}:
        raise ValueError(
            f"balancer: every: {given!r} must have windows and nodes, and may have {', '.join(_KEYS[2:])}"
        )
    check_number("balancer", "every: nodes", given["nodes"], at_least=1, whole=True)
    notice_s = given.get("notice_s", 1800)
    check_number("balancer", "every: notice_s", notice_s, at_least=0)
    try:
        rule = Recurrence(
            str(given["windows"]),
            str(given.get("zone", "UTC")),
            tuple(sorted(map(str, given.get("exceptions", ())))),
            origin_us,
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"balancer: {error}") from error
    return Standing(rule, given["nodes"], micros(notice_s))


def check_machine(found: Iterable[Standing], nodes: int) -> None:
    """Raises ValueError for more nodes than there are."""
    for each in found:
        if each.nodes > nodes:
            raise ValueError(f"balancer: every: {each.nodes} nodes, the cluster has {nodes}")
