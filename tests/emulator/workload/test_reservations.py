"""Nodes that reservations held, as sacctmgr and scontrol tell of them."""

from __future__ import annotations

import pytest

from command_line import emulate
from emulator.workload.files import TraceError
from emulator.workload.reservations import read_reservations

MONDAY, HOUR = 1_767_571_200, 3600
"""2026-01-05, midnight UTC."""
SACCTMGR = (
    "Name|Start|End|NodeNames",
    "maint|2026-01-05T00:00:00|2026-01-05T06:00:00|n[01-02],login1",
    "maint|2026-01-05T06:00:00|2026-01-05T08:00:00|n01",
    f"class|{MONDAY + 4 * HOUR}|Unknown|n02",
    f"licenses|{MONDAY}|{MONDAY + HOUR}|",
)
SCONTROL = (
    "ReservationName=maint StartTime=2026-01-05T00:00:00 EndTime=2026-01-05T06:00:00 Duration=06:00:00",
    "   Nodes=n[01-02] NodeCnt=2 CoreCnt=16 Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES",
    "   TRES=cpu=16",
    "   Users=root Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null)",
    "",
    "ReservationName=later StartTime=2026-01-05T12:00:00 EndTime=2026-01-05T13:00:00 Nodes=(null) NodeCnt=0",
)


def test_a_line_of_sacctmgr_is_a_time_in_which_a_reservation_had_these_nodes(text_file):
    assert read_reservations(text_file(*SACCTMGR), until_s=MONDAY + 24 * HOUR) == (
        {
            "n01": [(MONDAY, MONDAY + 8 * HOUR)],
            "n02": [(MONDAY, MONDAY + 24 * HOUR)],
            "login1": [(MONDAY, MONDAY + 6 * HOUR)],
        },
        {"maint", "class", "licenses"},
    )


@pytest.mark.parametrize("lines", [SCONTROL, (" ".join(SCONTROL[:4]), SCONTROL[5])])
def test_scontrol_says_it_in_blocks_or_a_line_each(text_file, lines):
    assert read_reservations(text_file(*lines), until_s=0) == (
        {"n01": [(MONDAY, MONDAY + 6 * HOUR)], "n02": [(MONDAY, MONDAY + 6 * HOUR)]},
        {"maint", "later"},
    )


def test_a_table_of_ones_own_is_read_too(text_file):
    path = text_file("name,begin,end,nodes", 'a,100,200,"n1,n[3-4]"')
    assert read_reservations(path, until_s=0)[0] == {node: [(100, 200)] for node in ("n1", "n3", "n4")}


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (("Name|Start|End", "a|1|2"), r"txt:1: the header has no column for the nodes of a reservation; .*NodeNames"),
        ((), r"txt:1: the header has no column for the name"),
        (("name,begin,end,nodes", "a,5,4,n1"), "txt:2: it ends at 4, before it begins at 5"),
        (("name,begin,end,nodes", "a,soon,4,n1"), "txt:2: begin is 'soon', not a time"),
        (("name,begin,end,nodes", "a,1,4,n[1"), "txt:2: nodes: "),
        (("name,begin,end,nodes", "a,1,4"), "txt:2: 3 fields where the header has 4"),
        (("ReservationName=a StartTime=1 EndTime=2",), "txt:1: it does not say the nodes of the reservation"),
    ],
)  # fmt: skip
def test_bad_input_is_named(text_file, lines, reason):
    with pytest.raises(TraceError, match=reason):
        read_reservations(text_file(*lines), until_s=10)


HEAD = "JobIDRaw|Submit|Start|ElapsedRaw|NNodes|NCPUS|State|Reservation"


def check(log, *more):
    done = emulate("trace", "check", log, "--nodes", "4", *more)
    return done.exit_code, " ".join(done.stdout.split())


def test_a_log_is_held_against_the_nodes_that_were_not_reserved(text_file):
    """Three nodes are in use all day, one of them in a reservation of two: with these it is all four."""
    times = [MONDAY + at * HOUR for at in range(24)]
    rows = [f"{at}|{when}|{when}|3600|2|8|COMPLETED|" for at, when in enumerate(times, 1)]
    rows += [f"{at}|{when}|{when}|3600|1|4|COMPLETED|class" for at, when in enumerate(times, 101)]
    log = text_file(HEAD, *rows, name="sacct.txt")
    code, text = check(log)
    assert code == 0
    assert "24 jobs ran in one; --reservations says when these held nodes" in text
    held = text_file("Name|Start|End|NodeNames", f"class|{MONDAY}|Unknown|n[1-2]", name="held.txt")
    code, text = check(log, "--reservations", str(held))
    assert code == 0
    assert (
        "2.0 nodes on average, at most 2 at once; these count as in use, and the 24 jobs that ran in them"
        in text
    )
    assert "4 nodes, at most 4 in use at once" in text
    wide = text_file("Name|Start|End|NodeNames", f"class|{MONDAY}|Unknown|n[1-3]", name="wide.txt")
    code, text = check(log, "--reservations", str(wide))
    assert (code, "Up to 5 nodes were in use at once" in text) == (1, True)


def test_a_log_that_does_not_say_which_jobs_ran_in_them_is_told_of(text_file):
    log = text_file(
        HEAD.removesuffix("|Reservation"), f"1|{MONDAY}|{MONDAY}|3600|2|8|COMPLETED", name="sacct.txt"
    )
    held = text_file("Name|Start|End|NodeNames", f"class|{MONDAY - HOUR}|Unknown|n1", name="held.txt")
    _, text = check(log, "--reservations", str(held))
    assert (
        "the log does not say which jobs ran in them (sacct: Reservation), so that such a job counts besides"
        in text
    )
