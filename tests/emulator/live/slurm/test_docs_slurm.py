"""docs/live-slurm.md takes an administrator from a slurm.conf to a report; here it is done as written, on few nodes."""

import json
import re
from pathlib import Path

import pytest

from command_line import emulate

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.needs("slurm", "libfaketime")]
PAGE = Path(__file__).parents[4] / "docs" / "live-slurm.md"
CONF = """\
ClusterName=site
SlurmctldHost=head.site.example
AccountingStorageType=accounting_storage/slurmdbd
NodeName=node[001-900] CPUs=64 RealMemory=256000
SelectType=select/cons_tres
PriorityType=priority/multifactor
PriorityWeightJobSize=1000
SchedulerParameters=bf_interval=60,bf_window=2880
PartitionName=debug Nodes=ALL MaxTime=60 PriorityTier=10
PartitionName=batch Nodes=ALL Default=YES
"""


def swf(number, submit_s, run_s, nodes, queue):
    limit_s = 2 * run_s
    return f"{number} {submit_s} -1 {run_s} {nodes} -1 -1 {nodes} {limit_s} -1 1 5 1 -1 {queue} -1 -1 -1\n"


def test_the_page_leads_from_a_slurm_conf_to_a_report(tmp_path, monkeypatch):
    page = PAGE.read_text(encoding="utf-8")
    scenario = re.search(r"```yaml\n(# site\.yaml\n.*?)```", page, re.DOTALL)[1]
    command = re.search(r"^    emulator (run site\.yaml .*)$", page, re.MULTILINE)[1]
    monkeypatch.chdir(tmp_path)
    Path("site.yaml").write_text(scenario, encoding="utf-8")
    Path("slurm.conf").write_text(CONF, encoding="utf-8")
    jobs = [
        swf(number, 60 * number, 300, 1 + number % 3, 1 if number % 4 == 0 else 2) for number in range(1, 13)
    ]
    Path("mine.swf").write_text("; MaxNodes: 8\n" + "".join(jobs), encoding="utf-8")

    fewer = ["--set", "nodes=8", "--set", "mechanism.balancer.static_reserve=1", "--quiet", "--check"]
    result = emulate(*command.split(), *fewer)

    assert result.exit_code == 0, result.output
    summary = json.loads(Path("runs/site/summary.json").read_text(encoding="utf-8"))
    assert summary["jobs_run"] == 12
    assert Path("runs/site/report.html").exists()
    assert "run over nominal" in result.output
    used = Path("runs/site/logs/slurm.conf")
    assert "# left out: slurm.conf:5: SelectType=select/cons_tres" in used.read_text(encoding="utf-8")
    assert "bf_interval=60,bf_window=2880" in used.read_text(encoding="utf-8")
    where = dict(
        re.findall(
            r"Name=j(\d+) .* Partition=(\w+) ", Path("runs/site/logs/jobcomp.txt").read_text(encoding="utf-8")
        )
    )
    assert where == {str(number): "debug" if number % 4 == 0 else "batch" for number in range(1, 13)}
