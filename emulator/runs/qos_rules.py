"""From a scenario to its limits and to the QOS of its jobs under the plain schedulers (`docs/job-rules.md`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emulator.cluster.partitions import partitions_on
from emulator.config.node_names import default_node_names
from emulator.runs import job_qos as qos
from emulator.runs.scenario import Scenario, ScenarioError
from emulator.schedulers.multifactor import Multifactor
from emulator.schedulers.slurm.qos import read_qos
from emulator.workload.job_columns import TIER

if TYPE_CHECKING:
    from emulator.workload.table import JobTable

WHAT = "qos: priorities and limits of jobs"


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
    if TIER not in jobs.extra:
        return
    order = scheduler.make_order()
    if not callable(order) and not isinstance(order, Multifactor):
        raise ScenarioError(
            f"qos: the queue order {scheduler.order_name} is called at each pass and knows no priorities of QOS; take "
            "multifactor, which has a weight for them (qos_weight), or an order that never changes, such as fcfs"
        )
