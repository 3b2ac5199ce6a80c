"""A log that does not say how many nodes the cluster has: what each command that needs them tells its user to do."""

from __future__ import annotations

import pytest

from command_line import emulate
from emulator.workload.formats import load
from emulator.workload.rules import TraceError, cluster_size
from emulator.workload.sacct_jobs import SIZE_FROM
from testdata import TRACES

ACCOUNTS = {
    "slurm/sacct-workload-trace.txt": SIZE_FROM,
    "slurm/sacct-forms-json.txt": SIZE_FROM,
    "torque/accounting-log.txt": "`pbsnodes -a` lists the nodes",
    "openpbs/accounting-log.txt": "`pbsnodes -a` lists the nodes",
    "lsf/lsb.acct.txt": "`bhosts` lists the hosts",
    "condor/history.txt": "`condor_status -compact` lists the machines",
    "oar/oarstat.json": "`oarnodes` lists the nodes",
}
SITE_LOG = TRACES / "site/sacct.txt.xz"


def told(*arguments):
    """What a command says on its way out with status 2, one line."""
    result = emulate(*arguments)
    assert (result.exit_code, result.output.count("\n")) == (2, 1), result.output
    return result.output


def what_to_do(path, where):
    return (
        f"{path}: the log does not say how many nodes the cluster has ({where}); pass --nodes N (in a scenario:"
        " `nodes: N`)"
    )


@pytest.mark.parametrize("name", ACCOUNTS)
def test_an_accounting_log_names_the_command_of_its_batch_system_that_tells(name, output_of):
    path = output_of(name)
    with pytest.raises(TraceError) as caught:
        cluster_size(load(path))
    assert str(caught.value) == what_to_do(path, ACCOUNTS[name])


@pytest.mark.parametrize(
    "command",
    [
        ("run",),
        ("trace", "info"),
        ("trace", "weeks"),
        ("trace", "fit"),
        ("whatif", "--set", "bf_interval=600", "--log"),
    ],
    ids=" ".join,
)
def test_each_command_that_needs_the_size_says_so_of_sacct_s_log(command):
    assert told(*command, SITE_LOG) == f"emulator: {what_to_do(SITE_LOG, SIZE_FROM)}\n"


def test_a_scenario_without_the_size_says_so_too(tmp_path):
    file = tmp_path / "site.yaml"
    file.write_text(f"workload: {{trace: {SITE_LOG}}}\n")
    assert what_to_do(SITE_LOG, SIZE_FROM) in told("run", file)


def test_a_check_of_the_log_says_where_the_size_stands():
    result = emulate("trace", "check", SITE_LOG)
    assert result.exit_code == 1
    assert f"* The number of nodes is unknown: pass --nodes N ({SIZE_FROM})." in result.output


def test_a_study_without_the_sizes_says_which_and_where_they_stand():
    usage = TRACES / "site/usage.json.xz"
    assert told("study", "merge", "--batch", SITE_LOG, "--ondemand", usage) == (
        "emulator: --nodes is missing: say how many nodes both clusters have, BATCH+ON_DEMAND, for example 304+68"
        f" (with Slurm, {SIZE_FROM})\n"
    )
