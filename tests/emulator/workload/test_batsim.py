"""Workloads of Batsim, as its documentation describes them."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest

from emulator.workload.files import TraceError
from emulator.workload.formats import load
from emulator.workload.rules import to_jobs

# The example of Batsim's documentation with delays for its other profiles.
EXAMPLE = {
    "nb_res": 4,
    "jobs": [
        {"id": "1", "subtime": 1, "walltime": 100, "res": 4, "profile": "delay"},
        {"id": "w0!2", "subtime": 2.5, "walltime": -1, "res": 1, "profile": "short"},
        {"id": "simple", "subtime": 3, "res": 2, "profile": "short"},
    ],
    "profiles": {"delay": {"type": "delay", "delay": 20.20}, "short": {"type": "delay", "delay": 3}},
}
COLUMNS = ("number", "submit_s", "run_s", "allocated_procs", "requested_s")
US = 1_000_000


@pytest.fixture
def workload(text_file):
    """A file with the example, changed by a function."""

    def build(change=lambda _: None):
        document = deepcopy(EXAMPLE)
        change(document)
        return text_file(json.dumps(document), name="workload.json")

    return build


def test_each_job_has_the_time_of_its_delay_and_the_cluster_its_resources(workload, rows_of):
    log = load(workload())
    assert rows_of(log, *COLUMNS) == [(1, 1, 20.2, 4, 100), (2, 2.5, 3, 1, -1), (3, 3, 3, 2, -1)]
    found = to_jobs(log, nodes=None)
    assert found.nodes == 4
    assert found.jobs.nodes.tolist() == [4, 1, 2]
    assert found.jobs.run_us.tolist() == [20_200_000, 3 * US, 3 * US]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d["jobs"][1].update(res=0), "job w0!2: res is 0, not a whole number"),
        (lambda d: d["jobs"][1].update(res=True), "job w0!2: res is True"),
        (lambda d: d["jobs"][0].pop("subtime"), "job 1: subtime is None, not a time in seconds"),
        (lambda d: d["jobs"][0].update(subtime=-3), "job 1: subtime is -3"),
        (lambda d: d["jobs"][0].update(walltime="1h"), "job 1: walltime is '1h'"),
        (lambda d: d["jobs"][2].update(profile="gone"), "job simple: profile 'gone' is not among"),
        (lambda d: d["jobs"][2].update(id="w1!1"), "job w1!1: there is another job with the number 1"),
        (lambda d: d["jobs"].append(7), "job number 4 of the list: 7 is not an object"),
        (
            lambda d: d["profiles"].update(short={"type": "parallel_homogeneous", "cpu": 1e9, "com": 0}),
            "job w0!2: profile 'short' is of type 'parallel_homogeneous': how long it takes depends",
        ),
    ],
)
def test_a_job_that_does_not_say_what_it_should_is_named_and_left_out_if_lenient(workload, change, said):
    path = workload(change)
    with pytest.raises(TraceError) as error:
        load(path)
    assert str(error.value).startswith(f"{path}: {said}")
    assert "mend the job" in str(error.value)
    log = load(path, lenient=True)
    assert (log.malformed >= 1, said in log.complaints[0]) == (True, True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: d.update(nb_res=0), "nb_res must be a whole number"),
        (lambda d: d.update(jobs={}), "no workload of Batsim: `jobs` must be a list"),
        (lambda d: d.pop("profiles"), "no workload of Batsim: `profiles` must be an object"),
    ],
)
def test_a_document_that_is_no_workload_is_refused(workload, change, said):
    path = workload(change)
    with pytest.raises(TraceError, match=said):
        load(path)


def test_json_that_breaks_off_is_named_with_its_line(text_file):
    path = text_file('{"nb_res": 4,', ' "jobs": [', name="workload.json")
    with pytest.raises(TraceError, match=r"not valid JSON: .*line 3"):
        load(path)


def test_other_json_is_not_taken_for_a_workload(text_file):
    with pytest.raises(TraceError, match="in a known format"):
        load(text_file(json.dumps({"answer": 42}), name="other.json"))


def test_profiles_of_batsim_5_are_read_by_their_names_and_sequences_as_often_as_they_say(text_file, rows_of):
    document = {
        "nb_res": 4,
        "jobs": [
            {"id": "first", "subtime": 0, "res": 1, "profile": "d10", "walltime": 100},
            {"id": 7, "subtime": 3, "res": 2, "profile": "seq", "walltime": None},
            {"id": "w0!last", "subtime": 4, "res": 1, "profile": "twice"},
        ],
        "profiles": {
            "d10": {"type": "DelayProfile", "delay": 10},
            "seq": {"type": "SequentialCompositionProfile", "repeat": 3, "seq": ["d10", "d10"]},
            "twice": {"type": "composed", "repeat": 2, "seq": ["seq", "d10"]},
        },
    }
    log = load(text_file(json.dumps(document), name="workload.json"))
    assert rows_of(log, *COLUMNS) == [(8, 0, 10, 1, 100), (7, 3, 60, 2, -1), (9, 4, 140, 1, -1)]


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        ({"type": "composed", "seq": ["short"]}, "profile 'short': sequences within sequences"),
        ({"type": "composed", "seq": ["delay"], "repeat": 0}, "repeat of profile 'short' is 0"),
        ({"type": "composed", "seq": "delay"}, "seq of profile 'short' is 'delay', not a list"),
        ({"type": "composed", "seq": ["gone"]}, "profile 'gone' is not among"),
        ({"type": "PtaskProfile"}, "profile 'short' is of type 'PtaskProfile': how long it takes depends"),
    ],
)
def test_a_sequence_that_does_not_say_how_long_it_takes_is_malformed(workload, profile, said):
    with pytest.raises(TraceError, match=f"job w0!2: {said}"):
        load(workload(lambda d: d["profiles"].update(short=profile)))


def test_a_name_is_taken_once(workload):
    with pytest.raises(TraceError, match="job simple: there is another job with the name simple"):
        load(workload(lambda d: d["jobs"].append(d["jobs"][2])))


@pytest.mark.parametrize(
    "names", [("repeat", "seq"), ("nb", "seq"), ("repetition_count", "profile_ids")]
)  # of Batsim 3, before it, and of batprotocol
def test_sequences_are_called_differently_by_versions(tmp_path, names):
    times, parts = names
    profiles = {"d": {"type": "DelayProfile", "delay": 5}, "s": {"type": "SequentialCompositionProfile"}}
    profiles["s"] |= {times: 3, parts: ["d", "d"]}
    path = tmp_path / "w.json"
    jobs = [{"id": "w0!1", "subtime": 0, "res": 1, "profile": "s"}]
    path.write_text("\ufeff" + json.dumps({"jobs": jobs, "profiles": profiles}))
    assert load(path).column("run_s").tolist() == [30]
