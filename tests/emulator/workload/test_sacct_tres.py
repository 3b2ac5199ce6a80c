"""Memory, GPUs, nodes and sizes in sacct's output: what was allocated, else asked for."""

from __future__ import annotations

import json

import pytest

from emulator.workload.formats import load
from emulator.workload.swf import GPUS_KEY, HOST_KEY, RESERVATION_KEY


@pytest.mark.parametrize(
    ("allocated", "each_kb"),
    [
        ("billing=4,cpu=4,mem=16G,node=1", 4 * 1024**2),
        ("cpu=4,mem=4000M,node=1", 1_024_000),
        ("cpu=4,mem=4000,node=1", 1_024_000),
        ("cpu=4,node=1", -1),
        ("", -1),
    ],
)
def test_memory_is_what_was_allocated_for_each_processor(text_file, allocated, each_kb):
    head = "JobIDRaw|Submit|Start|ElapsedRaw|NNodes|NCPUS|State|AllocTRES"
    log = load(text_file(head, f"7|100|160|300|1|4|COMPLETED|{allocated}"))
    assert log.column("requested_memory_kb").tolist() == [each_kb]


@pytest.mark.parametrize(
    ("asked", "each_kb", "told"),
    [
        ("4Gn", 2 * 1024**2, 0),  # of each of 2 nodes, before 21.08
        ("4000Mc", 4_096_000, 0),  # of each processor, before 21.08
        ("16G", 4 * 1024**2, 0),  # of the job
        ("1.50G", 384 * 1024, 0),
        ("512000K", 128_000, 0),
        ("1T", 256 * 1024**2, 0),
        ("400", 102_400, 0),
        ("0", -1, 0),  # all that the nodes have
        ("0n", -1, 0),
        ("0c", -1, 0),
        ("", -1, 0),
        ("4Gx", -1, 1),
        ("?", -1, 1),
    ],
)
def test_memory_that_was_asked_for_is_read_in_each_form(text_file, asked, each_kb, told):
    head = "JobIDRaw|Submit|Start|ElapsedRaw|NNodes|NCPUS|State|ReqMem"
    log = load(text_file(head, f"7|100|160|300|2|4|COMPLETED|{asked}"))
    assert log.column("requested_memory_kb").tolist() == [each_kb]
    assert (
        log.remarks == {"memory of ReqMem not understood, taken to be unknown": 1}
        if told
        else not log.remarks
    )


def test_memory_that_was_allocated_is_named_if_it_is_not_understood(text_file):
    head = "JobIDRaw|Submit|Start|ElapsedRaw|NNodes|NCPUS|State|AllocTRES|ReqMem"
    log = load(text_file(head, "7|100|160|300|2|4|COMPLETED|cpu=4,mem=lots|16G"))
    assert log.column("requested_memory_kb").tolist() == [4 * 1024**2]
    assert list(log.remarks) == ["memory of AllocTRES not understood, taken to be unknown"]


FURTHER = "JobIDRaw|Submit|Start|ElapsedRaw|NNodes|NCPUS|State|AllocTRES|NodeList|Reservation"


def test_gpus_nodes_and_reservations_are_kept(text_file):
    log = load(
        text_file(
            FURTHER,
            "1|100|100|60|1|4|COMPLETED|cpu=4,gres/gpu=2,mem=8G,node=1|nid001|",
            "2|100|100|60|1|4|COMPLETED|cpu=4,gres/gpu:a100=1,gres/gpu:v100=3|nid002|maint",
            "3|100|100|60|4|16|COMPLETED|cpu=16,gres/gpu:a100=8,gres/gpu=8|nid[001-004]|",
            "4|100|100|60|1|4|COMPLETED|cpu=4|nid001|maint",
            "5|100|Unknown|0|1|4|PENDING||None assigned|",
        )
    )
    assert log.further(GPUS_KEY).tolist() == [2, 4, 8, -1, -1]
    assert log.further(HOST_KEY).tolist() == [1, 2, -1, 1, -1]
    assert log.further(RESERVATION_KEY).tolist() == [-1, 1, -1, 1, -1]
    assert log.keys["Reservation"] == ("1 maint",)


def test_old_versions_say_gpus_of_a_node(text_file):
    head = "JobIDRaw|Submit|Start|ElapsedRaw|NNodes|NCPUS|State|AllocGRES"
    rows = [
        f"{job}|100|100|60|2|8|COMPLETED|{gres}"
        for job, gres in enumerate(("gpu:2", "gpu:tesla:3", "craynetwork:1", "gpu", "gpu:v100:1(S:0)"), 1)
    ]
    assert load(text_file(head, *rows)).further(GPUS_KEY).tolist() == [4, 6, -1, 2, 2]


def test_a_heterogeneous_job_has_the_gpus_of_all_its_components_and_no_one_node(text_file):
    head = "JobIDRaw|JobID|Submit|Start|ElapsedRaw|NNodes|NCPUS|State|AllocTRES|NodeList"
    rows = [
        f"{at}|5+{at - 5}|100|100|60|1|4|COMPLETED|gres/gpu={gpus}|n{at}" for at, gpus in ((5, 1), (6, 2))
    ]
    log = load(text_file(head, *rows, "7|7|100|100|60|1|4|COMPLETED||n7"))
    assert log.nodes.tolist() == [2, 1]
    assert log.further(GPUS_KEY).tolist() == [3, -1]
    assert log.further(HOST_KEY).tolist() == [-1, 2]


def test_a_heterogeneous_job_has_the_memory_of_all_its_components(text_file):
    """Of each processor the mean: 4 of 8 GiB and 12 of 4 GiB in all."""
    head = "JobIDRaw|JobID|Submit|Start|ElapsedRaw|NNodes|NCPUS|State|AllocTRES"
    rows = ["5|5+0|100|100|60|1|4|COMPLETED|cpu=4,mem=8G", "6|5+1|100|100|60|3|12|COMPLETED|cpu=12,mem=4G"]
    log = load(text_file(head, *rows))
    assert (log.column("allocated_procs").tolist(), log.nodes.tolist()) == ([16], [4])
    assert log.column("requested_memory_kb").tolist() == [12 * 1024 * 1024 // 16]


def test_sacct_json_says_the_same(tmp_path):
    job = {
        "job_id": 1, "association": {}, "state": {"current": ["COMPLETED"]}, "nodes": "nid001",
        "time": {"submission": 100, "start": 100, "elapsed": 60}, "allocation_nodes": 1,
        "reservation": {"id": 3, "name": "maint"},
        "tres": {"allocated": [{"type": "cpu", "name": "", "count": 4}, {"type": "mem", "name": "", "count": 4096},
                               {"type": "gres", "name": "gpu", "count": 2},
                               {"type": "gres", "name": "gpu:a100", "count": 2}], "requested": []},
    }  # fmt: skip
    (tmp_path / "slurm.json").write_text(json.dumps({"jobs": [job]}))
    log = load(tmp_path / "slurm.json")
    assert log.column("requested_memory_kb").tolist() == [1024 * 1024]
    assert [log.further(key).tolist() for key in (GPUS_KEY, HOST_KEY, RESERVATION_KEY)] == [[2], [1], [1]]


def test_columns_with_commas_of_their_own_are_named_in_a_table_with_commas(text_file):
    head = FURTHER.replace("|", ",")
    with pytest.raises(ValueError, match=r"AllocTRES has commas of its own: run sacct with --parsable2"):
        load(text_file(head, "1,100,100,60,1,4,COMPLETED,cpu=4,mem=8G,nid001,"))
    quoted = text_file(head, '1,100,100,60,1,4,COMPLETED,"cpu=4,gres/gpu=2",nid001,', name="quoted.csv")
    assert load(quoted).further(GPUS_KEY).tolist() == [2]


def test_what_was_allocated_counts_before_what_was_asked_for(text_file, rows_of):
    log = load(
        text_file(
            "JobIDRaw|Submit|Start|ElapsedRaw|State|ReqNodes|NNodes|AllocTRES|NodeList|ReqCPUS",
            "1|100|160|9|COMPLETED|1|1|billing=64,cpu=64,mem=1G,node=4|x[1-4]|1",
            "2|100|160|9|COMPLETED|1|1||n[001-003,7],gpu[01-02]-ib|1",
            "3|100|160|9|COMPLETED|2|2||n[01-02]|8",
            "4|100|160|9|COMPLETED|2|2||None assigned|8",
            "5|100|160|9|COMPLETED|2|2||n[01|8",
        )
    )
    assert rows_of(log, "allocated_procs") == [(64,), (1,), (8,), (8,), (8,)]
    assert log.nodes.tolist() == [4, 6, 2, 2, 2]
    assert log.remarks == {"had another number of nodes than it asked for, and what it had counts": 2}


@pytest.mark.parametrize("column", ["AllocTRES", "NodeList"])
def test_one_column_of_sizes_is_enough(text_file, column):
    said = {"AllocTRES": "cpu=8,node=3", "NodeList": "n[1-3]"}[column]
    log = load(text_file(f"JobIDRaw|Submit|Start|ElapsedRaw|State|{column}", f"1|100|160|9|COMPLETED|{said}"))
    assert log.nodes.tolist() == [3]
