"""Units of another program: files of a few jobs each, of which each job's name says when it must end.

A line is a job: submit, name, estimate, nodes, run time, two numbers that nobody here reads, and its user. Times are
whole seconds. Before its point the name is the job's end; empty lines and those that begin with # do not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from balancer.clock import US
from emulator.runs.preparation import Prepared
from emulator.runs.runner import run_virtual
from emulator.runs.scenario import ScenarioError, from_mapping
from emulator.text.file_errors import refusal
from emulator.workload.table import JobTable
from emulator.workload.transforms import apply_transforms, parse_transforms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


class UnitJob(NamedTuple):
    """Of one line, in seconds."""

    submit_s: int
    end_s: int
    estimate_s: int
    nodes: int
    run_s: int
    user: str


def read_unit(path: Path) -> list[UnitJob]:
    """Raises ScenarioError, which names file and line."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: {refusal(error)}") from error
    jobs = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        try:
            submit, name, estimate, nodes, run, _, _, user = line.split()
            end = name.partition(".")[0]
            jobs.append(UnitJob(int(submit), int(end), int(estimate), int(nodes), int(run), user))
        except ValueError as error:
            problem = (
                "must be submit, name, estimate, nodes, run time, two numbers and a user, in whole seconds"
            )
            raise ScenarioError(f"{path}: line {number}: {problem}") from error
    return jobs


def unmet(folder: Path, files: Sequence[str], mapping: Mapping[str, Any]) -> list[str]:
    """Files whose jobs do not all end when their names say, under the scenario. Raises ScenarioError."""
    return [name for name in files if not _is_met(folder / name, mapping)]


def _is_met(path: Path, mapping: Mapping[str, Any]) -> bool:
    unit = read_unit(path)
    users = {name: number for number, name in enumerate(dict.fromkeys(job.user for job in unit))}
    workload = mapping["workload"] | {"trace": str(path)}
    for key in sorted(workload.keys() - {"trace", "transforms"}):
        raise ScenarioError(f"workload.{key}: a unit has its jobs as they are; leave it out")
    scenario = from_mapping({**mapping, "name": path.name, "workload": workload})
    if scenario.nodes is None:
        raise ScenarioError("nodes: how many nodes? (a unit has no header to tell)")
    jobs = JobTable.build(
        number=[*range(1, len(unit) + 1)],
        submit_us=[job.submit_s * US for job in unit],
        run_us=[job.run_s * US for job in unit],
        estimate_us=[job.estimate_s * US for job in unit],
        nodes=[job.nodes for job in unit],
        user=[users[job.user] for job in unit],
    )
    transforms = parse_transforms(scenario.workload.transforms)
    jobs = apply_transforms(transforms, jobs, nodes=scenario.nodes, seed=scenario.seed, counted={})
    record = run_virtual(scenario, Prepared(jobs, scenario.nodes))
    ends_us = dict(zip(record.jobs.number.tolist(), record.end_us.tolist(), strict=True))
    return ends_us == {number: job.end_s * US for number, job in enumerate(unit, 1)}
