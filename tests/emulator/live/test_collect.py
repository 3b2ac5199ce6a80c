"""What a live run's files say, also when the processes that wrote them are gone."""

from balancer.clock import NEVER_US, US
from emulator.live.collect import Grants, _handed_over
from emulator.live.replay_log import Counts, LeaseResult, Tail
from emulator.live.torque.accounting import read_accounting


def test_a_tail_tells_each_line_once_and_only_whole_ones(tmp_path):
    path, tail = tmp_path / "log", Tail()
    assert tail.lines(path) == []
    path.write_bytes(b"a\nb")
    assert tail.lines(path) == [b"a"]
    path.write_bytes(b"a\nbc\nd\n")
    assert tail.lines(path) == [b"bc", b"d"]
    assert tail.lines(path) == []


def test_counts_follow_the_logs_over_days_and_a_change_of_name(tmp_path):
    accounting = tmp_path / "server_priv" / "accounting"
    accounting.mkdir(parents=True)
    counts = Counts(tmp_path, tmp_path / "replay.jsonl")
    (accounting / "20260101").write_text("x;Q;1.s;\nx;S;1.s;\nx;E;1.s;\n")
    (tmp_path / "replay.jsonl.partial").write_text('{"event": "lease_granted"}\n{"event": "lease')
    counts.look()
    assert (counts.ended, counts.granted, counts.rejected, counts.failed) == (1, 1, 0, 0)
    with (accounting / "20260101").open("a") as file:
        file.write("x;D;2.s;\n")
    (accounting / "20260102").write_text("x;E;3.s;\n")
    (tmp_path / "replay.jsonl.partial").unlink()
    (tmp_path / "replay.jsonl").write_text(
        '{"event": "lease_granted"}\n{"event": "lease_rejected"}\n{"event": "submit_failed"}\n'
    )
    counts.look()
    assert (counts.ended, counts.granted, counts.rejected, counts.failed) == (3, 1, 1, 1)


def test_the_accounting_log_tells_jobs_and_runs(tmp_path):
    (tmp_path / "20260101").write_text(
        "01/01/2026 00:00:10;Q;0.server;queue=batch\n"
        "01/01/2026 00:00:10;S;0.server;user=a exec_host=n2/0+n1/0 Resource_List.nodes=2\n"
        "01/01/2026 00:00:11;Q;1.server;queue=batch\n"
        "01/01/2026 00:00:12;S;1.server;user=a exec_host=n3/0 \n"
        "01/01/2026 00:00:13;S;1.server;user=a exec_host=n3/0 \n"
        "01/01/2026 00:00:14;Q;2.server;queue=batch\n"
        "01/01/2026 00:00:15;E;0.server;user=a Exit_status=-11 \n"
        "01/01/2026 00:00:16;D;2.server;requestor=root@server\n"
        "01/01/2026 00:00:17;E;1.ser"
    )
    assert read_accounting(tmp_path, ["n1", "n2", "n3"], 1_767_225_600) == [
        {
            "number": 0,
            "submit_us": 10 * US,
            "state": "ENDED",
            "runs": [{"start_us": 10 * US, "end_us": 15 * US, "outcome": "KILLED", "nodes": [0, 1]}],
        },
        {
            "number": 1,
            "submit_us": 11 * US,
            "state": "RUNNING",
            "runs": [
                {"start_us": 12 * US, "end_us": 13 * US, "outcome": "REQUEUED", "nodes": [2]},
                {"start_us": 13 * US, "end_us": -1, "outcome": "RUNNING", "nodes": [2]},
            ],
        },
        {"number": 2, "submit_us": 14 * US, "state": "CANCELLED", "runs": []},
    ]


def test_a_node_that_is_marked_while_its_job_ends_is_handed_over_at_the_end():
    runs = [(0, 0, 10, 1, [0, 1]), (20, 1, -1, 0, [2])]
    marks = [(5, 0, True), (10, 1, True), (30, 0, False), (25, 2, True)]
    assert _handed_over(marks, runs) == [(10, 0, True), (30, 0, False), (10, 1, True), (NEVER_US, 2, True)]


def test_a_node_that_is_marked_when_its_job_has_just_started_is_handed_over_at_the_end():
    assert _handed_over([(5, 0, True)], [(5, 0, 10, 1, [0])]) == [(10, 0, True)]
    assert _handed_over([(5, 0, True), (5, 0, False)], [(5, 0, 10, 1, [0])]) == []


def test_a_node_that_is_left_to_its_job_was_never_handed_over():
    assert _handed_over([(5, 0, True), (8, 0, False)], [(0, 0, 10, 1, [0])]) == []


def _lease(number, ended_us):
    return LeaseResult(number, granted=True, decided_us=10, ended_us=ended_us)


def test_leases_of_one_time_and_size_have_the_nodes_of_their_grants_in_order():
    grants = Grants([(10, ("n3",)), (10, ("n4",)), (10, ("n1", "n2")), (25, ("n4",))])
    leases = [_lease(96, 20), _lease(99, 25)]
    assert grants.shared_out((10, 1), leases, 1) == {96: ("n3",), 99: ("n4",)}


def test_a_lease_does_not_last_beyond_the_next_grant_of_its_nodes():
    # After a restart of the manager requests are made in another order: the third of three was granted n3.
    grants = Grants([(10, ("n3",)), (10, ("n4",)), (10, ("n8",)), (20, ("n4",)), (50, ("n8", "n3"))])
    leases = [_lease(96, 20), _lease(99, 40), _lease(101, None)]
    assert grants.shared_out((10, 1), leases, 1) == {96: ("n4",), 99: ("n3",), 101: ("n8",)}
