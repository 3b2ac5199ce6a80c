"""Processes that are started in other containers: what can be done to one here can be done to one there."""

import os
import subprocess
import sys
import threading

import pytest

from emulator.live.containers import remote_exec
from emulator.live.containers.remote_exec import Place, PlacedProcess, shutdown_executors
from emulator.live.process import FleetProcessError
from polling import until
from processes import is_alive


@pytest.fixture
def place(tmp_path):
    served = Place(tmp_path / "there.sock")
    thread = threading.Thread(target=served.serve)
    thread.start()
    yield tmp_path / "there.sock"
    served.stop()
    thread.join()
    assert not (tmp_path / "there.sock").exists()


def start(place, script, **environ):
    return PlacedProcess("one", ["/bin/sh", "-c", script], place.parent, environ, place)


def ended(process):
    process.wait_until(lambda: True)
    until(lambda: process.exit_status is not None)
    return process.exit_status


def test_a_process_has_its_environment_and_its_log_and_tells_its_status(place):
    process = start(place, 'echo "hello $NAME"; exit 3', NAME="there")
    assert ended(process) == 3
    assert process.exit_summary() == "one ended with status 3: hello there"
    process.stop()
    assert process.exit_status == 3


def test_a_process_that_is_stopped_ends_by_sigterm_or_if_it_will_not_is_killed_with_its_session(
    place, monkeypatch
):
    willing = start(place, "exec sleep 600")
    assert is_alive(willing.pid)
    assert willing.exit_status is None
    willing.stop()
    assert willing.exit_status == -15

    monkeypatch.setattr(remote_exec, "_STOP_S", 0.3)
    deaf = start(place, "trap '' TERM; sleep 600 & echo $!; wait; wait")
    deaf.wait_until(lambda: deaf.log.read_text().strip())
    other = int(deaf.log.read_text())
    deaf.stop()
    assert deaf.exit_status == -9
    until(lambda: not is_alive(other))  # the kernel's business, a moment later


def test_nobody_is_left_when_whoever_asked_is_killed(place):
    text = f"""
import sys
from pathlib import Path
from emulator.live.containers.remote_exec import PlacedProcess
process = PlacedProcess("one", ["sleep", "600"], Path({str(place.parent)!r}), {{}}, Path({str(place)!r}))
print(process.pid, flush=True)
sys.stdin.read()
"""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", text], stdin=pipe, stdout=pipe, text=True) as asker:
        pid = int(asker.stdout.readline())
        assert is_alive(pid)
        asker.kill()
    until(lambda: not is_alive(pid))


def test_a_place_that_does_not_come_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(remote_exec, "_COMES_S", 0.2)
    with pytest.raises(FleetProcessError, match=r"the container there did not come within 0\.2 s"):
        start(tmp_path / "there.sock", "true")


def test_a_process_whose_container_is_gone_is_dead(tmp_path):
    served = subprocess.Popen([sys.executable, "-c", _SERVE.format(path=str(tmp_path / "there.sock"))])
    process = start(tmp_path / "there.sock", "exec sleep 600")
    pid = process.pid
    served.kill()
    served.wait()
    assert ended(process) == -9
    process.stop()
    os.kill(pid, 9)  # in a container it had ended with that


_SERVE = """
from pathlib import Path
from emulator.live.containers.remote_exec import Place
Place(Path({path!r})).serve()
"""


def test_a_place_goes_home_when_the_run_is_over_though_it_came_only_then(tmp_path):
    served = Place(tmp_path / "there.sock")
    thread = threading.Thread(target=served.serve)
    late = threading.Timer(0.3, thread.start)
    late.start()
    shutdown_executors([tmp_path / "there.sock"])
    late.join()
    thread.join(30)
    assert not thread.is_alive()
