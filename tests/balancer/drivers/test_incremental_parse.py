"""A look that remembers the last one says what a look that remembers nothing says, whatever the answers were."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from balancer.drivers import openpbs_json, torque_xml
from balancer.drivers.base import DriverError
from balancer.drivers.incremental_parse import ParseCache
from balancer.drivers.openpbs import OpenPbsDriver
from balancer.drivers.slurm import SlurmDriver, SlurmSettings
from balancer.drivers.torque import TorqueDriver
from testdata import RECORDED

OURS = "lent to on-demand by the Balancer"
NOTES = ("", OURS, f"{OURS} (ledger 5f3a9c01, event 7-9ab3f2c4)", f"RAM | {OURS}", "broken disk", "&<")

nodes = st.dictionaries(
    st.sampled_from([f"n{number}" for number in range(1, 5)]),
    st.tuples(
        st.sampled_from(("free", "offline", "job-exclusive", "down", "strange", "")),
        st.sampled_from(("", "1.server", "2.server")),
        st.sampled_from(NOTES),
        st.integers(1, 3),
    ),
    max_size=4,
)
damages = st.sampled_from(("none", "none", "none", "none", "cut", "doubled"))


def escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


def torque(answer) -> dict[str, str]:
    def node(name, state, job, note, load):
        jobs = f"<jobs>0/{job}</jobs>" if job else ""
        said = f"<note>{escaped(note)}</note>" if note else ""
        return (
            f"<Node><name>{name}</name><state>{state}</state>{jobs}"
            f"<status>loadave={load}.0,state=free</status>{said}<gpu_status>busy={load}</gpu_status></Node>"
        )

    return {"pbsnodes": "<Data>" + "".join(node(name, *said) for name, said in answer.items()) + "</Data>\n"}


def openpbs(answer) -> dict[str, str]:
    def node(state, job, note, load):
        jobs = {"jobs": [f"{job}/0"]} if job else {}
        comment = {"comment": note} if note else {}
        assigned = {"ncpus": 2} if job else {}
        return {"state": state, "last_used_time": load, "resources_assigned": assigned} | jobs | comment

    said = {"timestamp": 1, "pbs_server": "s", "nodes": {name: node(*each) for name, each in answer.items()}}
    return {"pbsnodes": json.dumps(said, indent=4) + "\n"}


def slurm(answer) -> dict[str, str]:
    def node(name, state, job, note, load):
        words = {"free": "IDLE", "offline": "IDLE+DRAIN", "job-exclusive": "ALLOCATED", "down": "DOWN"}
        cpus, reason = int(bool(job)), f" Reason={note} [root@now]" if note else ""
        return (
            f"NodeName={name} CPUAlloc={cpus} CPUTot=1 CPULoad={load}.0 State={words.get(state, 'ODD')} "
            f"BootTime=now CfgTRES=cpu=1 AllocTRES= x=y{reason}\n"
        )

    jobs: dict[str, list[str]] = {}
    for name, (_, job, _, _) in answer.items():
        if job:
            jobs.setdefault(job.partition(".")[0], []).append(name.removeprefix("n"))
    lines = "".join(
        f"{job}|RUNNING|1:0{len(answer)}|n[{','.join(names)}]\n" for job, names in sorted(jobs.items())
    )
    return {
        "scontrol": "".join(node(name, *said) for name, said in answer.items()),
        "squeue": f"JOBID|STATE|TIME_LEFT|NODELIST\n{lines}",
    }


class Answers:
    """In place of the programs."""

    said: dict[str, str]

    def _run(self, command, **_) -> str:
        return self.said[command[0]]


class Torque(Answers, TorqueDriver):
    pass


class OpenPbs(Answers, OpenPbsDriver):
    pass


class Slurm(Answers, SlurmDriver):
    def __init__(self) -> None:
        super().__init__(SlurmSettings(mark="lent", reason="to on-demand by the Balancer"))

    @property
    def _note(self) -> str:
        return OURS


DRIVERS = {"torque": (Torque, torque), "openpbs": (OpenPbs, openpbs), "slurm": (Slurm, slurm)}


def damaged(said: dict[str, str], damage: str) -> dict[str, str]:
    program, text = next(iter(said.items()))
    half = len(text) // 2
    if damage == "cut":
        text = text[:half]
    elif damage == "doubled":
        text = text[:half] + text[half - 20 :]
    return said | {program: text}


def look(driver, said, wanted):
    """What a look comes to; its failure is part of that."""
    driver.said = said
    try:
        return driver.get_status_of_nodes(wanted) if wanted else driver.get_status_of_all_nodes()
    except DriverError as error:
        return type(error), str(error)


@pytest.mark.parametrize("batch", DRIVERS)
@given(
    looks=st.lists(
        st.tuples(nodes, damages, st.sampled_from(((), (), (), ("n1",), ("n2", "n3")))), max_size=8
    )
)
def test_a_driver_that_has_looked_before_says_what_a_new_one_says(batch, looks):
    make, printed = DRIVERS[batch]
    driver = make()
    for answer, damage, wanted in looks:
        said = damaged(printed(answer), damage)
        assert look(driver, said, wanted) == look(make(), said, wanted)


FORMATS = {"torque": (torque_xml, torque), "openpbs": (openpbs_json, openpbs)}


@pytest.mark.parametrize("batch", FORMATS)
@given(answer=nodes.filter(bool), damage=damages)
def test_the_pieces_of_an_answer_say_what_the_whole_says(batch, answer, damage):
    form, printed = FORMATS[batch]
    text = damaged(printed(answer), damage)["pbsnodes"]
    with suppress(DriverError):
        pieces = form.pieces(text)
        found = dict(form.parse_piece(piece) for piece in pieces or ())
        if found and len(found) == len(pieces):
            assert found == form.parse_nodes(text)


ODD = {
    "a node twice": (Torque, "<Data>" + 2 * "<Node><name>n1</name><state>free</state></Node>" + "</Data>"),
    "a status that is no text": (
        Torque,
        "<Data><Node><name>n1</name><state>free</state><status>1<b></status></Node></Data>",
    ),
    "nodes that are not the server's": (
        OpenPbs,
        json.dumps(
            {
                "pbs_server": "s",
                "of": {"nodes": {"n1": {"state": "free", "resources_assigned": {}}}},
                "nodes": {"n2": {"state": "free", "resources_assigned": {}}},
            },
            indent=4,
        ),
    ),
    "a node of more than one": (
        OpenPbs,
        """{"pbs_server": "s",
  "nodes": {
    "n1": {"state": "free", "resources_assigned": {}},
    "n2": {"state": "free", "resources_assigned": {}
    }
  }
}
""",
    ),
}


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_answer_is_what_it_is_as_a_whole(odd):
    make, text = ODD[odd]
    driver = make()
    try:
        whole = driver.form.whole(text)
    except DriverError as error:
        whole = type(error), str(error)
    assert look(driver, {"pbsnodes": text}, ()) == whole


@pytest.mark.parametrize(
    ("form", "recording"),
    [
        (torque_xml, "torque/pbsnodes-x-busy.txt"),
        (torque_xml, "torque/pbsnodes-o-with-note.txt"),
        (openpbs_json, "openpbs/pbsnodes-json-idle.txt"),
    ],
)
def test_a_real_answer_is_in_pieces(form, recording):
    text = (RECORDED / recording).read_text(encoding="utf-8").partition("--- stdout\n")[2]
    text = text.partition("--- stderr\n")[0]
    text = text[text.index("<Data>") :] if form is torque_xml else text
    assert dict(map(form.parse_piece, form.pieces(text))) == form.parse_nodes(text)


def test_what_a_torque_node_says_of_itself_does_not_make_it_another_piece():
    one, two = (torque({"n1": ("free", "", OURS, load)})["pbsnodes"] for load in (1, 2))
    assert one != two
    assert torque_xml.pieces(one) == torque_xml.pieces(two)


@pytest.mark.parametrize("batch", DRIVERS)
def test_a_node_that_reads_as_before_is_the_same_object_as_before(batch):
    make, printed = DRIVERS[batch]
    driver = make()
    before = look(driver, printed({"n1": ("free", "", "", 1), "n2": ("offline", "", OURS, 1)}), ())
    after = look(
        driver, printed({"n1": ("job-exclusive", "1.server", "", 1), "n2": ("offline", "", OURS, 1)}), ()
    )
    assert after["n2"] is before["n2"]
    assert [before["n1"].state, after["n1"].state] == ["idle", "busy"]


def test_only_the_pieces_of_the_last_look_at_all_are_remembered():
    read: list[str] = []

    def length(piece: str) -> int:
        read.append(piece)
        return len(piece)

    remembered = ParseCache(length)
    assert remembered.of_all(["a", "bb", "a"]) == [1, 2, 1]
    assert remembered.of_some(["bb", "ccc"]) == [2, 3]
    assert remembered.of_all(["a", "ccc"]) == [1, 3]
    assert remembered.of_all(["bb"]) == [2]
    assert read == ["a", "bb", "a", "ccc", "ccc", "bb"]


def test_a_look_with_a_piece_that_does_not_read_leaves_what_was_known():
    remembered = ParseCache(int)
    remembered.of_all(["1"])
    with pytest.raises(ValueError, match="invalid literal"):
        remembered.of_all(["2", "x"])
    assert remembered.of_some(["1"]) == [1]
