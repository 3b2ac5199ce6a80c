"""What is asked for: scripts, options, settings; and what is said when it cannot be understood."""

import json
from pathlib import Path

import pytest

from emulator.live.agent import AgentConfig
from emulator.live.agent import main as agent_main
from emulator.live.hooks import HookConfig, HookInputs, Hooks
from emulator.live.settings import SettingsError, load_settings
from emulator.live.torque.commands import install_commands
from emulator.live.torque.config import ServerConfig
from emulator.live.torque.errors import PbsError
from emulator.live.torque.format import fold
from emulator.live.torque.jobs import clock_text, node_request, sleep_us, walltime_us
from emulator.live.torque.nodes import MarksFile
from emulator.live.torque.protocol import connect, request
from emulator.live.torque.server import TorqueServer
from emulator.live.torque.server import main as server_main
from manual_clock import ManualClock


@pytest.mark.parametrize(
    ("script", "duration_us"),
    [
        ("sleep 5", 5_000_000),
        ("#!/bin/sh\n#PBS -l nodes=1\n\n  sleep 0.000001  \n", 1),
        ("sleep .5\n", 500_000),
        ("sleep 1\nsleep 2\n", None),
        ("#!/bin/sh\nexec sleep 1\n", 1_000_000),
        ("sleep 1 # one\n", None),
        ("sleep 1m\n", None),
        ("", None),
    ],
)
def test_a_script_that_only_sleeps_is_recognised(script, duration_us):
    assert sleep_us(script) == duration_us


@pytest.mark.parametrize(
    ("text", "walltime"), [("90", 90_000_000), ("2:00", 120_000_000), ("100:00:01.5", 360_001_500_000)]
)
def test_walltimes_are_exact(text, walltime):
    assert walltime_us(text) == walltime


def test_walltimes_are_shown_in_whole_seconds():
    assert [clock_text(us) for us in (0, 1_500_000, 360_000_000_000)] == ["00:00:00", "00:00:02", "100:00:00"]


@pytest.mark.parametrize("text", ["n01", "1:fast", "2:ppn=2+1", "x"])
def test_nodes_that_cannot_be_had_are_refused(text):
    with pytest.raises(PbsError, match="cannot locate feasible nodes"):
        node_request(text)


def test_zero_nodes_are_an_illegal_value():
    with pytest.raises(PbsError, match=r"Illegal attribute or resource value for Resource_List.nodes"):
        node_request("0")


def test_the_command_line_wins_over_directives(world):
    script = "#PBS -N scripted -l walltime=60,mem=1gb\n# a comment\n#PBS -v A=1\nsleep 1\n#PBS -N late\n"
    job = world.qsub("-N mine -l nodes=2,walltime=90 -v B=2 -V", script=script)
    assert (job.request.name, job.request.nodes, job.request.walltime_us) == ("mine", 2, 90_000_000)
    assert dict(job.request.resources) == {"nodes": "2", "walltime": "00:01:30", "mem": "1gb", "nodect": "2"}
    assert {"A": "1", "B": "2", "LOGNAME": "alice"}.items() <= dict(job.request.variables).items()


def test_without_nodes_a_job_gets_one(world):
    job = world.qsub("-l walltime=60")
    assert (job.request.nodes, job.request.neednodes) == (1, "1")


def test_output_paths_are_where_the_user_said(world):
    job = world.qsub("-o host:/tmp/out -e err -j eo -k oe -m n -p 5 -q batch@server")
    text = world.do(f"qstat -f {job.number}").stdout
    for line in ("Output_Path = server:/tmp/out", "Error_Path = server:/home/alice/err", "Join_Path = eo"):
        assert f"    {line}\n" in text


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("qsub -Y", "qsub: option -Y not recognized"),
        ("qsub -l nodes", "qsub: illegal -l value"),
        ("qsub -r maybe", "qsub: illegal -r value"),
        ("qsub -p high", "qsub: illegal -p value"),
        ("qstat -Y", "qstat: option -Y not recognized"),
        ("qdel", "usage: qdel"),
        ("qdel -Y 1", "qdel: option -Y not recognized"),
        ("qselect -Y", "qselect: option -Y not recognized"),
        ("qmgr -Y", "qmgr: option -Y not recognized"),
    ],
)
def test_what_cannot_be_understood_exits_2(world, line, complaint):
    reply = world.do(line, "alice", text="sleep 1\n")
    assert (reply.status, reply.stderr.startswith(complaint)) == (2, True)


def test_an_ill_formed_job_number_is_refused(world):
    assert world.do("qdel abc").stderr == "qdel: illegally formed job identifier: abc\n"


def test_only_managers_may_change_the_scheduling(make_world):
    world = make_world()
    world.serve()
    ran = world.shell('qmgr -c "set server scheduling = False"; qmgr -c "s s scheduling=maybe"', "alice")
    assert ran.stderr == "qmgr obj= svr=default: Unauthorized Request \n" * 2


def test_long_values_are_folded_at_commas_or_hard():
    assert fold("    a = ", "x" * 80, one_line=False) == f"    a = {'x' * 70}\n\t{'x' * 10}"
    pieces = ",".join(["y" * 30] * 4)
    assert (
        fold("    a = ", pieces, one_line=False) == f"    a = {'y' * 30},{'y' * 30},\n\t{'y' * 30},{'y' * 30}"
    )
    assert fold("    a = ", pieces, one_line=True) == f"    a = {pieces}"


def test_xml_is_escaped(world):
    world.do("pbsnodes -N a<b&c n01")
    assert "<note>a&lt;b&amp;c</note>" in world.do("pbsnodes -x n01").stdout
    assert world.do("qstat -x").stdout == ""


def test_long_node_lists_and_names_are_shortened(make_world):
    world = make_world(nodes=tuple(f"a-rather-long-node-name-{number:02}" for number in range(9)), np=1)
    world.agents_up()
    world.qsub("-N a-name-that-is-very-long -l nodes=9")
    assert "...-is-very-long alice" in world.do("qstat").stdout
    assert all(len(line) <= 82 for line in world.do("qstat -n").stdout.splitlines()[6:])
    assert world.do("pbsnodes -l all").stdout.startswith("a-rather-long-node-n job-exclusive\n")


# Settings.


def test_settings_are_checked_with_file_and_field(tmp_path):
    path = tmp_path / "server.yaml"
    path.write_text(
        "home: x\nnodes: [a, a]\nnp: 0\ncolour: red\ndefault_walltime: soon\nscheduler: fcfs+magic\n"
    )
    with pytest.raises(SettingsError) as error:
        load_settings(path, ServerConfig)
    text = str(error.value)
    for part in (
        str(path),
        "these nodes are listed twice: a",
        "np: must be",
        "colour: there is no such key",
        "HH:MM:SS",
        "magic",
    ):
        assert part in text


@pytest.mark.parametrize("text", [None, "- a list", "{"])
def test_unusable_settings_files_end_the_process_with_status_2(tmp_path, capsys, text):
    path = tmp_path / "settings.yaml"
    if text is not None:
        path.write_text(text)
    for main in (server_main, agent_main):
        assert main(["--config", str(path)]) == 2
        assert str(path) in capsys.readouterr().err


def test_an_agent_needs_one_server():
    for settings in ({}, {"server": "a:1", "server_home": "x"}, {"server": "nowhere"}):
        with pytest.raises(ValueError, match="server"):
            AgentConfig(home="x", nodes=["n1"], **settings)
    assert AgentConfig(home="x", nodes=["n1"], server="host:15001").address() == ("host", 15001)


def test_hooks_without_a_kind_are_an_error():
    with pytest.raises(ValueError, match="say script or python"):
        HookConfig(prologue="/bin/true")
    with pytest.raises(ValueError, match=r"cannot be loaded: .* expected package.module:callable"):
        Hooks(HookConfig(kind="python", prologue="no.such:thing"), 1)


def test_a_damaged_marks_file_is_named(tmp_path):
    path = tmp_path / "marks.json"
    path.write_text("{}")
    with pytest.raises(SettingsError, match=r"marks.json: not a file of marks .* delete it"):
        MarksFile(path)


def test_the_scheduler_can_be_chosen():
    short = ServerConfig(home="x", nodes=["a"], scheduler="sjf+none").scheduler
    long = ServerConfig(home="x", nodes=["a"], scheduler={"order": "sjf", "backfill": "none"}).scheduler
    assert short == long
    with pytest.raises(ValueError, match=r"expected ORDER\+BACKFILL"):
        ServerConfig(home="x", nodes=["a"], scheduler=3)


# The wire.


@pytest.mark.live
@pytest.mark.parametrize("message", [{"do": "dance"}, {"do": "command"}, {}])
def test_requests_outside_the_protocol_are_refused(make_world, message):
    world = make_world()
    world.serve()
    assert request(world.server.address, message)["do"] == "refused"


@pytest.mark.live
def test_lines_that_are_not_objects_are_refused(make_world):
    world = make_world()
    world.serve()
    for line in (b"hello\n", b"[1]\n"):
        connection = connect(world.server.address)
        connection._sock.sendall(line)
        assert connection.receive()["do"] == "refused"
        connection.close()


def test_an_interpreter_that_no_script_can_name_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.executable", "/a path/python")
    with pytest.raises(ValueError, match="cannot stand in a script's first line"):
        install_commands(tmp_path, ("127.0.0.1", 1))


def test_two_servers_cannot_have_one_port(tmp_path, make_world):
    world = make_world()
    settings = ServerConfig(home=tmp_path / "other", nodes=["a"], port=world.server.address[1])
    with pytest.raises(OSError, match="in use"):
        TorqueServer(settings, ManualClock())


# Python hooks.


def refuses(arguments, environ):
    seen.append((arguments[0], arguments[1], Path(environ["PBS_NODEFILE"]).read_text().split()))
    return 2


def breaks(arguments, environ):
    raise RuntimeError(arguments[0])


seen = []


def test_python_hooks_are_called_with_what_scripts_get(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("pkgutil.resolve_name", {"m:refuses": refuses, "m:breaks": breaks}.__getitem__)
    hooks = Hooks(HookConfig(kind="python", prologue="m:refuses", epilogue="m:breaks"), 1)
    message = json.loads(
        '{"id": "1.server", "user": "a", "group": "g", "name": "n", "resources": "r", "queue": "q", "ppn": 2,'
        '"account": "", "workdir": "/", "neednodes": "1:ppn=2", "hosts": ["n01"], "script": ""}'
    )
    inputs = HookInputs(message, tmp_path)
    inputs.write_files()
    assert hooks.run("prologue", inputs, inputs.prologue_arguments()) == 2
    assert hooks.run("epilogue", inputs, inputs.epilogue_arguments(1, 0, 0)) == 1
    assert seen == [("prologue", "1.server", ["n01", "n01"])]
    assert "RuntimeError: epilogue" in capsys.readouterr().err
