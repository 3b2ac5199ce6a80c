"""A table over time is usage only if it says that it counts nodes, servers or cores, or a user says so."""

from __future__ import annotations

import json

import pytest

from command_line import emulate
from emulator.workload.formats import TraceError, load
from emulator.workload.usage_columns import counts

BEGIN_S = 1_767_484_800


def series(heading, values, *more):
    """A line each five minutes: time, value, and the same words behind it."""
    return "\n".join(
        [
            heading,
            *(",".join([str(BEGIN_S + 300 * at), str(value), *more]) for at, value in enumerate(values)),
        ]
    )


POWER = series("timestamp,value", [400 + at % 10 for at in range(360)])


@pytest.mark.parametrize(
    "command",
    [
        ("trace", "info"),
        ("trace", "check"),
        ("run", "--nodes", 500, "--no-report"),
    ],
)
def test_power_samples_are_no_jobs_whatever_the_command(text_file, tmp_path, command):
    log = text_file(POWER)
    out = ("--out", tmp_path / "out") if command[0] == "run" else ()
    done = emulate(*command, log, *out)
    assert done.exit_code == 2
    assert (
        f"{log}: its columns are timestamp, value, and none says that it counts nodes, servers or cores: it might be"
        " watts, degrees or a share of load as well; if it is usage, say --usage-column value"
    ) in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_study_of_power_samples_ends_with_2_and_writes_nothing(text_file, tmp_path):
    log = text_file(POWER)
    done = emulate(
        "study", "merge", "--batch", log, "--ondemand", log, "--nodes", "8+2", "--out", tmp_path / "out"
    )
    assert (done.exit_code, "say --usage-column value" in done.stderr) == (2, True), done.output
    assert not list((tmp_path / "out").glob("*.html"))


def test_who_says_that_it_is_usage_gets_it(text_file):
    log = text_file(series("timestamp,value", [1, 2, 0]))
    done = emulate("trace", "info", log, "--nodes", 4, "--usage-column", "value")
    assert done.exit_code == 0, done.output
    assert "2" in done.stdout
    with pytest.raises(TraceError, match="--usage-column value"):
        load(log)  # it was said for that command alone


@pytest.mark.parametrize(
    ("heading", "more"),
    [
        ("timestamp,nodes", ()),
        ("timestamp,vcpus_used", ()),
        ("Timestamp,Running Servers", ()),
        ("timestamp,value,unit", ("vcpu",)),
        ("timestamp,volume,name,unit", ("instance", "instance")),
        ("timestamp,value,cores", None),
    ],
)
def test_names_and_units_that_count_nodes_servers_or_cores_are_usage(text_file, heading, more):
    text = series(heading, [1, 2, 0], *(more or ()))
    if more is None:  # the column of that name, not the value beside it
        text = series(heading, [7, 7, 7], "1").replace(",7,1", ",7,1")
    log = load(text_file(text))
    assert len(log) == (1 if more is None else 2)


@pytest.mark.parametrize(
    ("heading", "more", "said"),
    [
        ("timestamp,value,unit", ("W",), "cores (said of it: W): it might be watts"),
        ("timestamp,value,name", ("cpu_util",), "cores (said of it: cpu_util)"),
        ("timestamp,value,node_power", ("4",), "its columns are timestamp, value, node_power, and none"),
        ("timestamp,idle_nodes,value", ("4",), "its columns are timestamp, idle_nodes, value, and none"),
        ("timestamp,value,nodes,cores", ("1", "16"), "nodes and cores may each count what was in use"),
    ],
)
def test_other_units_and_two_columns_that_count_are_refused(text_file, heading, more, said):
    with pytest.raises(TraceError) as refused:
        load(text_file(series(heading, [1, 2, 0], *more)))
    assert said in str(refused.value)


def test_one_row_of_another_unit_is_enough_to_refuse(text_file):
    text = series("timestamp,value,unit", [1, 2], "vcpu") + f"\n{BEGIN_S + 600},400,W"
    with pytest.raises(TraceError, match=r"said of it: W, vcpu"):
        load(text_file(text))


def test_a_column_that_is_not_there_is_named(text_file):
    done = emulate("trace", "info", text_file(POWER), "--usage-column", "vcpus")
    assert (done.exit_code, "--usage-column vcpus: its columns are timestamp, value" in done.stderr) == (
        2,
        True,
    )


def usage_scenario(path, column, text):
    (path / "usage.csv").write_text(text)
    document = f"nodes: 4\nworkload: {{trace: usage.csv, usage_column: {column}}}\n"
    (path / "usage.yaml").write_text(document)
    return emulate("run", path / "usage.yaml", "--out", path / "out", "--no-report", "--json")


def test_a_scenario_says_it_with_a_key(tmp_path):
    done = usage_scenario(tmp_path, "value", series("timestamp,value", [1, 2, 0]))
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    assert summary["scenario"]["workload"]["usage_column"] == "value"
    assert summary["jobs_run"] == 2


@pytest.mark.parametrize(
    ("column", "text", "said"),
    [
        ("vcpus", POWER, "workload.usage_column vcpus: its columns are timestamp, value"),
        (
            "value",
            "; MaxNodes: 8\n; MaxProcs: 8\n1 0 -1 3600 8 -1 -1 8 7200 -1 1 1 1 -1 1 -1 -1 -1\n",
            "workload.usage_column value: it is no table over time; leave the key out",
        ),
    ],
)
def test_a_key_that_names_nothing_ends_with_2(tmp_path, column, text, said):
    done = usage_scenario(tmp_path, column, text)
    assert (done.exit_code, said in done.stderr) == (2, True), done.output


def test_an_option_that_no_log_needed_is_told(text_file):
    log = text_file("; MaxNodes: 8\n; MaxProcs: 8\n1 0 -1 3600 8 -1 -1 8 7200 -1 1 1 1 -1 1 -1 -1 -1")
    done = emulate("trace", "info", log, "--usage-column", "value")
    assert (done.exit_code, "so it was not used" in done.stderr) == (0, True), done.output


@pytest.mark.parametrize(
    ("text", "is_count"),
    [
        ("nodes", True), ("Node", True), ("vCPUs in use", True), ("server_count", True), ("instances", True),
        ("gpu", True), ("W", False), ("power", False), ("cpu_util", False), ("node_power", False),
        ("cpu temperature", False), ("gpu-hours", False), ("score", False), ("value", False),
        ("node_id", False), ("", False), ("idle_nodes", False), ("nodes_total", False), ("vcpus free", False),
        ("nodes_down", False), ("unused_nodes", False), ("node_network_packets", False), ("total_cores_used", True),
    ],
)  # fmt: skip
def test_which_words_count(text, is_count):
    assert counts(text) is is_count


@pytest.mark.parametrize("nothing", ["NaN", "", "null"])
def test_samples_without_a_value_are_no_change_and_are_counted(text_file, nothing):
    log = load(text_file("timestamp,nodes", "0,2", f"300,{nothing}", "600,1", "900,0", name="usage.csv"))
    assert log.passed_over == {"sample of usage": 3, "sample without a value": 1}
    assert sorted(log.column("run_s").tolist()) == [600, 900]


def test_samples_of_prometheus_without_a_value_leave_the_others_of_their_series(tmp_path):
    values = [[0, "2"], [300, "NaN"], [600, "1"], [900, "0"]]
    path = tmp_path / "range.json"
    path.write_text(
        json.dumps({"data": {"resultType": "matrix", "result": [{"metric": {}, "values": values}]}})
    )
    log = load(path)
    assert log.passed_over == {"sample of usage": 3, "sample without a value": 1}
    assert sorted(log.column("run_s").tolist()) == [600, 900]


@pytest.mark.parametrize(
    ("heading", "times"),
    [
        ("Time,vcpus", ("1767600000000", "1767600300000")),
        ('"Time","vcpus"', ("2026-01-05 08:00:00", "2026-01-05 08:05:00")),
    ],
)
def test_grafanas_export_is_a_series(text_file, heading, times):
    log = load(
        text_file(
            heading, *(f"{at},{count}" for at, count in zip(times, (1, 0), strict=True)), name="usage.csv"
        )
    )
    assert log.column("submit_s").tolist() == [1_767_600_000]
    assert log.column("run_s").tolist() == [300]
