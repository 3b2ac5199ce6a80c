"""Hooks never harm: 0, or 2 on a clear refusal, whatever happens."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import balancer
from balancer.clock import wall_us
from balancer.hooks.client import HookSettings
from balancer.hooks.torque import main, nodes_of_job, walltime_s

PROLOGUE = [
    "prologue",
    "39.server",
    "alice",
    "alice",
    "name",
    "nodes=2:ppn=2,walltime=00:05:00",
    "batch",
    "acct",
    "x",
]
EPILOGUE = ["epilogue", "39.server", "alice", "alice", "name", "1234"]
SCRIPTS = Path(balancer.__file__).parent / "hook_scripts"


@pytest.fixture
def node(tmp_path, monkeypatch, fake):
    """A node of job 39.server: its node file, and where its marker would be."""
    (tmp_path / "nodefile").write_text("n02\nn02\nn01\nn01\n", encoding="utf-8")
    monkeypatch.setenv("PBS_NODEFILE", str(tmp_path / "nodefile"))
    monkeypatch.setenv("BALANCER_MARKER", str(tmp_path / "handed-over"))
    return tmp_path


def test_a_prologue_reports_all_nodes_of_the_job_at_once(node, fake):
    assert main(PROLOGUE) == 0
    assert fake.seen == [
        (
            "/v1/update_nodes",
            {"states": {"n02": "busy", "n01": "busy"}, "job": "39.server", "remaining_s": 300.0},
        )
    ]


def test_an_epilogue_reports_the_nodes_idle(node, fake):
    assert main(EPILOGUE) == 0
    assert fake.seen == [("/v1/update_nodes", {"states": {"n02": "idle", "n01": "idle"}, "job": "39.server"})]


def test_a_refused_prologue_requeues_the_job(node, fake, capsys):
    fake.status, fake.code = 409, "balancer.node_not_in_batch_pool"
    assert main(PROLOGUE) == 2
    assert "goes back to the queue: n02 is OD_ALLOC" in capsys.readouterr().err


def test_a_refused_epilogue_is_only_a_message(node, fake, capsys):
    fake.status, fake.code = 409, "balancer.node_not_in_batch_pool"
    assert main(EPILOGUE) == 0
    assert "did not take note" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("status", "body"),
    [(500, b"boom"), (400, b'{"code": "balancer.unknown_node"}'), (409, b"[]"), (503, b"{}"), (404, b"\xff")],
)
def test_any_other_answer_lets_the_job_start(node, fake, status, body):
    fake.status, fake.body = status, body
    assert main(PROLOGUE) == 0


def test_an_unreachable_balancer_lets_the_job_start(node, monkeypatch):
    monkeypatch.setenv("BALANCER_URL", "http://127.0.0.1:9")
    assert main(PROLOGUE) == 0


def test_an_unreachable_balancer_requeues_on_a_node_that_is_marked_as_handed_over(node, monkeypatch):
    monkeypatch.setenv("BALANCER_URL", "http://127.0.0.1:9")
    (node / "handed-over").touch()
    assert main(PROLOGUE) == 2
    assert main(EPILOGUE) == 0


def test_a_balancer_that_agrees_outweighs_a_forgotten_marker(node, fake):
    (node / "handed-over").touch()
    assert main(PROLOGUE) == 0


def test_a_hanging_balancer_costs_no_more_than_the_deadline(node, fake, monkeypatch):
    monkeypatch.setenv("BALANCER_HOOK_DEADLINE_S", "0.2")
    fake.answers.clear()
    start_us = wall_us()
    assert main(PROLOGUE) == 0
    assert wall_us() - start_us < 20_000_000


@pytest.mark.parametrize("url", ["", "localhost:8090", "ftp://x", "http://[::1", "http://127.0.0.1:99999"])
def test_a_wrong_url_lets_the_job_start(node, monkeypatch, url):
    monkeypatch.setenv("BALANCER_URL", url)
    assert main(PROLOGUE) == 0


@pytest.mark.parametrize("arguments", [[], ["prologue"], ["nonsense", "1.server"], ["--help"], ["-x"]])
def test_wrong_arguments_let_the_job_start(node, arguments):
    assert main(arguments) == 0


def test_a_missing_node_file_lets_the_job_start(node, monkeypatch):
    monkeypatch.delenv("PBS_NODEFILE")
    assert main(PROLOGUE) == 0


def test_the_node_file_names_each_node_once_in_its_order(node):
    assert nodes_of_job({"PBS_NODEFILE": str(node / "nodefile")}) == ["n02", "n01"]


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ("nodes=2:ppn=2,walltime=00:05:00,neednodes=2:ppn=2", 300.0),
        ("walltime=1:02:03:04", 93784.0),
        ("walltime=90", 90.0),
        ("nodes=1", None),
        ("walltime=soon", None),
    ],
)
def test_the_wall_time_is_read_from_the_resource_list(resources, expected):
    assert walltime_s(resources) == expected


@pytest.mark.parametrize("deadline", ["five", "nan", "0", "-1", "61"])
def test_unreadable_settings_are_told_and_fall_back_to_the_defaults(deadline, capsys):
    assert HookSettings.from_environment({"BALANCER_HOOK_DEADLINE_S": deadline}) == HookSettings()
    assert capsys.readouterr().err == (
        f"balancer: BALANCER_HOOK_DEADLINE_S={deadline} is no number of seconds up to 60: 5 s are used\n"
    )


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Runs an installed script with a `balancer` command that exits with the given status."""

    def run(hook: str, status: int, *, marked: bool = False) -> int:
        command = tmp_path / "balancer"
        command.write_text(f"#!/bin/sh\nexit {status}\n", encoding="utf-8")
        command.chmod(0o755)
        script = shutil.copy(SCRIPTS / f"torque-{hook}", tmp_path / hook)
        marker = tmp_path / "marker"
        if marked:
            marker.touch()
        env = {"PATH": "/bin:/usr/bin", "BALANCER_COMMAND": str(command), "BALANCER_MARKER": str(marker)}
        return subprocess.run([script, "39.server"], env=env, check=False).returncode

    return run


@pytest.mark.parametrize(("status", "expected"), [(0, 0), (1, 0), (2, 2), (126, 0), (127, 0), (139, 0)])
def test_the_installed_prologue_passes_on_only_a_clear_refusal(installed, status, expected):
    assert installed("prologue", status) == expected


def test_the_installed_prologue_requeues_on_a_marked_node_when_the_hook_itself_fails(installed):
    assert installed("prologue", 1, marked=True) == 2


@pytest.mark.parametrize("status", [0, 1, 2, 127])
def test_the_installed_epilogue_always_ends_well(installed, status):
    assert installed("epilogue", status) == 0


def test_a_hook_needs_only_the_standard_library():
    code = "import sys, balancer.hooks.torque; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"click", "requests", "flask", "pydantic"} & set(modules)


def test_a_hook_may_be_called_in_a_thread(node, fake):
    ended: list[int] = []
    thread = threading.Thread(target=lambda: ended.append(main(PROLOGUE)))
    thread.start()
    thread.join()
    assert ended == [0]
    assert len(fake.seen) == 1
