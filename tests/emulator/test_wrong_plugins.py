"""Plug-ins of every kind that raise, answer nonsense or wait for calls: each error has the plug-in's name."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

import emulator
from emulator.plugins import KINDS

BATCH = [{"daily_batch": {"days": 0.1, "jobs": 30, "load": 1.5}}]
LEASES = [*BATCH, "leases"]
LEASES_SOURCE = """
import numpy as np
from emulator.workload.table import JobTable, Kind

class Leases:
    def generate(self, rng, *, nodes):
        return JobTable.build(submit_us=[4_000_000_000], run_us=[60_000_000], nodes=[nodes], kind=[Kind.ON_DEMAND],
                              extra={"notice_us": np.array([3_600_000_000])})
"""


class Kind(NamedTuple):
    """A method, the scenario's keys that use the plug-in `mine`, and answers that are nonsense there."""

    method: str
    keys: dict[str, Any]
    nonsense: tuple[str, ...]
    before: str = ""


RESERVE = {"balancer": {"predictor": "mine"}}
KINDS_TRIED = {
    "backfills": Kind("may_start(self, job, reservation)", {"scheduler": "fcfs+mine"}, ("None", "NAN", "'yes'", "-5")),
    "schedulers": Kind("decide(self, now_us, view)", {"scheduler": "mine"}, ("None", "NAN", "'no'", "[-5]", "7")),
    "queue_orders": Kind("rank(self, job)", {"scheduler": "mine+easy"}, ("None", "NAN", "'5'", "[5]")),
    "queue_orders of all": Kind(
        "priority(self, now_us, queue)", {"scheduler": "mine+easy"}, ("None", "NAN", "'x'", "[]")
    ),
    "run_time_predictors": Kind(
        "predict(self, job, history)", {"scheduler": {"predict": "mine"}}, ("NAN", "'5'", "[5]", "-5", "0")
    ),
    "failures": Kind(
        "outages(self, rng, node_names)", {"failures": {"model": "mine"}},
        ("None", "NAN", "'no'", "[5]", "[Outage(5, 3, 0)]", "[Outage(0, 9, 99)]", "[Outage(0, NAN, 1)]"),
        "from emulator.events.node_failures import Outage",
    ),
    "contention": Kind(
        "speed(self, jobs)", {"mechanism": {"oversubscribe": {"cores": 1, "contention": "mine"}}},
        ("None", "NAN", "'no'", "Fraction(0)", "Fraction(2)"), "from fractions import Fraction",
    ),
    "speedups": Kind(
        "of(self, widths, nominal)",
        {"scheduler": "fcfs+conservative", "mechanism": {"malleable": {"speedup": "mine"}}},
        ("None", "NAN", "'no'", "widths[:1]", "-widths", "widths * NAN"),
    ),
    "topologies": Kind(
        "layout(self, node_count)", {"mechanism": {"realtime": {"scheme": "baseline", "topology": "mine"}}},
        ("None", "NAN", "'no'", "[5]"),
    ),
    "algorithms": Kind("plan(self, view)", {"mechanism": {"balancer": {"algorithm": "mine"}}}, ("None", "NAN", "[5]")),
    "predictors": Kind("predict(self, history, slot)", {"mechanism": RESERVE}, ("None", "NAN", "'5'", "2.5")),
    "hybrid_notices": Kind(
        "prepare(self, outlook)", {"mechanism": {"hybrid": {"strategy": "mine+paa"}}}, ("NAN", "'no'", "[5]")
    ),
    "hybrid_arrivals": Kind(
        "make_room(self, running, needed)", {"mechanism": {"hybrid": {"strategy": "n+mine"}}},
        ("NAN", "'no'", "[5]"),
    ),
    "mechanisms": Kind("on_arrival(self, job, act)", {"mechanism": "mine"}, ("act.start(job, [-5])",)),
    "mechanisms with a machine": Kind(
        "make_machine(self, node_count, scheduler, jobs, seed)", {"mechanism": "mine", "generate": BATCH},
        ("None", "NAN", "'no'"),
    ),
    "platforms": Kind(
        "can_read(self, path): return True\n    def read_platform(self, path)", {"nodes": "FOLDER/hosts"},
        ("None", "NAN", "'no'", "[5]", "7"),
    ),
    "generators": Kind("generate(self, rng, *, nodes)", {"generate": ["mine"]}, ("None", "NAN", "'no'", "[5]")),
    "transforms": Kind("apply(self, jobs, *, nodes)", {"transforms": ["mine"]}, ("None", "NAN", "'no'", "[5]")),
}  # fmt: skip
NOT_HERE = {
    "emulator.trace_formats",  # workload/test_own_plugins.py
    "emulator.papers", "emulator.batch_systems", "emulator.ondemand_systems", "emulator.submitters",
    "balancer.batch_drivers", "balancer.cloud_drivers", "balancer.clocks",
}  # fmt: skip
LISTED = [(name, each) for name in KINDS_TRIED for each in KINDS_TRIED[name].nonsense]


def run(kind: Kind, body: str, folder: Any) -> str:
    """The error of a run, which there must be, before it or in it."""
    (folder / "mine.py").write_text(
        f"{kind.before}\nNAN = float('nan')\nclass Mine:\n    def {kind.method}:\n        {body}\n"
    )
    (folder / "leases.py").write_text(LEASES_SOURCE)
    (folder / "hosts").write_text("three hosts\n")
    keys = dict(kind.keys)
    keys |= {"nodes": str(folder / "hosts")} if "nodes" in keys else {}
    plain = not {"mechanism"} & {*keys} or any(
        each in str(keys) for each in ("oversubscribe", "malleable", "realtime")
    )
    workload = {
        "generate": keys.pop("generate", BATCH if plain else LEASES),
        "transforms": keys.pop("transforms", []),
    }
    scenario = {"name": "wrong", "nodes": 8, "workload": workload, **keys}
    scenario["plugins"] = [f"{folder}/mine.py:Mine", f"{folder}/leases.py:Leases"]
    with pytest.raises((emulator.ScenarioError, emulator.TraceError, emulator.PluginError)) as error:
        emulator.run(scenario, progress=False)
    return str(error.value)


def test_every_kind_is_tried_here_or_elsewhere():
    tried = {
        f"{'balancer' if name in ('algorithms', 'predictors') else 'emulator'}.{name}" for name in KINDS_TRIED
    }
    assert set(KINDS) <= tried | NOT_HERE


@pytest.mark.parametrize("error", ["ZeroDivisionError", "ValueError"])
@pytest.mark.parametrize("name", KINDS_TRIED)
def test_what_it_raises_is_told_with_its_name(name, error, tmp_path):
    told = run(KINDS_TRIED[name], f"raise {error}('boom')", tmp_path)
    assert " mine" in told
    assert "boom" in told


@pytest.mark.parametrize(("name", "answer"), LISTED)
def test_nonsense_is_told_with_its_name(name, answer, tmp_path):
    kind = KINDS_TRIED[name]
    assert " mine" in run(kind, f"return {answer}", tmp_path)


@pytest.mark.parametrize("name", KINDS_TRIED)
def test_a_method_that_nobody_calls_is_told_when_it_is_loaded(name, tmp_path):
    told = run(KINDS_TRIED[name], "return None\n    def on_nothing(self): pass", tmp_path)
    assert "mine: nothing calls its method on_nothing" in told


def test_figures_that_are_no_figures_end_the_run_with_the_mechanisms_name(tmp_path):
    serves = "act.reject(job, 'no')\n    def figures(self, record, machine):\n        "
    kind = KINDS_TRIED["mechanisms"]
    assert "mechanism mine failed in figures" in run(kind, f"{serves}return None", tmp_path)
    assert "its figure speed is nan" in run(kind, f"{serves}return {{'speed': NAN}}", tmp_path)
