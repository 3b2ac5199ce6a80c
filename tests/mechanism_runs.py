"""A small run of each mechanism: the scenario that it changes, and what it changes in it."""

from __future__ import annotations

from testdata import TRACES

SCENARIOS = TRACES.parent / "scenarios"
FLEXIBLE = {
    "workload.generate": [{"daily_batch": {"days": 1}}],
    "workload.transforms": [{"flexible_jobs": {"moldable": 0.3, "malleable": 0.4}}],
    "scheduler": "fcfs+conservative",
    "mechanism": "malleable",
}
RUNS = {
    "balancer": ("default", {}),
    "static_partition": ("default", {"mechanism": {"static_partition": {"ondemand_nodes": 24}}}),
    "hybrid": ("hybrid", {"workload.generate": [{"theta_year": {"days": 6, "jobs": 600}}]}),
    "realtime": ("default", {"mechanism": {"realtime": {"percent": 10}}}),
    "malleable": ("default", FLEXIBLE),
    "oversubscribe": ("shared-cores", {}),
    "dedicated_nodes": (
        "shared-cores",
        {"nodes": 2, "mechanism": {"dedicated_nodes": {"cores": 2, "percent": 50}}},
    ),
}
