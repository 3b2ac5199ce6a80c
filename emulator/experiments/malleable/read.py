"""What the paper leaves open about all of its runs, as options with names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

from emulator.experiments.readings import Reading, value_of
from emulator.mechanisms.malleable.machine import Minimum

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emulator.experiments.paper import Options

MINIMUM = Reading("minimum", get_args(Minimum), "what a running malleable job keeps, whoever comes")
ZERO_RUN = Reading(
    "zero_run",
    ("left_out", "kept"),
    "whether KTH's eight jobs of run time 0 run for a second, with submits cut to whole seconds",
)
PENALTY = Reading(
    "penalty", ("run_time", "work"), "whether a change of width costs seconds, or node-seconds of work"
)
READINGS = (MINIMUM, ZERO_RUN, PENALTY)
_OF_WORLDS = ("tick_s", "placement")
"""Of the mechanism: only a world of the atlas says them."""


def mechanism_for(options: Options, mechanism: Mapping[str, Any]) -> dict[str, Any]:
    """The mechanism's parameters for a run under the reading; what the run says itself stays."""
    more = {name: options.world[name] for name in _OF_WORLDS if name in options.world}
    penalty = {"reconfiguration": value_of(options, PENALTY)} if "reconfiguration_s" in mechanism else {}
    return {"minimum": value_of(options, MINIMUM), **more, **penalty, **mechanism}


def keeps_zero_runs(options: Options) -> bool:
    return value_of(options, ZERO_RUN) == "kept"
