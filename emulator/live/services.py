"""Settings of a live run's services, whoever starts them: processes of one machine, or containers."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from balancer.clock import seconds

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from emulator.harness.mechanism import HasNotice
    from emulator.mechanisms.balancer import BalancerMechanism
    from emulator.mechanisms.balancer.forecast import PredictorSettings
    from emulator.scenario import Scenario
    from emulator.workload.table import JobTable

_RECONCILE_S = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class Places:
    """What the services of a run share. `nodes`: their names; `ledger`: file or URL."""

    nodes: Sequence[str]
    clock: Path
    ledger: Path | str
    token_file: Path
    hook_key_file: Path
    token: str


def scheduler(scenario: Scenario) -> dict[str, Any]:
    """The batch server's scheduler."""
    config = asdict(scenario.scheduler_config)
    return {("pass" if key == "pass_" else key): value for key, value in config.items()}


def batch_mechanism(scenario: Scenario, workload: Path) -> dict[str, Any]:
    """What a batch server needs that has the scenario's mechanism itself."""
    return {
        "mechanism": scenario.mechanism,
        "workload": str(workload),
        "queues": ["batch", "ondemand"],
        "seed": scenario.seed,
    }


def balancer(mechanism: BalancerMechanism, places: Places) -> dict[str, Any]:
    """The Balancer, but for where it listens and how it drives the batch system."""
    return {
        "nodes": list(places.nodes),
        "algorithm": mechanism.algorithm,
        "reserve": mechanism.static_reserve,
        "reserve_rule": mechanism.reserve_rule,
        "wait_s": mechanism.wait_s,
        "idle_hold_s": mechanism.idle_hold_s,
        "pick": mechanism.pick,
        "db": str(places.ledger),
        "auth": True,
        "token_file": str(places.token_file),
        "hook_key_file": str(places.hook_key_file),
        "hook_skew_s": 3600,
        "rate_per_s": 0,  # cluster time runs fast: nobody here calls too often
        "clock": {"shared": {"path": str(places.clock), "name": "balancer"}},
        "reconcile_period_s": _RECONCILE_S,
        "refresh_age_s": 0,
        "at_once_s": 3600,  # time may run far faster than the programs
        "confirm_s": 3600,
        "mark_wait_s": 60,
    }


def ondemand(mechanism: BalancerMechanism, places: Places, balancer_url: str) -> dict[str, Any]:
    """The on-demand manager, but for where it listens."""
    return {
        "clock": str(places.clock),
        "balancer_url": balancer_url,
        "balancer_token": places.token,
        "wait_s": mechanism.wait_s,
        "hosts": list(places.nodes),
        "quota": {"instances": -1},
        **mechanism.cloud_settings,
    }


def replayed_leases(
    mechanism: BalancerMechanism, places: Places, balancer_url: str, ondemand_url: str
) -> dict[str, Any]:
    """Of the replayer: how leases are asked for.

    Where a lease does not begin when it is granted, it is known by its hosts, which administrators see.
    """
    account = {"username": "admin", "project": "admin"} if mechanism.cloud_settings else {}
    return {
        "cloud": {"auth_url": f"{ondemand_url}/identity/v3"} | account,
        "wait_s": mechanism.wait_s,
        "balancer_url": balancer_url,
        "balancer_token": places.token,
        "notice_s": mechanism.notice_s or None,
    }


def notices(notice: HasNotice | None) -> float | None:
    """Of the replayer: how long before their time jobs are announced to a mechanism in the batch server."""
    return None if notice is None else seconds(notice.notice_us) or None


def slots_before(predictor: PredictorSettings) -> str:
    """The predictor's file of the slots before time 0."""
    return json.dumps({"slots": [{"nodes_requested": nodes} for nodes in predictor.history]})


def predictor_arguments(
    predictor: PredictorSettings,
    jobs: JobTable,
    places: Places,
    balancer_url: str,
    *,
    before: Path,
    ready_file: Path,
    plugins: Sequence[str],
) -> list[str]:
    """Of the service's own `balancer predict`, which knows nothing but the API and the slots before time 0."""
    last_submit_us = int(jobs.submit_us.max(initial=0))
    clock = {"shared": {"path": str(places.clock), "rank": "forecast", "name": "predictor"}}
    return [
        "--url", balancer_url,
        *(f"--plugin={source}" for source in plugins),
        "--predictor", json.dumps(predictor.predictor),
        "--slots-per-day", str(predictor.slots.a_day), "--keep", predictor.keep,
        "--before", str(before), "--until-s", repr(seconds(last_submit_us)),
        "--clock", json.dumps(clock),
        "--ready-file", str(ready_file),
    ]  # fmt: skip
