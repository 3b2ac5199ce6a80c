"""Server, agent, commands and hooks together, as processes, against what was recorded from real Torque."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from processes import is_alive

pytestmark = pytest.mark.live


def section(text, name):
    """What one hook printed, from its `===` line to the next."""
    start = text.index(f"=== {name} ")
    return text[start:].partition("\n===")[0].splitlines()


def shape(lines):
    """Accounting records without what differs between two days: dates, times, job number, session."""
    varying = r"(\d+(?=\.server))|((?<=time=)\d{10,}|(?<=start=)\d+|(?<=end=)\d+|(?<=session=)\d+)"
    varying += r"|(?<=[cqe]time=)\d+|(?<=resources_used.walltime=)[0-9:]+|(?<=jobname=)\w+"
    return [re.sub(varying, "N", line.partition(";")[2]) for line in lines]


def recorded_accounting(recorded, name):
    text = recorded(name).stdout.partition("# accounting\n")[2].partition("# file")[0]
    return shape(text.splitlines())


@pytest.mark.slow
def test_jobs_start_and_end_at_their_exact_times(make_fleet):
    fleet = make_fleet(hooks=False)
    first = fleet.qsub("-l", "nodes=4,walltime=100", script="# a comment\n\nsleep 10.25\n")
    behind = fleet.qsub("-l", "nodes=4,walltime=100", script="sleep 7.000001\n")
    narrow = fleet.qsub("-l", "nodes=2,walltime=10.25", script="sleep 3\n")
    fleet.at(30)
    assert fleet.runs(first) == [(0, 10.25, "FINISHED")]
    assert fleet.runs(behind) == [(10.25, 17.250001, "FINISHED")]
    assert fleet.runs(narrow) == [(0, 3, "FINISHED")]
    assert fleet.export()["jobs"][0] | {"runs": 0} == {
        "number": 0, "submit_us": 0, "estimate_us": 100_000_000, "nodes": 4, "state": "ENDED",
        "exit_status": 0, "runs": 0,
    }  # fmt: skip
    assert fleet.letter(first) == "C"
    fleet.at(400)
    assert fleet.run("qstat", "0").returncode == 153


@pytest.mark.slow
def test_hooks_get_what_real_hooks_get(make_fleet, recorded):
    fleet = make_fleet()
    options = ["-N", "argsenv", "-A", "proj42", "-l", "nodes=2:ppn=2,walltime=00:05:00", "-v", "FOO=bar"]
    fleet.qsub(*options, script="sleep 2\n")
    fleet.at(5)
    said = recorded("hooks-argv-env.txt").stdout
    found = fleet.hooks_log.read_text().replace(str(fleet.home / "agent"), "$PBS_HOME")
    for name in ("prologue", "epilogue"):
        wanted = [line.strip() for line in section(said, name) if not re.search(r"env (PWD|SHLVL|_)=", line)]
        wanted = [line.replace("39.server", "0.server").replace("aux//", "aux/") for line in wanted if line]
        wanted = [line.replace("/home/alice", str(fleet.home)).replace("[20747]", "[1]") for line in wanted]
        got = section(found, name)
        nodes = ["n02", "n02", "n01", "n01"]
        still_taken = ["n01                  job-exclusive", "n02                  job-exclusive"]
        assert got[1:] == wanted[1:] + nodes + (still_taken if name == "epilogue" else [])
    assert fleet.states()["n02"] == "free"


@pytest.mark.slow
def test_a_prologue_that_exits_1_aborts_the_job(make_fleet, recorded):
    fleet = make_fleet()
    (fleet.home / "prologue-status").write_text("1")
    job = fleet.qsub("-l", "nodes=1:ppn=2,walltime=00:05:00")
    fleet.at(1)
    assert fleet.exit_status(job) == -2
    assert fleet.letter(job) == "C"
    assert shape(fleet.accounting()) == recorded_accounting(recorded, "prologue-exit-1.txt")
    assert fleet.hooks_log.read_text().count("=== epilogue") == 1


@pytest.mark.slow
def test_a_prologue_that_exits_2_has_the_job_requeued_until_it_may_start(make_fleet, recorded):
    fleet = make_fleet()
    (fleet.home / "prologue-status").write_text("2")
    job = fleet.qsub("-l", "nodes=1:ppn=2,walltime=00:05:00")
    fleet.at(2.5)
    assert [run[:2] for run in fleet.runs(job)] == [(0, 0), (1, 1), (2, 2)]
    assert shape(fleet.accounting()) == recorded_accounting(recorded, "prologue-exit-2.txt")
    assert fleet.exit_status(job) == -14
    assert fleet.letter(job) == "Q"
    assert fleet.states()["n01"] == "free"
    (fleet.home / "prologue-status").write_text("0")
    fleet.at(20)
    assert fleet.runs(job)[3:] == [(3, 13, "FINISHED")]
    hooks = fleet.hooks_log.read_text()
    assert (hooks.count("=== prologue"), hooks.count("=== epilogue")) == (4, 4)


@pytest.mark.slow
def test_an_epilogue_that_fails_is_ignored(make_fleet, recorded):
    fleet = make_fleet()
    (fleet.home / "epilogue-status").write_text("1")
    job = fleet.qsub("-l", "nodes=1:ppn=2,walltime=00:05:00")
    fleet.at(20)
    assert fleet.exit_status(job) == 0
    assert shape(fleet.accounting()) == recorded_accounting(recorded, "epilogue-exit-1.txt")


@pytest.mark.slow
def test_a_prologue_that_takes_too_long_has_the_job_requeued(make_fleet):
    fleet = make_fleet(agent={"prologalarm_s": 0.3})
    (fleet.home / "prologue").write_text("#!/bin/sh\nexec sleep 60\n")
    job = fleet.qsub()
    fleet.at(0.5)
    assert (fleet.letter(job), fleet.exit_status(job)) == ("Q", -14)


@pytest.mark.slow
def test_commands_run_as_processes_and_their_status_is_the_jobs(make_fleet):
    fleet = make_fleet(hooks=False)
    seven = fleet.qsub("-N", "seven", script="echo out; echo err >&2; exit 7\n")
    killed = fleet.qsub(script="kill -9 $$\n")
    fleet.ended(seven)
    fleet.ended(killed)
    assert (fleet.exit_status(seven), fleet.exit_status(killed)) == (7, 137)
    assert (fleet.home / "seven.o0").read_text() == "out\n"
    assert (fleet.home / "seven.e0").read_text() == "err\n"


@pytest.mark.slow
def test_qdel_ends_a_running_process_and_all_that_it_started(make_fleet, recorded):
    fleet = make_fleet(hooks=False)
    script = f"sleep 1000 & echo $! > {fleet.home}/child; wait\n"
    job = fleet.qsub("-l", "nodes=2:ppn=2,walltime=00:05:00", script=script)
    child = fleet.wait_until(lambda: (fleet.home / "child").exists() and (fleet.home / "child").read_text())
    assert fleet.run("qdel", str(job), user="alice").returncode == 0
    fleet.ended(job)
    assert fleet.exit_status(job) == 271
    fleet.wait_until(lambda: not is_alive(int(child)))
    # The agent tells the server of the end before it takes its own files of the job away.
    fleet.wait_until(lambda: not list((fleet.home / "agent" / "mom_priv" / "jobs").iterdir()))
    wanted = recorded_accounting(recorded, "qdel-running.txt")
    assert shape(fleet.accounting()) == [line.replace("=root@", "=alice@") for line in on_first_nodes(wanted)]


def on_first_nodes(lines):
    """As if n01, which was down when this was recorded, had been up."""
    return [line.replace("n03/0-1+n02/0-1", "n02/0-1+n01/0-1") for line in lines]


@pytest.mark.slow
def test_a_sleeping_job_is_deleted_at_once(make_fleet):
    fleet = make_fleet()
    job = fleet.qsub(script="sleep 1000\n")
    fleet.at(60)
    assert fleet.run("qdel", str(job)).returncode == 0
    fleet.at(61)
    assert fleet.runs(job) == [(0, 60, "CANCELLED")]
    assert fleet.exit_status(job) == 271


@pytest.mark.slow
@pytest.mark.parametrize(("check_s", "end_s"), [(45, 45), (0, 10)])
def test_walltime_is_enforced_at_the_next_check(make_fleet, check_s, end_s, recorded):
    fleet = make_fleet(agent={"walltime_check_s": check_s})
    job = fleet.qsub("-l", "nodes=1:ppn=2,walltime=00:00:10", script="sleep 100\n")
    fleet.at(200)
    assert fleet.runs(job) == [(0, end_s, "KILLED")]
    found, wanted = shape(fleet.accounting()), recorded_accounting(recorded, "walltime-exceeded.txt")
    used = r"resources_used\.\w+=\S+"
    assert [re.sub(used, "", line) for line in found] == [re.sub(used, "", line) for line in wanted]


@pytest.mark.slow
def test_qrerun_sends_a_job_back_and_it_starts_again(make_fleet, recorded):
    fleet = make_fleet()
    job = fleet.qsub("-l", "nodes=2:ppn=2,walltime=00:05:00", script="sleep 9\n")
    fleet.at(3)
    assert fleet.run("qrerun", str(job)).returncode == 0
    fleet.at(20)
    assert fleet.runs(job) == [(0, 3, "REQUEUED"), (3, 12, "FINISHED")]
    wanted = recorded_accounting(recorded, "qrerun-running.txt")
    assert shape(fleet.accounting()) == on_first_nodes(wanted)


@pytest.mark.slow
def test_a_job_outlives_its_agent(make_fleet):
    fleet = make_fleet(hooks=False)
    job = fleet.qsub("-l", "nodes=1:ppn=2,walltime=1000", script="sleep 900\n")
    fleet.at(100)
    fleet.kill("agent")
    fleet.at(310)
    assert (fleet.letter(job), fleet.states()["n01"], fleet.states()["n02"]) == ("R", "job-exclusive", "free")
    fleet.at(320)
    assert (fleet.letter(job), fleet.states()["n01"], fleet.states()["n02"]) == (
        "R",
        "down,job-exclusive",
        "down",
    )
    fleet.start("agent")
    fleet.wait_until(lambda: "down" not in fleet.states().values())
    assert fleet.states()["n01"] == "job-exclusive"
    fleet.at(1000)
    assert fleet.runs(job) == [(0, 900, "FINISHED")]


@pytest.mark.slow
def test_marks_and_job_numbers_outlive_the_server_and_agents_come_back(make_fleet):
    fleet = make_fleet(hooks=False)
    fleet.qsub(script="sleep 1000\n")
    fleet.run("pbsnodes", "-o", "-N", "kept?", "n05")
    fleet.kill("server")
    assert fleet.run("qstat").returncode == 111
    (fleet.home / "server" / "address").unlink()
    fleet.start("server")
    fleet.wait_until(lambda: read_if_there(fleet))
    fleet.commands()
    fleet.wait_until(lambda: "down" not in fleet.states().values())
    assert (
        fleet.run("pbsnodes", "-l", "-n").stdout == "n05                  offline                    kept?\n"
    )
    assert fleet.qsub(script="sleep 5\n") == 1
    fleet.at(10)
    assert fleet.runs(1) == [(0, 5, "FINISHED")]


def read_if_there(fleet):
    return (fleet.home / "server" / "address").exists()


@pytest.mark.slow
def test_processes_end_when_told_to(make_fleet):
    fleet = make_fleet(hooks=False)
    fleet.qsub(script=f"echo $$ > {fleet.home}/pid; sleep 1000; true\n")
    pid = fleet.wait_until(lambda: (fleet.home / "pid").exists() and (fleet.home / "pid").read_text())
    fleet.kill("agent", signal.SIGTERM)
    fleet.kill("server", signal.SIGTERM)
    fleet.wait_until(lambda: not is_alive(int(pid)))


@pytest.mark.slow
def test_python_hooks_run_in_the_agent(make_fleet, tmp_path, monkeypatch):
    (tmp_path / "my_hooks.py").write_text(
        "from pathlib import Path\n"
        "def note(arguments, environ):\n"
        f"    with open({str(tmp_path / 'noted')!r}, 'a') as file:\n"
        "        print(*arguments[:2], Path(environ['PBS_NODEFILE']).read_text().split(), file=file)\n"
        "    return 0\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    hooks = {"kind": "python", "prologue": "my_hooks:note", "epilogue": "my_hooks:note"}
    fleet = make_fleet(hooks=False, agent={"hooks": hooks})
    fleet.qsub("-l", "nodes=2")
    fleet.at(11)
    hosts = "['n02', 'n01']"
    assert (tmp_path / "noted").read_text() == f"prologue 0.server {hosts}\nepilogue 0.server {hosts}\n"


@pytest.mark.slow
def test_the_example_of_the_page_runs(tmp_path):
    """On the machine's own time: no clock file."""
    page = (Path(__file__).parents[4] / "docs" / "live-torque.md").read_text()
    example = page.partition("```sh\n")[2].partition("```")[0]
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    environ["PYTHONPATH"] = str(Path(__file__).parents[4])
    ran = subprocess.run(
        ["/bin/bash", "-e", "-c", example],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert re.sub(r"\d\d:\d\d:\d\d", "TIME", ran.stdout).splitlines() == [
        "0.server",
        "Job ID                    Name             User            Time Use S Queue",
        "------------------------- ---------------- --------------- -------- - -----",
        "0.server                   STDIN            alice                  0 R batch          ",
        "n1                   job-exclusive",
        "n2                   job-exclusive",
        "n3                   free",
        "n1                   offline,job-exclusive",
    ]
