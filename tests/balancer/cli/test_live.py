"""The real process: it keeps what it answered, gives no node twice, and starts and ends cleanly."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from balancer.client import BalancerError, NotObtainable
from balancer.service.service_manager import beat_s
from polling import until

pytestmark = pytest.mark.live
ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_what_was_answered_is_there_after_kill_9(service):
    running = service(6)
    running.start("--reserve", "2")
    with running.client() as client:
        first = client.request_nodes(2)
        answered = client.request_nodes(1, idempotency_key="k1")
        client.add_reserve(1, 600.0)
        reserves = client.reserves()
    running.kill()
    running.start("--reserve", "2")
    with running.client() as client:
        assert {node.name for node in client.nodes() if node.state == "OD_ALLOC"} == {
            *first.nodes,
            *answered.nodes,
        }
        assert client.request(first.id) == first
        assert client.request_nodes(1, idempotency_key="k1") == answered
        assert client.reserves() == reserves
        events = list(client.events())
        assert [event.kind for event in events].count("started") == 2
        assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert running.stop() == 0


@pytest.mark.slow
def test_twenty_clients_at_once_never_get_the_same_node(service):
    running = service(10)
    running.start("--reserve", "10")
    lock, held, clashes, granted = threading.Lock(), set(), [], []

    def client() -> None:
        with running.client() as balancer:
            for _ in range(5):
                try:
                    nodes = balancer.request_nodes(1).nodes
                except NotObtainable:
                    continue
                with lock:
                    clashes.extend(held & set(nodes))
                    held.update(nodes)
                    granted.append(nodes)
                with lock:
                    held.difference_update(nodes)
                    balancer.release_nodes(nodes)

    threads = [threading.Thread(target=client) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert clashes == []
    assert len(granted) >= 20
    assert running.stop() == 0


@pytest.mark.slow
def test_sigterm_lets_waiting_calls_go_and_ends_with_0(service):
    running = service(1)
    running.start("--wait-s", "600", "--threads", "4")
    with running.client() as client:
        running.start_job(client, "1.server", "n01")
        waiting = client.request_nodes(1, respond_async=True)
    answers: list[object] = []

    def wait() -> None:
        with running.client() as client:
            client.patience_s = 0  # nobody comes back
            try:
                answers.append(client.request(waiting.id, wait_s=30))
            except BalancerError as error:
                answers.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    assert running.stop() == 0
    thread.join(120)
    assert len(answers) == 1


def test_a_taken_port_is_one_clear_line_and_status_2(service):
    running = service(1)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        command = running.command("--port", str(port))
        ended = subprocess.run(
            command, env=running.environment, capture_output=True, text=True, check=False, timeout=60
        )
    assert ended.returncode == 2
    assert ended.stderr == (
        f"balancer: cannot listen on 127.0.0.1:{port}: Address already in use; choose another --port\n"
    )


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "0.0.0.0", "--no-auth"], "calls are not authenticated"),
        (["--algorithm", "magic"], "algorithm: there is no algorithm 'magic'; did you mean 'basic'?"),
        (["--algorithm", "{hint: {reserve: 3}}"], "algorithm hint has no parameter 'reserve'; it has none"),
        (["--plugin", "gone.py:My"], "gone.py: No such file or directory"),
        (
            ["--driver", "magic"],
            "driver: there is no batch driver 'magic'; there are: openpbs, slurm, torque",
        ),
        (["--nodes", "n[3-1]"], "'3-1' is not a range from low to high"),
        (["--reserve", "-1"], "reserve: must be at least 0, not -1"),
        (["--db", "/nowhere/x.db"], "the folder /nowhere of the ledger does not exist"),
        (["--clock", "sundial"], "clock: there is no clock 'sundial'; there are: shared, wall"),
        (["--clock", "{wall: {speed: 2}}"], "clock: clock wall has no parameter 'speed'; it has none"),
        (["--clock", "{shared: {path: /nowhere/clock}}"], "clock: there is no clock /nowhere/clock"),
        (["--config", "/nowhere/c.yaml"], "/nowhere/c.yaml cannot be read"),
        (["--ready-file", "/nowhere/ready"], "ready_file: /nowhere/ready cannot be written"),
    ],
)
def test_a_bad_option_is_named_and_nothing_starts(service, options, said):
    running = service(1)
    command = running.command("--port", "0", *options)
    ended = subprocess.run(
        command, env=running.environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert (ended.returncode, said in ended.stderr) == (2, True), ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.slow
def test_the_command_line_does_what_it_says(service):
    running = service(3)
    running.start()
    made = json.loads(running.run("request", "2", "--json").stdout)
    assert made["nodes"] == ["n01", "n02"]
    assert running.run("release", "n[01-02]").returncode == 0
    assert running.run("reserve", "1", "--in-s", "60").stdout.startswith("RESERVE")
    listed = running.run("nodes").stdout.splitlines()
    assert listed[0].split() == ["NODE", "STATE", "POOL", "SINCE", "REQUEST", "JOBS", "REPORTED"]
    assert listed[1].split()[:3] == ["n01", "OD_RESERVE", "on-demand"]
    assert "OA_IDLE" in running.run("status").stdout
    assert running.run("requests", "--state", "granted", "--mine").stdout.split()[6:8] == [
        made["id"],
        "ended",
    ]
    assert running.run("requests", "--overdue").stdout.splitlines()[1:] == []
    kept = json.loads(running.run("request", "1", "--async", "--exclude", "n01", "--json").stdout)
    assert running.run("confirm", kept["id"]).returncode == 0
    assert "granted" in running.run("renew", kept["id"], "--lease-s", "60").stdout
    assert running.run("withdraw", kept["id"]).returncode == 0
    assert running.run("confirm", "r0").returncode == 2
    assert "nodes_released" in running.run("events").stdout
    refused = running.run("request", "9")
    assert refused.returncode == 1
    assert refused.stderr == "balancer: it wants 9 nodes, and there are 3 (balancer.not_obtainable)\n"
    assert running.stop() == 0
    silent = running.run("status")
    assert silent.returncode == 3
    assert silent.stderr.startswith(f"balancer: no answer from {running.url}")


@pytest.mark.slow
def test_who_hangs_up_while_waiting_leaves_no_request(service):
    running = service(1)
    running.start("--wait-s", "600")
    with running.client() as client:
        running.start_job(client, "1.server", "n01")
        address = running.url.removeprefix("http://").split(":")
        body = b'{"nodes": 1}'
        with socket.create_connection((address[0], int(address[1])), timeout=30) as caller:
            caller.sendall(
                b"POST /v1/request_nodes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
            )
            until(lambda: client.requests(state="waiting") != [])
        until(lambda: client.requests(state="withdrawn") != [])
        assert "hung up" in client.requests()[0].reason
    assert running.stop() == 0


@pytest.mark.slow
def test_the_benchmark_runs(service):
    command = [sys.executable, "benchmarks/balancer_load.py", "--seconds", "1", "--nodes", "16"]
    command += ["--pairs-per-s", "20", "--connections", "2"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["calls"] > 0


@pytest.mark.slow
def test_freeze_and_thaw_from_the_command_line(service):
    running = service(3)
    running.start("--reserve", "1")
    db = ("--db", str(running.folder / "ledger.db"))
    assert running.run("freeze", *db).returncode == 2  # a reason is needed
    assert running.run("freeze", *db, "--reason", "the switch is replaced").returncode == 0
    shown = running.run("status").stdout
    assert "the switch is replaced" in shown
    assert "batch (torque)" in shown
    with running.client() as client, pytest.raises(NotObtainable):
        client.request_nodes(3)
    assert running.run("thaw", *db).returncode == 0
    assert running.run("thaw", *db).stderr.startswith("balancer: nothing is frozen: there is no ")
    assert "frozen" not in running.run("status").stdout
    with running.client() as client:
        assert len(client.request_nodes(3, wait_s=30).nodes) == 3
    assert running.stop() == 0


@pytest.mark.slow
def test_an_operator_quarantines_a_node_and_gives_it_back_to_batch(service):
    running = service(2)
    running.start("--reserve", "1")
    with running.client() as client:
        lent = client.request_nodes(1).nodes[0]
    why = ("--reason", "nobody knows what runs there")
    assert running.run("node", lent, "set", "quarantined").returncode == 2  # a reason is needed
    shown = running.run("node", lent, "set", "quarantined", *why).stdout
    assert "OD_ALLOC" in shown
    assert "with --yes" in shown
    refused = running.run("node", lent, "set", "on-demand", *why, "--yes")
    assert (refused.returncode, "quarantine it first" in refused.stderr) == (2, True)
    assert "QUARANTINED" in running.run("node", lent, "set", "held", *why, "--yes").stdout
    assert running.run("node", lent, "set", "batch", *why, "--yes").returncode == 0
    with running.client() as client:
        until(lambda: client.node(lent).pool == "batch")
        reasons = [event.body.get("reason") for event in client.events() if event.kind == "nodes_adopted"]
    assert reasons == [why[1]]
    assert running.stop() == 0


@pytest.mark.slow
def test_sighup_reads_nodes_and_settings_again_and_a_wrong_file_changes_nothing(service):
    running = service(3)
    config = running.folder / "balancer.yaml"
    nodes = running.folder / "nodes"
    nodes.write_text("n[01-02]\n", encoding="utf-8")
    config.write_text("reserve: 1\n", encoding="utf-8")
    running.start("--config", str(config), "--nodes", str(nodes))

    def tell():
        running.process.send_signal(signal.SIGHUP)

    with running.client() as client:
        assert {node.name for node in client.nodes()} == {"n01", "n02"}
        nodes.write_text("n[01-03]\n", encoding="utf-8")
        config.write_text("reserve: 3\nthreads: 16\n", encoding="utf-8")
        tell()
        until(lambda: client.status()["nodes"]["OD_RESERVE"] == 3)
        assert '"keys": ["threads"]' in running.log.read_text(encoding="utf-8")
        config.write_text("reserve: many\n", encoding="utf-8")
        tell()
        running.wait_for_log("all stays")
        assert {node.name for node in client.nodes()} == {"n01", "n02", "n03"}
    assert running.stop() == 0


def test_systemd_is_told_that_it_is_ready_lives_and_ends(service, tmp_path):
    running = service(2)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(60)
        running.environment |= {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "200000"}
        running.start()
        told = [systemd.recv(1000).decode() for _ in range(4)]
        assert told == [f"READY=1\nSTATUS=listens on {running.url}", *["WATCHDOG=1"] * 3]
        assert running.stop() == 0
        rest = [systemd.recv(1000).decode()]
        while "STOPPING=1" not in rest:
            rest.append(systemd.recv(1000).decode())
        assert {*rest} <= {"WATCHDOG=1", "STOPPING=1"}


def test_a_service_manager_that_is_gone_is_a_line_in_the_log_and_the_service_runs(service, tmp_path):
    running = service(2)
    running.environment |= {"NOTIFY_SOCKET": str(tmp_path / "nobody")}
    running.start()
    running.wait_for_log("the service manager cannot be reached")
    assert running.stop() == 0


@pytest.mark.parametrize(
    ("environment", "every_s"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "60000000"}, 30.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": str(os.getpid())}, 30.0),
        ({"WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, None),
    ],
)
def test_the_watchdog_is_answered_in_half_its_time_if_it_is_ours(monkeypatch, environment, every_s):
    for name in ("WATCHDOG_USEC", "WATCHDOG_PID"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert beat_s() == every_s
