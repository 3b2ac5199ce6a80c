"""A job that goes on at another host finds there what it left: agents have copies of a folder that is served."""

import json

import pytest
import requests

from balancer.clock import US
from emulator.live.folder_copy import FolderCopy, FolderCopyConfig, FolderServer
from emulator.live.job.program import Checkpoint, Checkpoints

JOB, OTHER = ("j12", "12"), ("j3", "3")


@pytest.fixture
def folder(tmp_path):
    """That which all share, its address, and a copy of it at each of the hosts a and b."""
    there = tmp_path / "scratch"
    there.mkdir()
    with FolderServer(("127.0.0.1", 0), there) as server:
        yield there, f"127.0.0.1:{server.port}", *(copy(tmp_path / name, server.port) for name in "ab")


def copy(here, port):
    here.mkdir()
    return here, FolderCopy(FolderCopyConfig(folder=here, server=f"127.0.0.1:{port}"))


def content(folder):
    """PATH -> text of all files."""
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def wrote(folder, text):
    with (folder / "j12.o12").open("a") as file:
        file.write(text)


def test_what_a_job_wrote_on_one_host_is_there_on_the_other_where_it_goes_on_and_its_output_is_one(folder):
    there, _, (a, at_a), (b, at_b) = folder
    at_a.fetch(JOB)
    wrote(a, "begins\n")
    saved = Checkpoints(a / "checkpoints", "12").save(7 * US, 9 * US)
    at_a.send(JOB)
    wrote(a, "leaves\n")
    at_a.leave(JOB)
    assert content(a) == {}
    at_b.fetch(JOB)
    assert Checkpoints(b / "checkpoints", "12").newest() == saved == Checkpoint(1, 7 * US, 9 * US)
    wrote(b, "finished\n")
    at_b.leave(JOB)
    assert content(there).keys() == {"j12.o12", "checkpoints/12.checkpoint-000001"}
    assert (there / "j12.o12").read_text() == "begins\nleaves\nfinished\n"


def test_what_was_sent_while_the_job_rested_is_there_though_its_host_is_lost(folder):
    there, _, (a, at_a), (b, at_b) = folder
    at_a.fetch(JOB)
    wrote(a, "rests\n")
    at_a.send(JOB)
    wrote(a, "never heard of\n")
    at_b.fetch(JOB)
    assert content(b) == content(there) == {"j12.o12": "rests\n"}


def test_a_file_that_the_job_deletes_is_deleted_and_what_lay_about_from_before_is_not_taken_for_its_own(
    folder,
):
    there, _, (a, at_a), _ = folder
    checkpoints = Checkpoints(a / "checkpoints", "12")
    (a / "j12.o12").write_text("of a run that was broken off here\n")
    at_a.fetch(JOB)
    for done in range(1, 6):
        checkpoints.save(done, 9)
        at_a.send(JOB)
    kept = {f"checkpoints/12.checkpoint-{number:06d}" for number in (3, 4, 5)}
    assert content(there).keys() == content(a).keys() == kept


def test_jobs_have_their_own_files_and_nothing_is_sent_twice(folder, monkeypatch):
    there, _, (a, at_a), _ = folder
    for job in (JOB, OTHER):
        at_a.fetch(job)
    wrote(a, "mine\n")
    (a / "j3.o3").write_text("other\n")
    (a / "j123.o123").write_text("of nobody who runs here\n")
    at_a.send(JOB)
    assert content(there) == {"j12.o12": "mine\n"}
    asked = []
    monkeypatch.setattr(at_a, "_ask", lambda query, told: asked.append(told))
    at_a.send(JOB)
    at_a.send(OTHER)
    assert [sorted(told["files"]) for told in asked] == [["j3.o3"]]


@pytest.mark.parametrize("path", ["../outside", "/etc/outside", ""])
def test_nothing_is_written_outside_the_folder(folder, tmp_path, path):
    there, address, *_ = folder
    told = {"files": {path: ""}, "gone": []}
    answer = requests.post(f"http://{address}/", json.dumps(told), timeout=60)
    assert (answer.status_code, answer.json()) == (
        400,
        {"error": f"not files of a job: {path!r} is not a path in the folder"},
    )
    assert content(there) == {}
    assert not (tmp_path / "outside").exists()


def test_an_agent_whose_folder_does_not_answer_or_takes_no_more_says_so(folder, tmp_path, monkeypatch):
    _, address, (a, at_a), _ = folder
    at_a.fetch(JOB)
    wrote(a, "text\n")

    def full(path, content):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("emulator.live.folder_copy.write_bytes", full)
    with pytest.raises(ConnectionError, match=rf"the jobs' folder at {address} says 507: .*No space left"):
        at_a.send(JOB)
    with pytest.raises(ConnectionError, match=r"folder at 127\.0\.0\.1:1 does not answer"):
        FolderCopy(FolderCopyConfig(folder=a, server="127.0.0.1:1")).fetch(JOB)
