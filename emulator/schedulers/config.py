"""Which scheduler: a queue order, a backfilling, and the rules in which simulators differ.

The rules are defined one by one in `docs/schedulers.md`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal, Self, get_args, get_type_hints

Backfill = Literal["none", "easy", "conservative"]
Choice = Literal["first_fit", "best_fit", "shortest_first"]
Estimates = Literal["user", "actual_for_queued"]
PassRule = Literal["instant", "event"]
Reservation = Literal["refreshed", "kept"]


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """A scheduler.

    `order` names a plug-in of the group `emulator.queue_orders`, with parameters as `{name: {key: value}}`.
    `priorities` maps a queue's number to its priority for `order: priority` (higher first; others have 0).
    """

    order: str | dict[str, Any] = "fcfs"
    backfill: Backfill = "easy"
    choice: Choice = "first_fit"
    estimates: Estimates = "user"
    pass_: PassRule = "instant"  # noqa: S105 - a scheduling pass
    reservation: Reservation = "refreshed"
    spare_nodes: bool = True
    protect_head: bool = True
    priorities: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for field_ in dataclasses.fields(self):
            allowed = get_args(get_type_hints(type(self))[field_.name])
            value = getattr(self, field_.name)
            if field_.name != "order" and allowed and isinstance(value, str) and value not in allowed:
                raise ValueError(_unknown(f"scheduler {_key(field_.name)}", value, allowed))
        self.make_order()

    def make_order(self) -> Any:
        """The queue order: a function of jobs and scheduler, or one that is asked at each pass. Raises ValueError."""
        from emulator.schedulers.orders import make_order  # noqa: PLC0415 - the plug-ins import this module

        return make_order(self.order)

    @property
    def order_name(self) -> str:
        """The name of the order, without its parameters."""
        return self.order if isinstance(self.order, str) else next(iter(self.order), "")

    @classmethod
    def parse(cls, text: str) -> Self:
        """`ORDER[+BACKFILL[+CHOICE]]`, as in `fcfs+easy`, `sjf+none`, `fcfs+easy+best_fit`."""
        names = ("order", "backfill", "choice")
        parts = text.split("+")
        if len(parts) > len(names) or not all(parts):
            raise ValueError(f"scheduler {text!r}: expected ORDER[+BACKFILL[+CHOICE]], for example fcfs+easy")
        return cls(**dict(zip(names, parts, strict=False)))  # type: ignore[arg-type]

    @classmethod
    def from_mapping(cls, options: dict[str, Any]) -> Self:
        """The scheduler of a scenario file, where the rule of passes is called `pass`."""
        known = [_key(field_.name) for field_ in dataclasses.fields(cls)]
        for key in options:
            if key not in known:
                raise ValueError(_unknown("scheduler option", key, known))
        return cls(**{("pass_" if key == "pass" else key): value for key, value in options.items()})

    @property
    def label(self) -> str:
        """The short form, as `parse` reads it, without the parameters of the order."""
        parts = [self.order_name, self.backfill]
        if self.backfill == "easy" and self.choice != "first_fit":
            parts.append(self.choice)
        return "+".join(parts)


def _key(name: str) -> str:
    return name.rstrip("_")


def _unknown(what: str, value: str, known: Any) -> str:
    names = sorted(map(str, known))
    close = get_close_matches(value, names, n=1)
    hint = f"did you mean {close[0]}?" if close else f"known: {', '.join(names)}"
    return f"unknown {what} {value!r}; {hint}"
