"""Which scheduler: a queue order, a backfilling, and the rules in which simulators differ.

The rules are defined one by one in `docs/schedulers.md`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, get_args, get_type_hints, runtime_checkable

from balancer.plugins import nearest, plugin_names
from emulator.plugins import check_number, find_plugin, make_plugin
from emulator.schedulers.like import PEERS

if TYPE_CHECKING:
    from emulator.workload.table import JobTable

ORDERS = "emulator.queue_orders"
"""The group of plug-ins that put the queue in order."""
Backfill = Literal["none", "easy", "conservative"]
Choice = Literal["first_fit", "best_fit", "shortest_first", "first_submitted"]
Estimates = Literal["user", "actual_for_queued"]
PassRule = Literal["instant", "event"]
Reservation = Literal["refreshed", "kept"]
EndOrder = Literal["submit", "start", "expected_end"]
SubmitPass = Literal["always", "if_it_fits"]

_OF_EVENTS = ("exact_ends_first", "submits_first", "submit_pass", "ends_in_order_of")
"""Options that say which events have a pass, and in which order those of one time happen; with `pass: event`, in
virtual time."""
_OF_CHOICES = ("choice", "estimates", "reservation", "spare_nodes", "protect_head", "end_at_shadow")
"""Options of EASY that say who starts behind the head."""
_PARTS = ("order", "backfill", "choice")
"""What a text names, in this order."""


@runtime_checkable
class HasCluster(Protocol):
    """A whole scheduler that acts at times of its own, for which it brings a machine (in virtual time)."""

    def make_cluster(self, node_count: int, scheduler: SchedulerConfig, jobs: JobTable) -> Any:
        """The machine with its jobs, a `Cluster`. Raises ValueError."""


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """A scheduler.

    `order` names a plug-in of the group `emulator.queue_orders`, with parameters as `{name: {key: value}}`.
    `decide` names a whole scheduler of the group `emulator.schedulers`, which needs no order; `rule` one of
    `emulator.backfills`, which says who may start behind the head. In a scenario their names may stand for `order` and
    `backfill`. `priorities` maps a queue's number to its priority for `order: priority` (higher first; others have 0).
    `predict` names a plug-in of `emulator.run_time_predictors`, by which the scheduler goes instead of the estimates.
    `commit`: a head that does not fit stays the head until it starts, whatever comes after it.
    `cycle_s`: passes happen at multiples of it only (0: whenever something happens); in virtual time.
    `start_delay_s`: how long a start takes, before which no other job is picked (0: jobs start in the pass).
    """

    order: str | dict[str, Any] = "fcfs"
    backfill: Backfill = "easy"
    choice: Choice = "first_fit"
    estimates: Estimates = "user"
    pass_: PassRule = "instant"  # noqa: S105 - a scheduling pass
    reservation: Reservation = "refreshed"
    spare_nodes: bool = True
    protect_head: bool = True
    end_at_shadow: bool = True
    head_waits: bool = False
    commit: bool = False
    exact_ends_first: bool = False
    submits_first: bool = False
    submit_pass: SubmitPass = "always"  # noqa: S105 - a scheduling pass
    ends_in_order_of: EndOrder = "submit"
    cycle_s: float = 0
    start_delay_s: float = 0
    priorities: dict[int, int] = field(default_factory=dict)
    decide: str | dict[str, Any] | None = None
    rule: str | dict[str, Any] | None = None
    predict: str | dict[str, Any] | None = None

    def __post_init__(self) -> None:
        for field_ in dataclasses.fields(self):
            allowed = _allowed()[field_.name]
            value = getattr(self, field_.name)
            if (
                field_.name not in _NAMES_PLUGINS
                and allowed
                and isinstance(value, str)
                and value not in allowed
            ):
                raise ValueError(_unknown(f"scheduler {_key(field_.name)}", value, allowed))
        check_number("scheduler", "cycle_s", self.cycle_s, at_least=0)
        if self.cycle_s and self.pass_ == "event":  # noqa: S105 - a scheduling pass
            raise ValueError("scheduler cycle_s: there are no passes after single events (`pass: instant`)")
        plain_passes = self.pass_ == "instant" and not self.cycle_s  # noqa: S105 - a scheduling pass
        if self.head_waits and not (self.reservation == "kept" and plain_passes):
            raise ValueError(
                "scheduler head_waits: goes with `reservation: kept`, `pass: instant`, no cycle_s"
            )
        self._check_unused()
        if self.commit and (self.backfill == "conservative" or self.is_plain):
            raise ValueError("scheduler commit: goes with `backfill: none` and `easy`, which have a head")
        self._check_start_delay(plain_passes=plain_passes)
        for name in _OF_EVENTS:
            if self._is_set(name) and self.pass_ != "event":  # noqa: S105 - a scheduling pass
                raise ValueError(f"scheduler {name}: goes with `pass: event`")
        if self.ends_in_order_of == "expected_end" and (self.reservation != "kept" or self.exact_ends_first):
            raise ValueError(
                "scheduler ends_in_order_of: expected_end goes with `reservation: kept`, without exact_ends_first"
            )
        self.make_order()
        self.make_plain()
        self._check_predictor()

    def _check_unused(self) -> None:
        """Raises ValueError for an option that nobody follows, because somebody's own code decides in its place."""
        own = self.decide if self.rule is None else self.rule
        for name in _OF_CHOICES if own is not None else ():
            if self._is_set(name):
                raise ValueError(
                    f"scheduler {name}: {_name(own)} decides by itself who starts behind the head; leave it out"
                )
        if self.priorities:
            object.__setattr__(self, "priorities", _by_queue(self.priorities))
        order = find_plugin(ORDERS, self.order_name) if self.priorities else None
        if self.order_name != "priority" and str(getattr(order, "__module__", "")).startswith("emulator."):
            raise ValueError(
                f"scheduler priorities: the order {self.order_name} has none; take `order: priority`"
            )

    def _check_start_delay(self, *, plain_passes: bool) -> None:
        check_number("scheduler", "start_delay_s", self.start_delay_s, at_least=0)
        picks_anew = self.reservation == "refreshed" and not self.commit and not self.is_plain
        if self.start_delay_s and not (plain_passes and picks_anew and self.backfill != "conservative"):
            raise ValueError(
                "scheduler start_delay_s: goes with `backfill: none` and `easy`, `reservation: refreshed`, "
                "`pass: instant`, no cycle_s, no commit"
            )

    def _is_set(self, name: str) -> bool:
        """Whether this option is not at its default, which is a plain value."""
        return bool(getattr(self, name) != type(self).__dataclass_fields__[name].default)

    def _check_predictor(self) -> None:
        from emulator.schedulers.run_times import make_predictor  # noqa: PLC0415 - few schedulers have one

        if self.predict is None:
            return
        if self.make_machine() is not None:
            raise ValueError(f"scheduler predict: {self.label} goes by limits of its own; leave it out")
        make_predictor(self.predict)

    @property
    def predict_name(self) -> str:
        """The name of the predictor of run times, without its parameters; empty without one."""
        return "" if self.predict is None else _name(self.predict)

    @property
    def virtual_only(self) -> list[str]:
        """The options set here that only the kernel in virtual time knows, not live servers or machines of others."""
        return [name for name in ("head_waits", "commit", "start_delay_s", *_OF_EVENTS) if self._is_set(name)]

    def make_order(self) -> Any:
        """The queue order: a function of jobs and scheduler, or one that is asked at each pass. Raises ValueError."""
        return make_plugin(ORDERS, self.order)

    @property
    def is_plain(self) -> bool:
        """Whether somebody's own code decides who starts, be it on each pass or behind the head."""
        return self.decide is not None or self.rule is not None

    def make_machine(self) -> HasCluster | None:
        """The scheduler, if it decides everything on a machine of its own. Raises ValueError."""
        found = None if self.decide is None else self.make_plain()
        return found[1] if found is not None and isinstance(found[1], HasCluster) else None

    def make_plain(self) -> tuple[str, Any] | None:
        """A scheduler in Python (`schedulers/plain.py`) with its kind and name, if that decides. Raises ValueError."""
        from emulator.schedulers.plain import ByRule, make_decider, make_rule  # noqa: PLC0415 - as above

        if self.decide is not None:
            return f"scheduler {_name(self.decide)}", make_decider(self.decide)
        if self.rule is not None:
            return f"backfill {_name(self.rule)}", ByRule(make_rule(self.rule))
        return None

    @property
    def order_name(self) -> str:
        """The name of the order, without its parameters."""
        return _name(self.order)

    @classmethod
    def parse(cls, text: str) -> Self:
        """`ORDER[+BACKFILL[+CHOICE]]`, as in `fcfs+easy`, `sjf+none`, `fcfs+easy+best_fit`.

        `NAME:FILE` is a whole scheduler with its parameter `conf`, as in `slurm:slurm.conf`; `like:PROGRAM` is EASY by
        the rules of another simulator (`like.py`).
        """
        plugin, colon, conf = text.partition(":")
        if colon and (plugin == "like" or (conf and plugin in plugin_names("emulator.schedulers"))):
            return cls.from_mapping(cls.written_out(text))
        parts = text.split("+")
        if len(parts) > len(_PARTS) or not all(parts):
            raise ValueError(f"scheduler {text!r}: expected ORDER[+BACKFILL[+CHOICE]], for example fcfs+easy")
        known = {
            name for group in ("queue_orders", "schedulers") for name in plugin_names(f"emulator.{group}")
        }
        if parts[0] in get_args(Backfill) and parts[0] not in known:
            whole = "+".join(("fcfs", *parts))
            raise ValueError(f"scheduler {text!r}: {parts[0]} is a backfill rule, for example of {whole}")
        return cls(**_with_plugins(dict(zip(_PARTS, parts, strict=False))))

    @classmethod
    def written_out(cls, text: str) -> dict[str, Any]:
        """The keys that such a text is short for, right or wrong ones."""
        plugin, colon, conf = text.partition(":")
        if colon:
            return {plugin: conf if plugin == "like" else {"conf": conf}}
        parts = text.split("+")
        if text in plugin_names("emulator.schedulers") or len(parts) > len(_PARTS):
            return {text: {}}
        return dict(zip(_PARTS, parts, strict=False))

    @classmethod
    def from_mapping(cls, options: dict[str, Any]) -> Self:
        """The scheduler of a scenario file, where the rule of passes is called `pass`.

        One that decides everything may stand alone: `{slurm: {bf_interval: 60}}`, and so may `{easy: {like: cqsim}}`.
        `like` names a bundle of options (`like.py`); what is given beside it goes before.
        """
        options = _with_bundle(_of_backfill(options))
        if len(options) == 1 and _name(options) in plugin_names("emulator.schedulers"):
            return cls(decide=options)
        known = [_key(field_.name) for field_ in dataclasses.fields(cls)]
        for key in options:
            if key not in known:
                raise ValueError(_unknown("scheduler option", key, known))
        return cls(
            **_with_plugins({("pass_" if key == "pass" else key): value for key, value in options.items()})
        )

    @property
    def label(self) -> str:
        """The short form, as `parse` reads it, without the parameters of the order."""
        if self.decide is not None:
            return _name(self.decide)
        parts = [self.order_name, self.backfill if self.rule is None else _name(self.rule)]
        if self.backfill == "easy" and self.choice != "first_fit":
            parts.append(self.choice)
        return "+".join(parts)


def _by_queue(priorities: object) -> dict[int, int]:
    """Whole numbers by the numbers of queues, which are texts in JSON. Raises ValueError."""
    from emulator.schedulers.dynamic import numbered  # noqa: PLC0415 - few schedulers have any

    found = numbered("scheduler", "priorities", priorities)
    for queue, value in found.items():
        check_number("scheduler", f"priorities of {queue}", value, whole=True)
    return {queue: int(value) for queue, value in found.items()}


@cache
def _allowed() -> dict[str, tuple[Any, ...]]:
    """The words that each field may be, empty where it is free. Looked up once: it takes longer than all the rest."""
    return {name: get_args(hint) for name, hint in get_type_hints(SchedulerConfig).items()}


_NAMES_PLUGINS = ("order", "decide", "rule", "predict")


def _name(item: Any) -> str:
    """The name in `name` or `{name: parameters}`."""
    return item if isinstance(item, str) else str(next(iter(item), ""))


def _with_plugins(options: dict[str, Any]) -> dict[str, Any]:
    """The options, with schedulers and backfill rules that stand where an order or a backfilling does in their own."""
    found = dict(options)
    for given, kind, own in (
        ("order", "emulator.schedulers", "decide"),
        ("backfill", "emulator.backfills", "rule"),
    ):
        item = found.get(given)
        if isinstance(item, str | dict) and _name(item) in plugin_names(kind):
            found[own] = found.pop(given)
    if "order" in options and "order" not in found and "backfill" in found:
        raise ValueError(
            f"scheduler backfill: {_name(found['decide'])} is a whole scheduler, behind which nothing backfills; "
            "leave it out"
        )
    if isinstance(item := found.get("backfill"), dict) and _name(item) in get_args(Backfill):
        name, inner = _name(item), item[_name(item)]
        beside = (
            "".join(f", {key}: {value}" for key, value in inner.items()) if isinstance(inner, dict) else ""
        )
        raise ValueError(
            f"scheduler backfill: the options of {name} stand beside it: {{backfill: {name}{beside}}}"
        )
    if not isinstance(found.get("backfill", ""), str):
        raise ValueError(_unknown("scheduler backfill", _name(found["backfill"]), get_args(Backfill)))  # noqa: TRY004
    return found


def _of_backfill(options: dict[str, Any]) -> dict[str, Any]:
    """`{easy: {OPTION: VALUE}}` is `{backfill: easy, OPTION: VALUE}`."""
    name, inner = next(iter(options.items()), ("", None))
    if len(options) != 1 or name not in get_args(Backfill) or not isinstance(inner, dict):
        return options
    if "backfill" in inner:
        raise ValueError(f"scheduler {name}: the backfilling is said already, it cannot be an option as well")
    return {"backfill": name, **inner}


def _with_bundle(options: dict[str, Any]) -> dict[str, Any]:
    """The options with what `like` stands for, where they do not say otherwise."""
    if "like" not in options:
        return options
    name = options["like"]
    if name not in PEERS:
        raise ValueError(_unknown("scheduler like", str(name), PEERS))
    if options.get("backfill", "easy") != "easy":
        raise ValueError(f"scheduler like: {name} says how EASY backfills; the backfilling can only be easy")
    return {**PEERS[name].options, **{key: value for key, value in options.items() if key != "like"}}


def _key(name: str) -> str:
    return name.rstrip("_")


def _unknown(what: str, value: str, known: Any) -> str:
    return f"unknown {what} {value!r}{nearest(value, map(str, known))}"
