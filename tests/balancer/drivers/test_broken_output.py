"""Whatever happens to an answer on its way, it is read rightly or not at all (T10).

For every recorded answer that a driver reads: cut at every byte; each line removed, doubled; and seeded
random damage as it really occurs (a cut, lost, doubled or swapped lines, another program's text in between, a
changed byte). `MUTATIONS=1000000` for more than the 20,000 of every run.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest

from balancer.drivers import openpbs_json, slurm_text, torque_xml
from balancer.drivers.base import NodeStatus, UnclearError
from gates import GATE
from testdata import RECORDED

OURS = Path(__file__).parent / "recordings" / "slurm"
BANNERS = ("Warning: certificate expires\n", "slurm_load_node: retry\n", "\0", "<b/>", "{}", "\n\n")


def stdout(path: Path) -> str:
    text = path.read_text(encoding="utf-8").partition("--- stdout\n")[2].partition("--- stderr\n")[0]
    xml = re.search(r"<Data>.*</Data>\n", text)
    return xml[0] if xml else text


def slurm_reading(nodes: str, jobs: str) -> dict[str, NodeStatus]:
    held = slurm_text.parse_jobs(jobs)
    return {
        name: slurm_text.status_of(line, held.get(name, ()), note="balancer: lent to on-demand")
        for name, line in slurm_text.parse_nodes(nodes).items()
    }


def slurm_nodes(jobs: str):
    return lambda text: slurm_reading(text, stdout(OURS / jobs))


def slurm_jobs(nodes: str):
    return lambda text: slurm_reading(stdout(OURS / nodes), text)


def openpbs_busy(text: str) -> str:
    """The recorded answer with a job as the source of pbsnodes prints it (only idle nodes were recorded)."""
    busy = text.replace('"state":\t"free"', '"state":\t"offline,job-exclusive"', 1)
    busy = busy.replace(
        '"resources_assigned":\t{\n', '"jobs":\t["0.pbsserver"],\n\t\t\t"resources_assigned":\t{\n', 1
    )
    return busy.replace('"resources_assigned":\t{\n', '"resources_assigned":\t{\n\t\t\t\t"ncpus":\t2\n', 1)


CASES = {
    **{
        f"torque {name}": (torque_xml.parse_nodes, stdout(RECORDED / "torque" / f"{name}.txt"))
        for name in ("pbsnodes-x-idle", "pbsnodes-x-busy", "pbsnodes-o-busy-after", "pbsnodes-o-with-note")
    },
    "openpbs idle": (openpbs_json.parse_nodes, stdout(RECORDED / "openpbs" / "pbsnodes-json-idle.txt")),
    "openpbs busy": (
        openpbs_json.parse_nodes,
        openpbs_busy(stdout(RECORDED / "openpbs" / "pbsnodes-json-idle.txt")),
    ),
    **{
        f"slurm {nodes}": (slurm_nodes(jobs), stdout(OURS / nodes))
        for nodes, jobs in (
            ("nodes-idle.txt", "jobs-none.txt"),
            ("nodes-busy.txt", "jobs-running.txt"),
            ("nodes-draining.txt", "jobs-running.txt"),
            ("nodes-after-restart.txt", "jobs-after-restart.txt"),
            ("nodes-suspended.txt", "jobs-suspended.txt"),
        )
    },
    **{
        f"slurm {recorded}": (slurm_nodes("jobs-none.txt"), stdout(RECORDED / "slurm" / f"{recorded}.txt"))
        for recorded in (
            "scontrol-show-node-oneliner-idle",
            "scontrol-show-node-drained",
            "scontrol-show-node-draining",
        )
    },
    **{
        f"slurm {jobs} with {nodes}": (slurm_jobs(nodes), stdout(OURS / jobs))
        for nodes, jobs in (
            ("nodes-busy.txt", "jobs-running.txt"),
            ("nodes-draining.txt", "jobs-running.txt"),
            ("nodes-suspended.txt", "jobs-suspended.txt"),
        )
    },
}
every_case = pytest.mark.parametrize("case", CASES)


def name_of(status: NodeStatus) -> str:
    return "offline with a job" if status.state == "offline" and status.jobs else status.state


def check(read, text: str, right: dict[str, NodeStatus]) -> bool:
    """Whether it was read at all; a node that the batch system does not have concerns nobody."""
    try:
        found = read(text)
    except UnclearError:
        return False
    for node in found.keys() & right.keys():
        assert name_of(found[node]) in (name_of(right[node]), "unknown"), (node, found[node], text)
    return True


@every_case
def test_an_answer_cut_at_any_byte_is_right_or_unclear(case):
    read, text = CASES[case]
    right = read(text)
    raw = text.encode()
    whole = sum(check(read, raw[:length].decode(errors="replace"), right) for length in range(len(raw)))
    assert whole <= text.count("\n") + 2  # at most where a line ends


@every_case
def test_an_answer_without_a_line_or_with_one_twice_is_right_or_unclear(case):
    read, text = CASES[case]
    right = read(text)
    lines = text.splitlines(keepends=True)
    for at in range(len(lines)):
        check(read, "".join(lines[:at] + lines[at + 1 :]), right)
        check(read, "".join(lines[: at + 1] + lines[at:]), right)


def damaged(text: str, chance: random.Random) -> str:
    lines = text.splitlines(keepends=True)
    at, line = chance.randrange(len(text) + 1), chance.randrange(len(lines))
    match chance.randrange(6):
        case 0:
            return text[:at]
        case 1:
            return text[:at] + chance.choice(BANNERS) + text[at:]
        case 2:
            return text[:at] + chr(chance.randrange(256)) + text[at + 1 :]
        case 3:
            other = chance.randrange(len(lines))
            lines[line], lines[other] = lines[other], lines[line]
        case 4:
            lines[line:line] = lines[chance.randrange(len(lines)) :][:2]
        case _:
            return text[at:]
    return "".join(lines)


@pytest.mark.sample(1)
@pytest.mark.parametrize("part", range(4))
def test_random_damage_never_makes_a_node_free(part):
    """A changed byte may make one valid word or name of another; what counts is that no node becomes free."""
    chance = random.Random(part)
    names = sorted(CASES)
    rights = {name: CASES[name][0](CASES[name][1]) for name in names}
    for _ in range(GATE.mutations // 4):
        name = chance.choice(names)
        read, text = CASES[name]
        text = damaged(text, chance)
        try:
            found = read(text)
        except UnclearError:
            continue
        for node, status in found.items():
            right = rights[name].get(node)
            if right is not None and (status.state == "idle" or status.is_handed_over):
                assert name_of(status) == name_of(right), (name, node, status, text)
