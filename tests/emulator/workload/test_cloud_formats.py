"""What a cloud records of its servers, as a real Nova and its client printed it."""

from __future__ import annotations

import json

import pytest

from emulator.workload.formats import find_format, load
from emulator.workload.packing import running
from emulator.workload.rules import to_jobs
from testdata import RECORDED

HOUR_S = 3600
DAY = "2026-11-21T"
BEGIN_S = 1_795_219_200
"""Midnight of that day, UTC."""


@pytest.fixture(scope="module")
def printed():
    """What a command of the client printed."""
    commands = json.loads((RECORDED / "nova/50-cli.json").read_text())["commands"]
    return {each["command"]: each["stdout"] for each in commands}


@pytest.fixture
def json_file(tmp_path):
    def build(*documents):
        path = tmp_path / "cloud.json"
        path.write_text("\n".join(json.dumps(each, indent=2) for each in documents))
        return path

    return build


def spans(log):
    """(begin, end) of each server in seconds of the day, and its vCPUs and status."""
    columns = ("submit_s", "run_s", "allocated_procs", "status")
    rows = zip(*(log.column(name).tolist() for name in columns), strict=True)
    return [(begin - BEGIN_S, begin - BEGIN_S + run, *rest) for begin, run, *rest in rows]


def usage(begin, end, **more):
    return {"instance_id": "a", "started_at": DAY + begin, "ended_at": end and DAY + end, "vcpus": 32, **more}


def test_the_usage_that_a_real_nova_reports_is_a_log_of_its_servers(printed, json_file):
    said = printed["openstack usage show -f json"]
    log = load(json_file(said))
    assert len(log) == len(said["Servers"])
    assert set(log.column("allocated_procs").tolist()) == {32}
    assert log.zero_unix_s == 0
    ended = [each for each in said["Servers"] if each["state"] == "terminated"]
    run_s = log.column("run_s")[log.column("status") == 1]
    assert sorted(run_s.tolist()) == sorted(each["uptime"] for each in ended)


def test_all_projects_of_a_report_and_its_pages_are_one_log(json_file):
    page = {"tenant_usages": [{"server_usages": [usage("01:00:00", "02:00:00")], "stop": DAY + "09:00:00"}]}
    alone = {"tenant_usage": {"server_usages": [usage("03:00:00", None, vcpus=4)], "stop": DAY + "08:00:00"}}
    log = load(json_file([page, alone]))
    # What has not ended runs until the newest time that the report tells of.
    assert spans(log) == [(HOUR_S, 2 * HOUR_S, 32, 1), (3 * HOUR_S, 9 * HOUR_S, 4, -1)]
    assert "1 servers had not ended, and are taken to run until 2026-11-21T09:00:00Z" in log.keys["Note"]


def test_a_report_without_details_says_what_to_ask_for(json_file):
    with pytest.raises(ValueError, match="detailed=1"):
        load(json_file({"tenant_usages": [{"tenant_id": "x", "total_hours": 1.0}]}))


def test_servers_as_the_real_client_shows_them(printed, json_file):
    shown = [
        printed["openstack server show cli-1 -f json"],
        printed["openstack server show cli-over -f json"],
    ]
    log = load(json_file(shown))
    begin = 43 * 60 + 25
    assert spans(log)[0][0] == begin
    assert to_jobs(log, nodes=99, procs_per_node=32, origin_s=0).left_out == {
        "no run time": 1
    }  # ERROR: never ran


def test_servers_of_the_api_end_when_they_were_terminated(json_file):
    server = {"id": "a", "created": DAY + "01:00:00Z", "flavor": {"vcpus": 8}, "OS-SRV-USG:launched_at": None}
    ended = server | {
        "OS-SRV-USG:launched_at": DAY + "01:01:00.000000",
        "OS-SRV-USG:terminated_at": DAY + "02:30:00.000000",
    }
    log = load(json_file({"servers": [ended, server | {"id": "b", "updated": DAY + "05:00:00Z"}]}))
    assert spans(log) == [(HOUR_S, 2.5 * HOUR_S, 8, 1), (HOUR_S, 5 * HOUR_S, 8, -1)]


def test_the_table_of_instances_is_read_as_csv(text_file):
    log = load(
        text_file(
            "uuid,created_at,launched_at,terminated_at,deleted_at,vcpus,project_id,vm_state",
            "a,2026-11-21 01:00:00,2026-11-21 01:01:00,2026-11-21 02:00:00,2026-11-21 02:00:01,16,p,deleted",
            "b,2026-11-21 01:30:00,NULL,NULL,NULL,16,p,error",
        )
    )
    assert spans(log)[0] == (HOUR_S, 2 * HOUR_S, 16, 1)
    assert log.column("run_s").tolist() == [HOUR_S, -1]


def test_a_list_without_times_says_where_they_are(printed, json_file):
    with pytest.raises(ValueError, match=r'usage show -f json`.* -c "Created At"'):
        load(json_file(printed["openstack server list --long -f json"]))


def test_events_of_the_real_client_and_of_a_shelved_server(printed, json_file):
    real = printed["openstack server event list cli-1 -f json"]
    life = [
        {"Request ID": "r", "Server ID": "b", "Action": action, "Start Time": f"{DAY}0{hour}:00:00.000000"}
        for hour, action in enumerate(("create", "resize", "shelve", "unshelve", "delete"), 1)
    ]
    log = load(json_file(real, life[::-1]))  # newest first, as Nova lists them
    assert spans(log) == [
        (43 * 60 + 25, 5 * HOUR_S, 1, -1),
        (HOUR_S, 3 * HOUR_S, 1, 1),
        (4 * HOUR_S, 5 * HOUR_S, 1, 1),
    ]


def matrix(*series):
    return {
        "status": "success",
        "data": {"resultType": "matrix", "result": [{"values": each} for each in series]},
    }


def test_usage_of_prometheus_is_added_and_held_until_the_next_sample(json_file):
    first = [[BEGIN_S, "2"], [BEGIN_S + 300, "3"], [BEGIN_S + 600, "1"], [BEGIN_S + 900, "0"]]
    second = [[BEGIN_S + 300, "0.5"], [BEGIN_S + 600, "0.5"], [BEGIN_S + 6000, "0.5"], [BEGIN_S + 6300, "0"]]
    need = running(load(json_file(matrix(first, second))))
    assert dict(zip((need.time_us // 10**6 - BEGIN_S).tolist(), need.count.tolist(), strict=True)) == {
        0: 2,
        300: 4,
        600: 2,
        900: 1,
        1500: 0,  # three steps after the last sample that was
        6000: 1,
        6300: 0,
    }


def test_measures_of_gnocchi_are_read_as_csv_once_somebody_says_what_they_are(text_file, column_named):
    column_named("value")
    log = load(
        text_file(
            '"timestamp","granularity","value"',
            f'"{DAY}00:00:00+00:00","300.0","1.0"',
            f'"{DAY}00:05:00+00:00","300.0","0.0"',
        )
    )
    assert spans(log) == [(0, 300, 1, 1)]


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        (
            {"tenant_usages": [{"server_usages": [usage("03:00:00", "02:00:00")]}]},
            "server a: it ends at .*02:00:00Z",
        ),
        (
            {"tenant_usages": [{"server_usages": [usage("noon", None)]}]},
            "server a: started_at is '.*noon', not a time",
        ),
        ({"tenant_usages": [{"server_usages": [usage("01:00:00", None, vcpus="many")]}]}, "vcpus is 'many'"),
        ({"data": {"resultType": "vector", "result": []}}, "ask /api/v1/query_range"),
        (matrix(), "there are no samples"),
        (matrix([[BEGIN_S, "-1"], [BEGIN_S + 1, "1"]]), "series 1, sample 1: value is '-1', not from 0 to"),
        (matrix([[BEGIN_S, "1"]]), "more than one sample"),
    ],
)
def test_what_cannot_be_used_is_an_error_that_names_it(json_file, document, reason):
    with pytest.raises(ValueError, match=reason):
        load(json_file(document))


def test_a_server_in_two_reports_is_one_that_ends_when_the_later_one_says(json_file):
    server = {"instance_id": "a", "vcpus": 2, "started_at": DAY + "01:00:00"}
    reports = [
        {"tenant_id": "p", "stop": DAY + "03:00:00", "server_usages": [server | {"ended_at": None}]},
        {
            "tenant_id": "p",
            "stop": DAY + "09:00:00",
            "server_usages": [server | {"ended_at": DAY + "05:00:00"}],
        },
    ]
    for given in (reports, reports[::-1]):
        log = load(json_file({"tenant_usages": given}))
        assert spans(log) == [(HOUR_S, 5 * HOUR_S, 2, 1)]
        assert (log.passed_over, log.records) == ({"second record of the same run": 1}, 2)


def test_tables_one_behind_the_other_have_each_its_heading(tmp_path):
    heading, path = '"ID","Created At","terminated_at"', tmp_path / "servers.csv"
    path.write_text(
        f"{heading}\na,{DAY}01:00:00Z,{DAY}02:00:00Z\n{heading}\nb,{DAY}01:00:00Z,{DAY}03:00:00Z\n"
    )
    log = load(path)
    assert [end for _, end, *_ in spans(log)] == [2 * HOUR_S, 3 * HOUR_S]
    assert (log.passed_over, log.records) == ({"heading again": 1}, 3)


def test_jobs_of_grid5000_are_no_usage_report(json_file):
    jobs = {"items": [{"uid": 7, "started_at": 5, "stopped_at": 9, "submitted_at": 1, "state": "error"}]}
    assert find_format(json_file(jobs)).name == "oar"


def test_pages_one_behind_the_other_are_one_log(json_file):
    reports = [{"tenant_usages": [{"server_usages": [usage(f"0{at}:00:00", "09:00:00")]}]} for at in (1, 2)]
    assert [begin for begin, *_ in spans(load(json_file(*reports)))] == [HOUR_S, 2 * HOUR_S]
    pages = [
        {"servers": [{"id": name, "created": f"{DAY}0{at}:00:00Z", "OS-SRV-USG:launched_at": None}]}
        for at, name in enumerate("ab", 1)
    ]
    assert [begin for begin, *_ in spans(load(json_file(*pages)))] == [HOUR_S, 2 * HOUR_S]


def test_ranges_one_behind_the_other_continue_their_series(json_file):
    first, second = (
        {"data": {"resultType": "matrix", "result": [{"metric": {"host": "a"}, "values": values}]}}
        for values in (
            [[BEGIN_S + 300 * at, "2"] for at in range(4)],
            [[BEGIN_S + 300 * at, "2"] for at in range(2, 6)],
        )
    )
    log = load(json_file(first, second))
    assert spans(log) == [(0, 1800, 1, 1)] * 2
    assert log.passed_over == {"sample of a time that its series has already": 2, "sample of usage": 6}
    assert log.records == 8


def test_one_odd_sample_of_prometheus_is_left_out_alone(json_file):
    path = json_file(
        matrix([[BEGIN_S, "2"], [BEGIN_S + 300, "+Inf"], [BEGIN_S + 600, "2"], [BEGIN_S + 900, "0"]])
    )
    with pytest.raises(ValueError, match=r"series 1, sample 2: value is '\+Inf'"):
        load(path)
    log = load(path, lenient=True)
    assert (log.malformed, log.passed_over, log.records) == (1, {"sample of usage": 3}, 4)
    assert spans(log) == [(0, 900, 1, 1)] * 2


def test_an_export_that_is_there_twice_counts_once(text_file):
    rows = [f"{DAY}0{hour}:00:00,{2 - hour // 3}" for hour in range(4)]
    once, twice = (
        load(text_file("timestamp,vcpus", *rows, *again, name=f"{len(again)}.csv")) for again in ([], rows)
    )
    assert spans(twice) == spans(once)
    assert twice.passed_over == {"sample of a time that its series has already": 4, "sample of usage": 4}


@pytest.mark.parametrize("units", [1, 1000, 10**6, 10**9])
def test_times_in_parts_of_seconds_are_known_by_their_size(text_file, units):
    rows = [f"{(BEGIN_S + 300 * at) * units},{1 - at}" for at in range(2)]
    assert spans(load(text_file("timestamp,vcpus", *rows))) == [(0, 300, 1, 1)]


def test_numbers_and_times_as_other_programs_write_them(text_file):
    heading = "uuid,created_at,terminated_at,deleted_at,vcpus"
    row = f"a,{DAY}01:00:00,0000-00-00 00:00:00,{DAY}02:00:00,8.0"
    assert spans(load(text_file(heading, row))) == [(HOUR_S, 2 * HOUR_S, 8, 1)]


def test_texts_of_a_table_may_have_line_ends_and_a_stray_quote_takes_no_other_row(text_file):
    heading, row = "uuid,name,created_at,deleted_at", f"{DAY}01:00:00,{DAY}02:00:00"
    path = text_file(heading, 'a,"two', f'lines",{row}', f'b,"x,{row}', f"c,x,{row}", f'd,x"y,{row}')
    with pytest.raises(ValueError, match=r"log.txt:4: not a line of CSV"):
        load(path)
    log = load(path, lenient=True)
    assert (len(log), log.malformed, log.records) == (3, 1, 4)


def test_a_server_that_never_started_takes_no_other_from_a_report(json_file):
    """Nova writes null where an instance failed before it was launched."""
    report = {"server_usages": [usage("01:00:00", "02:00:00"), usage("01:00:00", None, started_at=None)]}
    log = load(json_file({"tenant_usage": report}))
    assert spans(log) == [(HOUR_S, 2 * HOUR_S, 32, 1)]
    assert log.passed_over == {"server that was never launched": 1}


def server(**more):
    return {
        "id": "a", "created": DAY + "01:00:00Z", "updated": DAY + "03:00:00Z", "flavor": {"vcpus": 4},
        "OS-SRV-USG:launched_at": DAY + "01:01:00", "OS-SRV-USG:terminated_at": None, "status": "ACTIVE", **more,
    }  # fmt: skip


def test_a_shelved_server_left_its_host_when_its_record_changed(json_file):
    awake = server(id="b", updated=DAY + "09:00:00Z")
    log = load(json_file({"servers": [server(status="SHELVED_OFFLOADED"), awake]}))
    assert spans(log) == [(HOUR_S, 3 * HOUR_S, 4, 1), (HOUR_S, 9 * HOUR_S, 4, -1)]
    assert list(log.remarks.values()) == [1]


def test_a_shelved_server_of_a_list_without_its_time_is_counted_and_left_out(text_file):
    path = text_file(
        f""""ID","Name","Status","Created At"
"a","x","SHELVED_OFFLOADED","{DAY}01:00:00Z"
"b","y","ACTIVE","{DAY}02:00:00Z"
"""
    )
    log = load(path)
    assert spans(log) == [(2 * HOUR_S, 2 * HOUR_S, 1, -1)]
    assert log.passed_over == {"shelved server, and the record does not say since when": 1}


def test_a_server_that_ended_and_was_never_launched_did_not_run(json_file, text_file):
    gone = {"OS-SRV-USG:launched_at": None, "OS-SRV-USG:terminated_at": DAY + "03:00:00", "status": "DELETED"}
    log = load(json_file({"servers": [server(**gone), server(id="b", **{"OS-SRV-USG:launched_at": None})]}))
    assert log.column("run_s").tolist() == [-1, 2 * HOUR_S]
    table = text_file(
        "uuid,created_at,launched_at,terminated_at,deleted_at,vcpus,vm_state\n"
        "a,2026-11-21 01:00:00,NULL,NULL,2026-11-21 01:00:05,4,deleted\n"
    )
    assert load(table).column("run_s").tolist() == [-1]
