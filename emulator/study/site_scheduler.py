"""Under which scheduler the runs of a merger are: with `slurm:FILE`, a slurm.conf that knows the batch nodes alone.

The on-demand nodes come behind them, in all partitions with `Nodes=ALL`, else in the largest. Queues of the batch log
go to the partitions of their names, nodes that jobs share or that were down to one without limits. Jobs that their
partition would never start are left out, as in `whatif`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from emulator.cluster.slurm_scheduler import Slurm
from emulator.runs.queue_partitions import partitions_by_name, people_by_name
from emulator.runs.scenario import ScenarioError
from emulator.schedulers.slurm.conf_lines import read_lines, site_nodes
from emulator.schedulers.slurm.refusals import never_started
from emulator.schedulers.slurm.settings import UNLIMITED_PARTITION
from emulator.text.number_text import grouped, number_of

if TYPE_CHECKING:
    from emulator.study.logs import Logs

_SLURM = "slurm:"


def under_scheduler(
    logs: Logs,
    scheduler: str,
    ondemand_nodes: int,
    *,
    qos: Path | None = None,
    associations: Path | None = None,
) -> tuple[Logs, Any]:
    """The logs without jobs that it would never start, and what a scenario says of it. Raises ScenarioError.

    `qos`, `associations`: what sacctmgr printed, for `slurm:FILE`.
    """
    if not scheduler.startswith(_SLURM):
        return logs, scheduler
    conf, nodes = Path(scheduler.removeprefix(_SLURM)).absolute(), logs.batch_nodes + ondemand_nodes
    try:
        has_both = len(site_nodes(read_lines(conf))) == nodes
        slurm = Slurm(
            conf=conf, nodes_added=0 if has_both else ondemand_nodes, qos=qos, associations=associations
        )
        of_log: dict[str, Any] = people_by_name(slurm, logs.log.user_names, logs.log.group_names)
        of_log |= {} if qos is None else {"qos_names": logs.log.names_of("Qos")}
        slurm = replace(slurm, **of_log)
        of_jobs = logs.batch.take(
            logs.batch.queue != (-2 if logs.shared_queue is None else logs.shared_queue)
        )
        queues = partitions_by_name(slurm, nodes, logs.log.names_of("Queue"), of_jobs)
        by_queue = dict(queues.by_queue)
        if logs.shared_queue is not None:
            by_queue[logs.shared_queue] = UNLIMITED_PARTITION
        slurm = replace(slurm, queues=by_queue, unlimited_queue=logs.shared_queue)
        rules = slurm.rules(nodes)
        never, why = never_started(logs.batch, slurm, rules, nodes)
        notes = [*slurm.not_followed(logs.batch, nodes), *queues.not_followed(conf)]
    except ValueError as error:
        raise ScenarioError(f"--scheduler {scheduler}: {error}") from error
    if never.all():
        raise ScenarioError(f"--scheduler {scheduler}: it would start none of the jobs: {why}")
    if never.any():
        notes.append(
            f"batch: left out: {number_of(int(never.sum()), 'job')} that {conf.name} would never start: {why}"
        )
    if slurm.nodes_added:
        theirs = [each.name for each in rules.partitions if each.nodes is None or nodes - 1 in each.nodes]
        notes.append(
            f"{conf.name} has the {grouped(logs.batch_nodes)} batch nodes; the {grouped(ondemand_nodes)} on-demand"
            f" nodes are put into the partition{'s' * (len(theirs) > 1)} {', '.join(theirs)}"
        )
    document = {
        "slurm": {"conf": str(conf), "nodes_added": slurm.nodes_added, "queues": by_queue}
        | {
            name: str(path.absolute())
            for name, path in (("qos", qos), ("associations", associations))
            if path
        }
        | {name: dict(names) for name, names in of_log.items()}
        | ({} if logs.shared_queue is None else {"unlimited_queue": logs.shared_queue})
    }
    kept = replace(
        logs, batch=logs.batch.take(~never), waited_us=logs.waited_us[~never], notes=(*logs.notes, *notes)
    )
    return kept, document
