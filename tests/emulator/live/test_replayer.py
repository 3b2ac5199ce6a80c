"""A replay against a fixed pool on a paced clock: everything happens at exactly its time."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from threading import Thread

import pytest
from click.testing import CliRunner
from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

from balancer.clock import US
from emulator.clock.clock_master import SharedClockMaster
from emulator.clock.shared_clock import SharedClock
from emulator.live.leases import CloudSettings
from emulator.live.ondemand.config import OndemandConfig
from emulator.live.ondemand.nodes import FixedPool, Granted, Refused, Waiting
from emulator.live.ondemand.server import OndemandServer
from emulator.live.replay_log import LeaseResult, ReplayLog, partial_path, read_replay
from emulator.live.replayer import Replayer, main
from emulator.live.replayer_config import ReplayerConfig
from emulator.workload.store import save
from emulator.workload.table import JobTable, Kind
from polling import until

pytestmark = pytest.mark.live

QUEUED = ["-q", "batch", "-v", "TRACE_NUMBERS=-1/-1/-1"]

# Notes what it was called with and the time on the clock, as a batch server would.
FAKE_QSUB = """#!{python}
import json, os, struct, sys
script = sys.stdin.read()
with open({clock!r}, "rb") as file:
    now_us = struct.unpack_from("<q", file.read(), 8)[0]
with open({calls!r}, "a") as file:
    file.write(json.dumps([now_us, sys.argv[1:], script]) + "\\n")
if os.path.exists({down!r}):
    os.unlink({down!r})
    sys.exit("qsub: cannot connect to server pbs (errno=111) Connection refused")
name = sys.argv[2]
if name in {refused!r}:
    sys.exit("qsub: Job exceeds queue resource limits")
print(name[1:] + ".pbs")
"""


def seconds(*times):
    return [round(time * US) for time in times]


def workload(batch=(), leases=()):
    """Rows (number, submit_s, run_s, nodes)."""
    rows = [*batch, *leases]
    return JobTable.build(
        number=[row[0] for row in rows],
        submit_us=seconds(*(row[1] for row in rows)),
        run_us=seconds(*(row[2] for row in rows)),
        nodes=[row[3] for row in rows],
        kind=[Kind.BATCH] * len(batch) + [Kind.ON_DEMAND] * len(leases),
    )


class Fleet:
    """A clock, a manager, a fake qsub, and a replayer in this process."""

    def __init__(self, folder: Path, source):
        self.folder = folder
        self.clock_file = folder / "clock"
        self.master = SharedClockMaster(self.clock_file, speed=5000)
        self.source = source
        self.refused: tuple[str, ...] = ()

    def write_qsub(self):
        qsub = self.folder / "qsub"
        qsub.write_text(
            FAKE_QSUB.format(
                python=sys.executable,
                clock=str(self.clock_file),
                calls=str(self.folder / "calls"),
                down=str(self.folder / "down"),
                refused=self.refused,
            )
        )
        qsub.chmod(qsub.stat().st_mode | stat.S_IXUSR)
        return (str(qsub),)

    def calls(self):
        return [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]

    def replay(self, table, **options):
        """Run to the end; what the log says."""
        clock = SharedClock(self.clock_file)
        source = self.source(clock) if callable(self.source) else self.source
        manager_clock = SharedClock(self.clock_file)
        # The next server of the same lease is deleted at once, but this machine may be slow to say so.
        config = OndemandConfig(pool=(), release_linger_s=60)
        with OndemandServer(config, source=source, clock=manager_clock) as manager:
            replayer, log = self.replayer(table, manager.auth_url, clock, **options)
            with self.master:
                replayer.run()
        return read_replay(log)

    def replayer(self, table, auth_url, clock=None, **options):
        """A replayer, and where its log will be."""
        config = ReplayerConfig(
            workload=self.folder / "workload.npz",
            result=self.folder / "replay.jsonl",
            qsub=self.write_qsub(),
            cloud=CloudSettings(auth_url=auth_url),
            **options,
        )
        log = ReplayLog(config.result, resume=config.resume)
        return Replayer(config, table, clock or SharedClock(self.clock_file), log), config.result


@pytest.fixture
def fleet(tmp_path):
    return Fleet(tmp_path, FixedPool(["n1", "n2", "n3", "n4"]))


def test_jobs_and_leases_happen_at_their_exact_times(fleet):
    table = workload(
        batch=[(1, 0, 30.5, 2), (2, 100.000001, 7, 1), (3, 3600, 5, 1)],
        leases=[(11, 100.000001, 600, 3), (12, 500, 50, 2), (13, 700.000001, 1000.25, 4)],
    )
    result = fleet.replay(table)
    assert result.interrupted == ""
    assert result.job_ids == {1: "1.pbs", 2: "2.pbs", 3: "3.pbs"}
    no_host = "No valid host was found. There are not enough hosts available."
    assert result.leases == {
        11: LeaseResult(11, granted=True, decided_us=100_000_001, ended_us=700_000_001),
        12: LeaseResult(12, granted=False, decided_us=500_000_000, reason=no_host),
        # 11 gives its nodes back at the moment at which 13 comes: completion goes before arrival.
        13: LeaseResult(13, granted=True, decided_us=700_000_001, ended_us=1_700_250_001),
    }
    assert fleet.calls() == [
        [0, ["-N", "j1", "-l", "nodes=2,walltime=00:00:31", *QUEUED], "#!/bin/sh\nexec sleep 30.5\n"],
        [100_000_001, ["-N", "j2", "-l", "nodes=1,walltime=00:00:07", *QUEUED], "#!/bin/sh\nexec sleep 7\n"],
        [
            3_600_000_000,
            ["-N", "j3", "-l", "nodes=1,walltime=00:00:05", *QUEUED],
            "#!/bin/sh\nexec sleep 5\n",
        ],
    ]
    assert result.submitted_us == {1: 0, 2: 100_000_001, 3: 3_600_000_000}


class SlowPool:
    """Lets requests wait: decides the n-th one `delays_s[n]` after it was made (None: refuses it then)."""

    def __init__(self, clock, verdicts):
        self.clock = clock
        self.verdicts = list(verdicts)
        self.requests = {}
        self.released = []

    def request(self, count, key, exclude=()):
        after_s, is_granted = self.verdicts[len(self.requests)]
        self.requests[key] = (count, self.clock.now_us() + round(after_s * US), is_granted)
        return Waiting(key)

    def poll(self, request_id, wait_s):
        count, decided_us, is_granted = self.requests[request_id]
        if self.clock.now_us() < decided_us:
            return Waiting(request_id)
        if not is_granted:
            return Refused("not obtainable")
        return Granted(tuple(f"n{number}" for number in range(count)), decided_us)

    def withdraw(self, request_id):
        raise AssertionError("nobody withdraws here")

    def release(self, nodes, key):
        self.released.append((self.clock.now_us(), nodes))


def test_a_lease_that_waited_ends_its_run_time_after_it_was_granted(tmp_path):
    pools = []

    def source(clock):
        pools.append(SlowPool(clock, [(299.5, True), (600, False), (40.25, True)]))
        return pools[0]

    result = Fleet(tmp_path, source).replay(
        workload(leases=[(1, 10, 100, 2), (2, 20, 100, 1), (3, 1000, 2000, 1)]), wait_s=600
    )
    assert result.leases == {
        1: LeaseResult(1, granted=True, decided_us=309_500_000, ended_us=409_500_000),
        2: LeaseResult(
            2,
            granted=False,
            decided_us=620_000_000,
            reason="No valid host was found. There are not enough hosts available.",
        ),
        3: LeaseResult(3, granted=True, decided_us=1_040_250_000, ended_us=3_040_250_000),
    }
    # Every lease comes back whole, at its end.
    assert pools[0].released == [(409_500_000, ("n0", "n1")), (3_040_250_000, ("n0",))]


def test_a_batch_server_that_is_down_is_asked_again(fleet):
    (fleet.folder / "down").touch()
    result = fleet.replay(workload(batch=[(1, 5, 1, 1), (2, 100, 1, 1)]))
    assert result.submitted_us == {1: 6_000_000, 2: 100_000_000}
    assert result.counted["qsub_errors"] == 1


def test_a_job_that_is_refused_is_given_up_and_the_rest_goes_on(fleet):
    fleet.refused = ("j1",)
    result = fleet.replay(workload(batch=[(1, 0, 1, 1), (2, 100, 1, 1)]))
    assert result.failed == {1: "qsub: Job exceeds queue resource limits"}
    assert result.job_ids == {2: "2.pbs"}


def test_leases_are_rejected_when_the_cloud_stays_away_and_batch_goes_on(fleet):
    table = workload(batch=[(1, 50, 1, 1)], leases=[(11, 10, 5, 1), (12, 60, 5, 1)])
    replayer, log = fleet.replayer(table, "http://127.0.0.1:9/identity/v3", give_up_s=100)
    with fleet.master:
        replayer.run()
    result = read_replay(log)
    # Asked after 1, 3, 7, 15, 31 and 63 s; the next time would be after 123 s.
    assert {
        number: (lease.reason.split(":")[0], lease.decided_us) for number, lease in result.leases.items()
    } == {11: ("unreachable", 73_000_000), 12: ("unreachable", 123_000_000)}
    assert result.submitted_us == {1: 50_000_000}


def test_a_lease_is_asked_for_again_until_the_cloud_is_back(fleet):
    table = workload(leases=[(11, 10, 5, 1)])
    kept, port = refusing_port()
    replayer, log = fleet.replayer(table, f"http://127.0.0.1:{port}/identity/v3")
    clock = SharedClock(fleet.clock_file)
    repaired = clock.alarm()
    repaired.set(30 * US)
    with kept, fleet.master, OnThread(replayer.run):
        assert repaired.wait(60)
        with OndemandServer(OndemandConfig(pool=(), port=port), source=fleet.source, clock=clock):
            repaired.close()
            until(log.exists)
    # Asked for at 10, 11, 13, 17, 25 and 41 s.
    assert read_replay(log).leases == {
        11: LeaseResult(11, granted=True, decided_us=41 * US, ended_us=46 * US)
    }
    assert read_replay(log).counted["cloud_errors"] == 5


def test_a_replayer_that_goes_on_looks_no_more_often_than_the_first_one(tmp_path):
    """Each look holds the clock: one a second for as long as a lease waits would set the pace of everything."""
    pools = []

    def source(clock):
        pools.append(CountingPool(clock, [(299.5, True)]))
        return pools[0]

    fleet = Fleet(tmp_path, source)
    log = ReplayLog(tmp_path / "replay.jsonl")
    log.write("submitted", 0, 1, job_id="1.pbs", tries=1)
    log.finish(0, "killed")
    table = workload(batch=[(1, 0, 1, 1)], leases=[(11, 10, 100, 1)])
    result = fleet.replay(table, wait_s=300, resume=True)
    assert result.leases == {11: LeaseResult(11, granted=True, decided_us=309_500_000, ended_us=409_500_000)}
    assert pools[0].polls <= 5


class CountingPool(SlowPool):
    """Knows how often it was asked what became of a request."""

    polls = 0

    def poll(self, request_id, wait_s):
        self.polls += 1
        return super().poll(request_id, wait_s)


class OnThread:
    """Runs something beside the block, and waits for it."""

    def __init__(self, work):
        self.thread = Thread(target=work)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.thread.join(60)
        assert not self.thread.is_alive()


def refusing_port():
    """A port that nobody gets by chance and on which nobody answers, until a server of ours listens there too."""
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(("127.0.0.1", 0))
    return kept, kept.getsockname()[1]


class FakeBalancer:
    """Takes hints, and notes when they came and what they were."""

    def __init__(self, clock):
        self.clock = clock
        self.hints = []
        self.server = make_server("127.0.0.1", 0, self.answer, threaded=True)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    @Request.application
    def answer(self, request):
        hint = json.loads(request.get_data())
        self.hints.append((self.clock.now_us(), request.path, hint))
        if hint["nodes"] > 3:
            return Response('{"code": "balancer.bad_count"}', status=400)
        return Response("{}")


def test_leases_are_announced_to_the_balancer_ahead_of_their_arrival(fleet):
    balancer = FakeBalancer(fleet.master)
    thread = Thread(target=balancer.server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    table = workload(leases=[(1, 100, 10, 2), (2, 5000, 10, 1), (3, 6000, 10, 4)])
    result = fleet.replay(table, notice_s=1800, balancer_url=balancer.url)
    balancer.server.shutdown()
    thread.join()
    balancer.server.server_close()
    assert balancer.hints == [
        (0, "/v1/add_reserve", {"nodes": 2, "notice_s": 100.0}),
        (3_200_000_000, "/v1/add_reserve", {"nodes": 1, "notice_s": 1800.0}),
        (4_200_000_000, "/v1/add_reserve", {"nodes": 4, "notice_s": 1800.0}),
    ]
    assert result.noticed_us == {1: 0, 2: 3_200_000_000}
    assert result.counted["notice_failed"] == 1
    assert [lease.granted for lease in result.leases.values()] == [True, True, True]


def write_config(folder, **settings):
    save(settings.pop("table"), folder / "workload.npz")
    config = {"workload": str(folder / "workload.npz"), "result": str(folder / "replay.jsonl")} | settings
    path = folder / "replayer.yaml"
    path.write_text(json.dumps(config))
    return path


def start(path):
    command = [sys.executable, "-m", "emulator.live.replayer", "--config", str(path)]
    root = Path(__file__).parents[3]
    return subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, cwd=root, env=os.environ | {"PYTHONPATH": str(root)}
    )


@pytest.mark.slow
def test_the_process_ends_cleanly_on_sigterm_with_what_it_has(fleet):
    table = workload(batch=[(1, 0, 1, 1), (2, 1e9, 1, 1)])
    path = write_config(fleet.folder, table=table, qsub=fleet.write_qsub(), clock=str(fleet.clock_file))
    with fleet.master, start(path) as process:
        partial = partial_path(fleet.folder / "replay.jsonl")
        until(lambda: partial.exists() and "submitted" in partial.read_text())
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0
    result = read_replay(fleet.folder / "replay.jsonl")
    assert (result.job_ids, result.interrupted) == ({1: "1.pbs"}, "1 events were still to come")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"speed": 3}, "speed: there is no such key"),
        ({"wait_s": -1}, "wait_s: must be at least 0"),
        ({"notice_s": 60}, "balancer_url is needed"),
    ],
)
def test_bad_settings_are_named_and_end_the_process_with_status_2(tmp_path, settings, said):
    path = write_config(tmp_path, table=workload(batch=[(1, 0, 1, 1)]), **settings)
    ended = CliRunner().invoke(main, ["--config", str(path)])
    assert ended.exit_code == 2
    assert said in ended.stderr
    assert not (tmp_path / "replay.jsonl").exists()


def test_leases_without_a_cloud_are_an_error(tmp_path):
    path = write_config(tmp_path, table=workload(leases=[(1, 0, 1, 1)]))
    ended = CliRunner().invoke(main, ["--config", str(path)])
    assert (ended.exit_code, "cloud is needed" in ended.stderr) == (2, True)
