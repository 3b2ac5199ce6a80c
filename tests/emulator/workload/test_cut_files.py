"""Files that are cut off, or have something behind their end: what is wrong, where, and what to do."""

from __future__ import annotations

import json

import pytest

from emulator.workload.formats import TraceError, load
from testdata import RECORDED

TIME = {"submission": 100, "start": 160, "elapsed": 300}
DOCUMENTS = {
    "sacct_json": {
        "jobs": [{"association": {}, "job_id": 1, "state": {"current": ["COMPLETED"]}, "time": TIME}]
    },
    "oar": json.loads((RECORDED / "oar/oarstat.json").read_text()),
    "batsim": {"nb_res": 4, "jobs": [{"id": 1, "subtime": 0, "res": 1, "profile": "a"}], "profiles": {}},
    "elastisim": {"jobs": [{"application_model": "a.json"}, {"type": "rigid"}]},
    "condor": [{"ClusterId": 1, "QDate": 100, "JobStartDate": 160}, {"ClusterId": 2}],
    "nova_usage": {"tenant_usage": {"server_usages": [{"started_at": "2026-01-01T00:00:00"}, {}]}},
    "nova_servers": {"servers": [{"OS-SRV-USG:launched_at": "2026-01-01T00:00:00"}, {}]},
    "nova_events": [{"Request ID": "r", "Action": "create"}, {"Action": "delete"}],
    "usage_series": {"data": {"resultType": "matrix", "result": [{"values": [[1, "2"]]}]}},
}


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("lenient", [False, True])
def test_json_that_is_cut_off_says_so_wherever_it_is_cut(tmp_path, name, indent, lenient):
    text, path = json.dumps(DOCUMENTS[name], indent=indent), tmp_path / "log.json"
    for length in range(len(text) - 1, len(text) - 12, -1):
        path.write_text(text[:length])
        with pytest.raises(TraceError) as raised:
            load(path, trace_format=name, lenient=lenient)
        said = str(raised.value)
        assert said.startswith(f"{path}: not valid JSON: it ends in the middle of a document (line "), said
        assert said.endswith("): fetch it or write it again, whole"), said


@pytest.mark.parametrize("name", DOCUMENTS)
def test_what_follows_a_document_is_named_with_its_byte(tmp_path, name):
    text, path = json.dumps(DOCUMENTS[name]), tmp_path / "log.json"
    path.write_text(f"{text}\nsacct: error: lost the connection\n")
    with pytest.raises(TraceError) as raised:
        load(path, trace_format=name)
    assert (
        f"'sacct: error: lost the connection\\n' follows the document (line 2 column 1, byte {len(text) + 1})"
        in str(raised.value)
    )


def test_json_that_is_wrong_in_its_middle_is_named_there(tmp_path):
    path = tmp_path / "log.json"
    path.write_text('{"é": [1, 2 3]}')
    with pytest.raises(
        TraceError, match=r"Expecting ',' delimiter \(line 1 column 13, byte 13\): mend it there"
    ):
        load(path, trace_format="sacct_json")


@pytest.mark.parametrize("name", ["condor", "grid_engine"])
def test_a_last_line_that_is_cut_off_is_an_error_or_counted(tmp_path, name):
    records = {
        "condor": {"ClusterId": 1, "QDate": 100, "JobStartDate": 160, "CompletionDate": 400, "JobStatus": 4},
        "grid_engine": {"job_number": 1, "submission_time": 100, "start_time": 160, "end_time": 400, "slots": 1,
                        "failed": 0, "exit_status": 0, "qname": "a"},
    }  # fmt: skip
    line = json.dumps(records[name])
    path = tmp_path / "log.jsonl"
    path.write_text(f"{line}\n{line[:-20]}")
    with pytest.raises(
        TraceError, match=r"log.jsonl:2: not valid JSON: the line is cut off .*; mend the line"
    ):
        load(path, trace_format=name)
    log = load(path, trace_format=name, lenient=True)
    assert (len(log), log.malformed) == (1, 1)
    assert "log.jsonl:2: not valid JSON: the line is cut off" in log.complaints[0]
