"""The kinds of plug-ins of the testbed; how they are found and made is `balancer/plugins.py`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from balancer import plugins
from balancer.plugins import PluginError, check_number, find_plugin, plugin_names

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["KINDS", "PluginError", "check_number", "find_plugin", "make_plugin", "named", "plugin_names"]

KINDS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "emulator.mechanisms": (("on_arrival",), ("make_machine",), ("(job, act)",)),
    "emulator.hybrid_notices": (("prepare",),),
    "emulator.hybrid_arrivals": (("make_room",),),
    "emulator.topologies": (("layout",),),
    "emulator.contention": (("speed",),),
    "emulator.speedups": (("of",),),
    "emulator.failures": (("outages",),),
    "emulator.schedulers": (("decide",), ("make_cluster",), ("decide(now, view)",)),
    "emulator.run_time_predictors": ((".predict(job, history)",), ("predict(job, history)",)),
    "emulator.backfills": (("may_start",), ("may_start(job, reservation)",)),
    "emulator.queue_orders": (
        ("(jobs, config)",),
        ("priority",),
        ("score",),
        ("rank",),
        ("priority(now, queue)",),
        ("rank(job)",),
    ),
    "emulator.trace_formats": (("can_read", "read"),),
    "emulator.platforms": (("can_read", "read_platform"),),
    "emulator.generators": (("generate",),),
    "emulator.transforms": (("apply",), ("apply_random",)),
    "emulator.batch_systems": (("check", "at"),),
    "emulator.ondemand_systems": (("check_leases", "at"),),
    "emulator.submitters": (("submit", "find"),),
    "emulator.papers": (("about", "sweep", "claims", "tables"),),
    **plugins.KINDS,
}
"""What a plug-in of each kind must have: all of one of the tuples; a function's is told from its parameters."""


CALLED_BACK: Mapping[str, Mapping[str, str]] = {
    "emulator.mechanisms": {
        "on_arrival": "",
        "on_begin": "",
        "on_completion": "",
        "on_job_end": "",
        "on_nodes_down": "expect_failures",
        "on_nodes_up": "expect_failures",
        "on_notice": "notice_us",
        "on_pass": "",
        "on_predicted": "",
        "on_preempted": "",
        "on_timer": "",
    },
    "emulator.run_time_predictors": {"on_job_end": ""},
}
"""The methods `on_...` that plug-ins of these kinds are called back by, with the attribute that one needs.

Others are not.
"""


def named(item: object, name: str) -> dict[str, Any] | None:
    """The parameters of what a scenario says of a plug-in, if it is the one of this name; None: it is another, or none.

    `name`, `{name: null}` and `{name: {}}` are the same.
    """
    if item == name:
        return {}
    if isinstance(item, dict) and list(item) == [name]:
        return dict(item[name] or {})
    return None


def make_plugin(group: str, item: object) -> Any:
    """As `balancer.plugins.make_plugin`; a function is the plug-in with the one method that it stands for."""
    try:
        made = plugins.make_plugin(group, item)
    except PluginError as error:
        raise PluginError(f"{error}{_form_missed(group, item)}") from error
    except (TypeError, ValueError):  # what a class says of its parameters
        raise
    except Exception as error:
        who = f"{plugins.noun(group)} {plugins.name_of(group, item)}"
        raise PluginError(f"{who} failed when it was made: {type(error).__name__}: {error}") from error
    _no_deaf_methods(group, item, made)
    return plugins.from_function(made, KINDS.get(group, ()))


def _form_missed(group: str, item: object) -> str:
    """Of a plug-in that is taken for another kind because its method has other parameters: those that it needs."""
    forms = [each[0].removeprefix(".") for each in KINDS.get(group, ()) if each[0].startswith(".")]
    name = item if isinstance(item, str) else next(iter(item), "") if isinstance(item, dict) else ""
    others = (each for each in plugins.IN_USE.get().things if each.group != group and each.name == name)
    if forms and any(hasattr(each.thing, forms[0].partition("(")[0]) for each in others):
        return f"; {plugins.a_noun(group)} has {forms[0]}"
    return ""


def _no_deaf_methods(group: str, item: object, made: object) -> None:
    """Raises PluginError for a method `on_...` that nobody would call."""
    known = CALLED_BACK.get(group, {})
    who = f"{plugins.noun(group)} {plugins.name_of(group, item)}"
    for name in dir(made):
        if not name.startswith("on_") or not callable(getattr(type(made), name, None)):
            continue
        if name not in known:
            told = f"{plugins.a_noun(group)} gets no events"
            hint = plugins.nearest(name, known) if known else f"; {told}"
            raise PluginError(f"{who}: nothing calls its method {name}{hint}")
        missing = known[name]
        if missing and not hasattr(made, missing):
            raise PluginError(f"{who}: nothing calls its method {name} without an attribute {missing}")
