"""From a scenario to its limits and to the QOS of its jobs under the plain schedulers (`docs/job-rules.md`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from balancer.clock import micros
from emulator.harness.decisions import default_node_names
from emulator.harness.job_limits import Limit
from emulator.harness.partitions import partitions_on
from emulator.scenario import Scenario, ScenarioError
from emulator.schedulers.multifactor import Multifactor
from emulator.schedulers.slurm.qos import UNDEFINED, read_qos
from emulator.workload import qos

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from emulator.scenario_parts import LimitPart, QosPart
    from emulator.schedulers.slurm.qos import Qos
    from emulator.workload.table import JobTable

WHAT = "qos: priorities and limits of jobs"
_MINUTE_US = 60_000_000


def jobs_with_qos(scenario: Scenario, jobs: JobTable, nodes: int, left_out: dict[str, int]) -> JobTable:
    """The jobs with their QOS, without those that theirs does not take. Raises ValueError."""
    part = scenario.qos
    if part is None:
        return jobs
    table = read_qos(part.table, part.cpus_per_node, plain=True)
    partitions = partitions_on(scenario.partitions, default_node_names(nodes))
    place = qos.places(jobs, table, part.who, part.default, partitions)
    goes = place < 0
    for why, wrong in qos.refusals(jobs, place, table):
        left_out[why] = int(wrong.sum())
        goes |= wrong
    return qos.with_qos(jobs.take(~goes), place[~goes], table)


def check_scheduler(scenario: Scenario, jobs: JobTable) -> None:
    """Raises ScenarioError where the scheduler has QOS of its own, or its queue order cannot go by their priorities."""
    if scenario.qos is None:
        return
    scheduler = scenario.scheduler_config
    if scheduler.make_machine() is not None:
        raise ScenarioError(
            f"{WHAT} go with plain schedulers; {scheduler.label} has its own (scheduler: {{slurm: {{qos: ...}}}})"
        )
    if qos.TIER not in jobs.extra:
        return
    order = scheduler.make_order()
    if not callable(order) and not isinstance(order, Multifactor):
        raise ScenarioError(
            f"qos: the queue order {scheduler.order_name} is asked at each pass and knows no priorities of QOS; take "
            "multifactor, which has a weight for them (qos_weight), or an order that never changes, such as fcfs"
        )


def limits_of(limits: Sequence[LimitPart], part: QosPart | None) -> list[Limit]:
    """All limits, those of QOS among them. Raises ValueError."""
    found = [
        Limit(
            each.by,
            each.jobs,
            each.nodes,
            None if each.only is None else frozenset(each.only),
            None if each.node_h is None else micros(3600 * each.node_h),
        )
        for each in limits
    ]
    return found if part is None else [*found, *_of_qos(part)]


def _of_qos(part: QosPart) -> Iterator[Limit]:
    for place, each in enumerate(read_qos(part.table, part.cpus_per_node, plain=True)):
        yield from _limits(place, each)


def _limits(place: int, each: Qos) -> Iterator[Limit]:
    said: Sequence[tuple[str, int, int, int, int]] = (
        ("qos", each.grp_jobs, each.grp_nodes, each.grp_node_min, each.grp_submitted),
        ("user", each.user_jobs, each.user_nodes, each.user_node_min, each.user_submitted),
        ("group", each.account_jobs, each.account_nodes, each.account_node_min, each.account_submitted),
    )
    for by, *values in said:
        jobs, nodes, node_min, submitted = (None if value == UNDEFINED else value for value in values)
        if any(value is not None for value in (jobs, nodes, node_min, submitted)):
            node_us = None if node_min is None else node_min * _MINUTE_US
            yield Limit(by, jobs, nodes, None, node_us, submitted, place)
