"""Nobody is left behind when a run is killed in a way that lets it tidy up nothing."""

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest
import yaml

from emulator.live.process import OrphanReaper
from polling import until
from processes import is_alive

pytestmark = pytest.mark.live
ROOT = Path(__file__).parents[3]
PARENT = """
import subprocess
from emulator.live.process import OrphanReaper
guard = OrphanReaper()
sleepers = [subprocess.Popen(["sleep", "1000"], start_new_session=True) for _ in range(4)]
for sleeper in sleepers:
    guard.watch(sleeper.pid)
guard.forget(sleepers[0].pid)
for _ in range(40):  # who is stopped may have been stopped before
    guard.forget(sleepers[2].pid)
print(*(sleeper.pid for sleeper in sleepers), flush=True)
input()
"""


def test_what_is_watched_is_killed_and_what_was_forgotten_is_not():
    with subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=os.environ | {"PYTHONPATH": str(ROOT)}, text=True,
    ) as parent:  # fmt: skip
        sleepers = [int(pid) for pid in parent.stdout.readline().split()]
        parent.kill()
    try:
        until(lambda: not is_alive(sleepers[1]) and not is_alive(sleepers[3]))
        assert is_alive(sleepers[0])
        assert is_alive(sleepers[2])
    finally:
        for pid in (sleepers[0], sleepers[2]):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.slow
def test_a_live_run_that_is_killed_leaves_no_process(tmp_path, processes):
    batch = {"days": 0.1, "jobs": 5, "load": 0.5, "median_run_s": 900, "max_walltime_s": 7200}
    document = {
        "name": "killed", "nodes": 4, "workload": {"generate": [{"daily_batch": batch}]},
        "mechanism": "balancer", "live": {"speed": 60, "jobs": "emulator-job"},
    }  # fmt: skip
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(document))

    environ = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", "from emulator.cli import main; main()", "run", "s.yaml", "--clock", "live"],
        cwd=tmp_path, env=environ, stderr=subprocess.PIPE, text=True,
    ) as run:  # fmt: skip
        assert run.stderr.readline().startswith("cluster time")
        assert len(processes()) >= 6
        run.kill()
    until(lambda: not processes())


TAGGED_PARENT = """
import os, subprocess, sys
from pathlib import Path
from emulator.live.process import OrphanReaper
guard = OrphanReaper()
guard.watch_tag(sys.argv[1])
guard.remove(Path(sys.argv[2]))
name, value = sys.argv[1].split("=")
# Its child is in a session of its own and nobody's child any more, as slurmd's are.
command = ["setsid", "--fork", "sleep", "1000"]
subprocess.run(command, env={**os.environ, name: value}, check=True)
subprocess.run(["setsid", "--fork", "sleep", "1000"], check=True)
print("started", flush=True)
input()
"""


def test_whoever_has_the_runs_tag_ends_with_it_and_nobody_else(tmp_path):
    mark, tag = f"GUARD_TEST={uuid.uuid4()}", f"EMULATOR_RUN={uuid.uuid4()}"
    left = tmp_path / "left"
    left.touch()

    def sleepers():
        found = {}
        for path in Path("/proc").glob("[0-9]*/environ"):
            try:
                environ = path.read_bytes().split(b"\0")
                is_sleeper = (path.parent / "comm").read_text() == "sleep\n"
            except OSError:
                continue  # ended meanwhile
            if is_sleeper and mark.encode() in environ:
                found[int(path.parent.name)] = tag.encode() in environ
        return found

    with subprocess.Popen(
        [sys.executable, "-c", TAGGED_PARENT, tag, str(left)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **dict([mark.split("=")])}, cwd=ROOT,
    ) as parent:  # fmt: skip
        parent.stdout.readline()
        until(lambda: sorted(sleepers().values()) == [False, True])
        parent.kill()
    try:
        until(lambda: list(sleepers().values()) == [False])
        until(lambda: not left.exists())
    finally:
        for pid in sleepers():
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("is_deleted", [False, True])
def test_whoever_has_a_file_of_the_run_open_ends_with_it_and_we_do_not(tmp_path, is_deleted):
    """As a slurmstepd whose slurmd died: its environment is empty."""
    ours, other = tmp_path / "clock", tmp_path / "clock-of-another"
    guard = OrphanReaper()
    guard.remove(ours)
    with ours.open("w") as held, other.open("w") as theirs:
        sleepers = [
            subprocess.Popen(["sleep", "1000"], stdin=file, env={}, start_new_session=True)
            for file in (held, theirs)
        ]
        if is_deleted:
            ours.unlink()
        guard.close()
        try:
            assert sleepers[0].wait(30) == -signal.SIGKILL
            assert (sleepers[1].poll(), ours.exists()) == (None, False)
        finally:
            for sleeper in sleepers:
                sleeper.kill()
                sleeper.wait()


def test_sessions_that_are_forgotten_again_and_again_cost_nothing():
    guard = OrphanReaper()
    sleepers = [subprocess.Popen(["sleep", "1000"], start_new_session=True) for _ in range(2)]
    for sleeper in sleepers:
        guard.watch(sleeper.pid)
    for _ in range(200):
        guard.forget(sleepers[0].pid)
    guard.close()
    try:
        assert sleepers[1].wait(30) == -signal.SIGKILL
        assert sleepers[0].poll() is None
    finally:
        sleepers[0].kill()
        sleepers[0].wait()
