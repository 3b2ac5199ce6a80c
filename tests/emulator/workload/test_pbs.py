"""Accounting logs of Torque and OpenPBS, as recorded from the real ones."""

from __future__ import annotations

import gzip

import pytest

from emulator.workload.check import check
from emulator.workload.formats import load
from emulator.workload.pbs import PbsFormat
from emulator.workload.rules import to_jobs
from emulator.workload.swf import GPUS_KEY, HOST_KEY

COLUMNS = ("number", "wait_s", "run_s", "allocated_procs", "requested_s", "status")
STAMP = "11/21/2026 00:27:12"


@pytest.fixture
def record():
    def build(job="7.server", kind="E", **changes):
        said = {
            "user": "alice", "group": "staff", "queue": "batch", "ctime": 100, "start": 160, "end": 460,
            "exec_host": "n1/0-1+n2/0-1", "Resource_List.walltime": "00:10:00", "Exit_status": 0,
        }  # fmt: skip
        said |= changes
        body = " ".join(f"{key}={value}" for key, value in said.items() if value is not None)
        return f"{STAMP};{kind};{job};{body}"

    return build


def test_torques_own_log_gives_its_jobs(output_of, rows_of):
    log = load(output_of("torque/accounting-log.txt"))
    assert rows_of(log, *COLUMNS) == [
        (0, 0, 21, 4, 300, 1),
        (2, 1, 60, 1, 300, 1),
        (1, 0, 76, 4, 300, 1),
        (3, 1, 30, 4, 300, 1),
        (4, 0, 23, 4, 300, 1),
        (5, 1, 0, 2, 300, 0),  # its prologue failed
        (20, 4, 10, 4, 300, 1),  # rerun: the last run
        (21, 0, 3, 4, 300, 5),  # deleted while it ran
        (23, 0, 43, 2, 10, 0),  # killed at its walltime
        (27, 0, 80, 1, 120, 1),
        (26, 0, 91, 4, 1200, 1),  # its walltime was altered while it ran
        (34, 42, 5, 1, 3600, 1),
        (35, 44, 5, 12, 3600, 1),
    ]
    assert log.column("submit_s")[0] == 1_795_220_811
    assert log.nodes.tolist() == [2, 1, 2, 2, 2, 1, 2, 2, 1, 1, 2, 1, 6]
    assert log.keys["Queue"] == ("1 batch",)


def test_openpbss_own_log_gives_its_jobs(output_of, rows_of):
    log = load(output_of("openpbs/accounting-log.txt"))
    assert rows_of(log, *COLUMNS) == [
        (1, 0, 11, 4, 300, 1),
        (2, 0, 2, 2, 300, 0),
        (6, 13, 9, 4, 300, 1),  # rerun: the record of the first run is R
        (7, 0, 11, 2, 300, 5),
        (8, 0, 12, 2, 5, 0),
    ]
    assert log.nodes.tolist() == [2, 1, 2, 1, 1]


def test_jobs_are_as_wide_as_their_nodes_unless_processors_are_asked_for(output_of):
    log = load(output_of("torque/accounting-log.txt"))
    by_nodes = to_jobs(log, nodes=8)
    assert by_nodes.jobs.nodes.max() == 6
    assert by_nodes.left_out == {"no run time": 1}
    by_procs = to_jobs(log, nodes=16, size="procs")
    assert by_procs.jobs.nodes.max() == 12


def test_a_folder_of_daily_files_is_one_log_and_other_files_in_it_are_not_read(text_file, record, rows_of):
    text_file(record("1.s"), name="days/20261121")
    second = text_file(record("2.s", user="bob"), name="days/20261122")
    (second.parent / "20261123.gz").write_bytes(gzip.compress(f"{record('3.s')}\n".encode()))
    text_file("anything", name="days/notes.txt")
    log = load(second.parent)
    assert rows_of(log, "number", "user") == [(1, 1), (2, 2), (3, 1)]


def test_a_folder_without_daily_files_is_no_log(tmp_path):
    with pytest.raises(ValueError, match="there are no daily files named YYYYMMDD"):
        PbsFormat().read(tmp_path)
    with pytest.raises(ValueError, match="not a folder of logs in a known format"):
        load(tmp_path)


def test_only_ends_are_jobs(text_file, record):
    log = load(
        text_file(record(kind="Q"), record(kind="S"), record(kind="R"), f"{STAMP};D;8.server;requestor=r")
    )
    assert len(log) == 0
    assert log.passed_over == {"Q record": 1, "S record": 1, "R record": 1, "D record": 1}


def test_an_array_itself_is_no_job_and_its_elements_are(text_file, record, rows_of):
    parent = record("4[].s", start=0, exec_host=None, array_indices="1-2")
    log = load(text_file(record("4[1].s"), record("4[2].s", start=460, end=900), parent))
    assert rows_of(log, "number", "run_s") == [(4, 300), (4, 440)]
    assert log.passed_over == {"array itself": 1}


def test_two_end_records_of_a_job_are_one_job_with_its_last_run(text_file, record, rows_of):
    again = record("1.s", start=500, end=900)
    log = load(text_file(record("1.s"), again, record("2.s"), record("1.s"), again, record("1.s", ctime=110)))
    assert rows_of(log, "number", "submit_s", "wait_s", "run_s") == [
        (1, 100, 400, 400),
        (2, 100, 60, 300),
        (1, 110, 50, 300),  # its number came round again
    ]
    assert log.passed_over == {
        "earlier run of a job that ran again": 2,
        "second record of the same run": 1,
    }


def test_a_job_that_was_deleted_while_it_waited_to_run_again_keeps_its_run(text_file, record, rows_of):
    log = load(text_file(record(), record(start=None, exec_host=None, end=9000)))
    assert rows_of(log, "wait_s", "run_s") == [(60, 300)]


@pytest.mark.parametrize(
    ("changes", "sizes"),
    [
        # Four chunks on one host.
        ({"exec_host": "n1/0*8+n1/1*8", "Resource_List.nodect": 2, "Resource_List.ncpus": 16}, (1, 16, None)),
        # Torque's default of ncpus.
        ({"exec_host": "n4/2+n4/3+n4/4+n4/5", "Resource_List.ncpus": 1}, (1, 4, None)),
        ({"exec_host": "n1/0-1", "unique_node_count": 2, "total_execution_slots": 4}, (1, 2, None)),
        ({"exec_host": None, "Resource_List.nodes": "2:ppn=28:gpus=2:bigmem"}, (2, 56, 4)),
        ({"exec_host": None, "Resource_List.nodes": "n7:ppn=4+3:gpus=1#shared"}, (4, 7, 3)),
        ({"exec_host": None, "Resource_List.nodes": "3", "Resource_List.ncpus": 1}, (3, 3, None)),
        ({"exec_vnode": "(n1:ncpus=2:ngpus=2)+(n2:ncpus=2:ngpus=1)", "Resource_List.ngpus": 9}, (2, 4, 3)),
    ],
)
def test_what_a_job_had_counts_before_what_it_asked_for(text_file, record, changes, sizes):
    log = load(text_file(record(**changes)))
    gpus = log.further(GPUS_KEY)
    assert (log.nodes[0], log.column("allocated_procs")[0], None if gpus is None else gpus[0]) == sizes


def test_the_header_says_of_how_many_jobs_request_and_hosts_differ(text_file, record):
    log = load(text_file(record("1.s", **{"Resource_List.ncpus": 1}), record("2.s")))
    assert (
        "; Note: 1 jobs: exec_host has another number of processors than was asked for, and counts"
        in log.header
    )


@pytest.mark.parametrize(
    ("limit", "requested_s"), [("2:01:00:00", 176_400), ("1:00:00.5", 3600), ("90", 90), ('"00:10:00"', 600)]
)
def test_limits_have_days_hours_minutes_or_seconds(text_file, record, limit, requested_s):
    log = load(text_file(record(**{"Resource_List.walltime": limit})))
    assert log.column("requested_s").tolist() == [requested_s]
    assert log.complaints == ()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Resource_List.walltime", "UNLIMITED"),
        ("Resource_List.walltime", "1h"),
        ("Resource_List.ncpus", "many"),
        ("Resource_List.nodect", ""),
        ("Resource_List.ngpus", "1:shared"),
        ("Resource_List.nodes", "1:ppn=ALL"),
        ("exec_host", "n1/x"),
    ],
)
def test_a_request_that_is_not_understood_is_unknown_and_told_and_its_job_stays(
    text_file, record, rows_of, name, value
):
    log = load(text_file(record("1.s"), record("2.s", **{name: value})))
    assert rows_of(log, "number", "run_s") == [(1, 300), (2, 300)]
    assert log.malformed == 0
    assert f"; Note: 1 jobs: {name} not understood, taken to be unknown" in log.header
    (complaint,) = log.complaints
    assert "log.txt:2: " in complaint
    assert name in complaint


@pytest.mark.parametrize(
    ("hosts", "nodes", "procs"),
    [("n1/0", 1, 1), ("n1/0-3,6+n2/0", 2, 6), ("p1/0*2+p2/1*4", 2, 6), ("n1/1+n1/0", 1, 2), (None, None, -1)],
)
def test_nodes_and_processors_are_told_from_the_hosts_where_nothing_else_says_them(
    text_file, record, hosts, nodes, procs
):
    log = load(text_file(record(exec_host=hosts)))
    assert (None if log.nodes is None else log.nodes.tolist()) == (None if nodes is None else [nodes])
    assert log.column("allocated_procs").tolist() == [procs]


def test_a_job_that_never_started_has_no_run_time(text_file, record, rows_of):
    log = load(text_file(record(start=None, exec_host=None)))
    assert rows_of(log, "wait_s", "run_s") == [(-1, -1)]


def test_memory_is_for_each_processor(text_file, record):
    log = load(text_file(record(**{"resources_used.mem": "4000kb"})))
    assert log.column("used_memory_kb").tolist() == [1000]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"ctime": None}, "ctime is missing"),
        ({"end": "soon"}, "end is 'soon', not a whole number"),
        ({"start": 50}, "ctime 100, start 50 and end 460 are not in this order"),
        ({"ctime": 1_767_262_000_000}, "ctime is 1767262000000, not a time in seconds"),
    ],
)
def test_a_bad_record_is_an_error_with_file_and_line_or_is_counted(text_file, record, changes, reason):
    path = text_file(record(), "", record(**changes))
    with pytest.raises(ValueError, match=rf"log.txt:3: {reason}"):
        load(path)
    log = load(path, lenient=True)
    assert (len(log), log.malformed, len(log.complaints)) == (1, 1, 1)


def test_a_line_of_something_else_is_an_error(text_file, record):
    with pytest.raises(ValueError, match=r"log.txt:2: not an accounting record"):
        load(text_file(record(), "hello"))


def test_gpus_and_the_one_node_of_a_job_are_kept(text_file, record):
    log = load(
        text_file(
            record("1.s", exec_host="n1/0-1", **{"Resource_List.ngpus": 2}),
            record("2.s", exec_host="n2/0*4+n2/1*4", exec_gpus="n2-gpu/0+n2-gpu/1+n2-gpu/2"),
            record("3.s", exec_host="n1/2+n2/2"),
        )
    )
    assert log.further(GPUS_KEY).tolist() == [2, 3, -1]
    assert log.further(HOST_KEY).tolist() == [1, 2, -1]


def test_time_before_a_job_was_eligible_is_not_waited(text_file, record, rows_of):
    log = load(
        text_file(
            record("1.s", etime=150),  # held, or behind another one
            record("2.s", etime=150, run_count=2),  # eligible again, after its first run
            record("3.s", etime=900),
        )
    )
    assert rows_of(log, "submit_s", "wait_s") == [(150, 10), (100, 60), (100, 60)]


def test_fractions_of_seconds_leave_no_rests(text_file, record, rows_of):
    cobalt = {
        "ctime": "1767262000.5",
        "start": "1767262500.0",
        "end": "1767265600.1",
        "exec_host": '"MIR-00000-512"',
    }
    size = {"Resource_List.nodect": 512, "Resource_List.ncpus": 1}
    log = load(text_file(record("1.s", **cobalt, **size)))
    assert rows_of(log, "wait_s", "run_s", "allocated_procs") == [(499.5, 3100.1, 512)]


def test_words_between_quotation_marks_are_one_value(text_file, record, rows_of):
    log = load(
        text_file(record("1.s", jobname='"a end=5 start=7"', group='"domain users"', Account_Name='"x y=z"'))
    )
    assert rows_of(log, "wait_s", "run_s", "requested_s") == [(60, 300, 600)]


@pytest.mark.parametrize(
    ("select", "sizes"),
    [
        ("2:ncpus=28:ngpus=4+1:ncpus=4", (3, 60, 8)),
        ("4", (4, 4, None)),
        ("1:ncpus=8:mpiprocs=8:mem=16gb", (1, 8, None)),
        ("ncpus=8:mem=16gb", (1, 8, None)),
    ],
)
def test_a_select_statement_says_sizes_where_no_hosts_do(text_file, record, select, sizes):
    log = load(text_file(record(exec_host=None, **{"Resource_List.select": select})))
    gpus = log.further(GPUS_KEY)
    assert (log.nodes[0], log.column("allocated_procs")[0], None if gpus is None else gpus[0]) == sizes


def test_a_start_of_0_is_none(text_file, record, rows_of):
    assert rows_of(load(text_file(record(start=0, exec_host=None))), "wait_s", "run_s") == [(-1, -1)]


def test_a_mark_of_unicode_and_fractions_in_the_stamp_do_no_harm(text_file, record):
    assert len(load(text_file("\ufeff" + record().replace("12;", "12.123456;"), record("8.s")))) == 2


@pytest.mark.parametrize(
    ("said", "kb"), [("4mb", 1024), ("1GB", 262_144), ("4096b", 1), ("512kw", 1024), ("x", -1)]
)
def test_memory_has_units(text_file, record, said, kb):
    log = load(text_file(record(**{"resources_used.mem": said})))
    assert log.column("used_memory_kb").tolist() == [kb]


@pytest.mark.parametrize(
    ("said", "kb"),
    [
        ({"Resource_List.mem": "4gb"}, 1 << 20),
        ({"Resource_List.mem": "4194304", "Resource_List.pmem": "9gb"}, 1024),  # bytes
        ({"Resource_List.pmem": "512mb"}, 512 << 10),
        (
            {"Resource_List.mem": "4gb", "exec_vnode": "(n1:ncpus=2:mem=6291456kb)+(n2:ncpus=2:mem=2gb)"},
            2 << 20,
        ),
        ({"exec_vnode": "(n1:ncpus=2+n2:ncpus=2:mem=4000mb:ngpus=1)"}, 1000 << 10),
        ({"Resource_List.mem": "much"}, -1),
        ({"Resource_List.mem": "0b"}, -1),
        ({"exec_vnode": f"(n1:ncpus=4:mem={10**17}pb)", "resources_used.mem": f"{10**17}tb"}, -1),
        ({}, -1),
    ],
)
def test_memory_that_was_given_or_asked_for_is_for_each_processor(text_file, record, said, kb):
    """Jobs that share nodes take this much of them."""
    log = load(text_file(record(**said)))
    assert (log.column("allocated_procs").tolist(), log.column("requested_memory_kb").tolist()) == ([4], [kb])
    assert any("Resource_List.mem" in each for each in log.remarks) == ("much" in said.values())


@pytest.mark.parametrize(
    ("asked", "nodes", "procs"),
    [
        ({"Resource_List.mppwidth": 64, "Resource_List.mppnppn": 2}, 32, 64),
        ({"Resource_List.mppwidth": 65, "Resource_List.mppnppn": 8, "Resource_List.mppdepth": 4}, 9, 260),
        ({"Resource_List.mppwidth": 48}, None, 48),
    ],
)
def test_a_crays_job_is_as_large_as_its_processes_not_as_the_host_that_started_it(
    text_file, record, asked, nodes, procs
):
    log = load(text_file(record(exec_host="nid00007/17", **asked, **{"Resource_List.ncpus": 1})))
    assert log.column("allocated_procs").tolist() == [procs]
    assert (None if log.nodes is None else log.nodes.tolist()) == (None if nodes is None else [nodes])


def test_without_hosts_the_virtual_nodes_say_how_large_a_job_was(text_file, record):
    vnodes = "(n1[0]:ncpus=8:mem=1gb+n1[1]:ncpus=8)+(n2:ncpus=4:naccelerators=1)"
    log = load(text_file(record(exec_host=None, exec_vnode=vnodes)))
    assert (log.nodes.tolist(), log.column("allocated_procs").tolist()) == ([2], [20])
    assert log.columns[int(log.keys[GPUS_KEY][0]) - 1].tolist() == [1]


def test_a_record_without_its_creation_was_submitted_when_it_was_queued(text_file, record, rows_of):
    log = load(text_file(record(ctime=None, qtime=110)))
    assert rows_of(log, "submit_s", "wait_s") == [(110, 50)]


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"Exit_status": "x"}, "Exit_status"),
        ({"Exit_status": ""}, "Exit_status"),
        ({"etime": "x"}, "etime"),
        (
            {"exec_host": None, "Resource_List.nodes": "2:ppn=2", "unique_node_count": "x"},
            "unique_node_count",
        ),
        (
            {"exec_host": None, "Resource_List.nodes": "2:ppn=2", "total_execution_slots": "x"},
            "total_execution_slots",
        ),
        ({"Resource_List.walltime": f"1:{'0' * 5000}:00"}, "Resource_List.walltime"),
    ],
)
def test_a_field_that_a_job_can_do_without_refuses_no_log(text_file, record, rows_of, changes, name):
    log = load(text_file(record("1.s"), record("2.s", **changes)))
    assert rows_of(log, "submit_s", "wait_s", "run_s", "allocated_procs") == [(100, 60, 300, 4)] * 2
    assert log.remarks == {f"{name} not understood, taken to be unknown": 1}
    assert log.complaints[0].startswith(f"{log.source}:2: ")


def test_a_number_of_thousands_of_digits_is_no_end(text_file, record):
    assert load(text_file(record("1" * 5000 + ".s"))).column("number").tolist() == [int("1" * 18)]


def test_jobs_of_several_servers_are_told(text_file, record):
    log = load(text_file(record("1.a"), record("2.b"), record("3.a")))
    assert list(log.remarks.items()) == [
        ("of server b, others of a: if these are several machines, take each log apart", 1)
    ]


def test_files_of_a_folder_that_are_not_read_are_named(tmp_path, record):
    (tmp_path / "20260301").write_text(record() + "\n")
    (tmp_path / "20260302.bz2").write_bytes(b"BZh")
    (tmp_path / "notes").write_text("anything")
    log = load(tmp_path)
    assert log.keys["FilesNotRead"] == ("20260302.bz2",)
    assert log.complaints == (
        f"{tmp_path}: not read: 20260302.bz2 (unpacked, gzip and xz files are, with names as the others have)",
    )
    found = check(log, to_jobs(log, nodes=4), format_name="pbs", is_size_known=True)
    assert found.doubts[0] == "Files of its folder are not read: 20260302.bz2."


@pytest.mark.parametrize(
    ("used", "told"), [("00:05:00", 0), ("00:04:59", 0), ("1:00:00", 0), ("x", 0), ("00:00:00", 1)]
)
def test_a_job_that_lasted_longer_than_its_walltime_is_told(text_file, record, rows_of, used, told):
    log = load(text_file(record(end=461, **{"resources_used.walltime": used})))
    assert rows_of(log, "run_s") == [(301,)]
    assert [what for what in log.remarks if "(suspended?)" in what] == [
        "lasted longer than the walltime it used (suspended?), and that time counts as run"
    ] * told
