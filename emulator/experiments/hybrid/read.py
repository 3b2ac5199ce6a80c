"""What the paper leaves open about the jobs' own costs, as options with names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from emulator.experiments.readings import Reading, value_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from emulator.experiments.paper import Options

SETUPS = Reading(
    "setups",
    ("on_top", "inside"),
    "whether a setup comes on top of the log's run time (section III-A: t_single / n + t_setup) or is a part of it",
)
CHECKPOINTS = Reading(
    "checkpoints",
    ("on_top", "inside"),
    "whether the writes of a checkpoint come on top of the log's run time",
)
BASE = Reading(
    "baseline",
    ("plain", "loaded"),
    "whether the baseline replays the log as it is, or its jobs pay setups and writes",
)
DALY_H = Reading(
    "daly_h", ("50", "5"), "mean time between failures in hours that the usual checkpoints are made for"
)
TRACE = Reading(
    "trace",
    ("theta_year", "theta_logs"),
    "how Theta's made jobs come, ask and run: at even paces, or as those of its published logs do",
)
ON_DEMAND = Reading(
    "on_demand",
    ("any", "3-15"),
    "which draws of projects count: all, or those whose on-demand jobs have 3 to 15 % of the load",
)
READINGS = (SETUPS, CHECKPOINTS, BASE, DALY_H, TRACE, ON_DEMAND)
_LOADS = {"3-15": [0.03, 0.15]}
_NOTHING = {"setups": "none", "checkpoints": "none"}


def kinds_for(options: Options, kinds: Mapping[str, Any], *, is_baseline: bool) -> dict[str, Any]:
    """The transform's parameters for a run under the reading; what the run says itself stays."""
    load = _LOADS.get(value_of(options, ON_DEMAND))
    if load is not None:
        kinds = {"on_demand_load": load, **kinds}
    if is_baseline and value_of(options, BASE) == BASE.default:
        return {**kinds, **_NOTHING}
    return {
        "setups": value_of(options, SETUPS),
        "checkpoints": value_of(options, CHECKPOINTS),
        "mtbf_s": 3600 * int(value_of(options, DALY_H)),
        **kinds,
    }
