"""Orders that are asked at each pass: in Python as compiled, what they see, and what happens when they fail."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import emulator
from balancer.clock import NEVER_US, US
from emulator.cluster.cluster import Cluster
from emulator.cluster.order_callback import OrderHook
from emulator.mechanisms.hybrid import HybridMechanism
from emulator.mechanisms.realtime import Realtime
from emulator.plugins.failure import PluginError
from emulator.schedulers.config import SchedulerConfig
from emulator.schedulers.dynamic import VIEW, WAITING
from emulator.simulation.loop import Loop
from emulator.simulation.run import simulate
from emulator.validation.laws import assert_lawful
from emulator.workload.table import JobTable
from oracle.workloads import job_table, random_workload

_PLUGINS = """
from dataclasses import dataclass, field

import numpy as np

from emulator.schedulers.dynamic import FairShare

seen = []


@dataclass(frozen=True, slots=True)
class SlowWfp3:
    exponent: float = 3.0

    def priority(self, now_us, queue):
        return (queue.wait_us / queue.estimate_us) ** self.exponent * queue.nodes


@dataclass(frozen=True, slots=True)
class SlowShare:
    half_life_s: float = 100.0

    def fair_share(self):
        return FairShare(self.half_life_s * 1e6, "group", {1: 3.0})

    def priority(self, now_us, queue):
        seen.append((now_us, queue.copy()))
        return 2.0 ** -(queue.usage / queue.share)


@dataclass(frozen=True, slots=True)
class Share:
    half_life_s: float = 100.0

    def fair_share(self):
        return FairShare(self.half_life_s * 1e6, "group", {1: 3.0})

    def score(self, job):
        return 2.0 ** -(job.usage / job.share)


@dataclass(frozen=True, slots=True)
class ByRow:
    '''The last row first; fixed.'''

    def fixed(self, jobs, node_count):
        return np.asarray(jobs.number, float)

    def score(self, job):
        return job.fixed


@dataclass(frozen=True, slots=True)
class Fails:
    at_s: float
    how: str = "raise"

    def priority(self, now_us, queue):
        if now_us >= self.at_s * 1e6:
            if self.how == "raise":
                raise KeyError("lost")
            if self.how == "write":
                queue.wait_us[0] = 7
            if self.how == "short":
                return np.zeros(0)
            return np.full(len(queue), np.nan)
        return np.zeros(len(queue))


@dataclass(frozen=True, slots=True)
class FailsCompiled:
    at_s: float

    def score(self, job):
        return np.nan if job.submit_us + job.wait_us >= self.at_s * 1e6 else 0.0
"""


_NAN = "the priority NaN, which has no place in an order"


@pytest.fixture(autouse=True)
def plugins(tmp_path, monkeypatch):
    """An installed package with orders."""
    (tmp_path / "own_orders.py").write_text(_PLUGINS)
    info = tmp_path / "own_orders-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: own-orders\nVersion: 1.0\n")
    names = ("SlowWfp3", "SlowShare", "Share", "ByRow", "Fails", "FailsCompiled")
    lines = [f"{name.lower()} = own_orders:{name}" for name in names]
    (info / "entry_points.txt").write_text("\n".join(["[emulator.queue_orders]", *lines]))
    monkeypatch.syspath_prepend(tmp_path)


def starts_of(jobs, nodes, order, backfill="easy", **options):
    config = SchedulerConfig(order=order, backfill=backfill, **options)
    record = simulate(jobs, nodes, config)
    assert_lawful(record, jobs_in=len(jobs))
    return record.start_us.tolist()


@pytest.mark.sample(2)
@pytest.mark.parametrize("backfill", ["none", "easy", "conservative"])
@pytest.mark.parametrize(("slow", "fast"), [("slowwfp3", "wfp3"), ("slowshare", "share")])
def test_an_order_in_python_makes_the_schedule_of_the_compiled_one(slow, fast, backfill):
    rng = np.random.default_rng(7)
    overtaken = 0
    for round_ in range(30):
        work, nodes = random_workload(rng)
        jobs = job_table(work)
        options = {
            "reservation": "kept" if round_ % 2 else "refreshed",
            "pass_": "event" if round_ % 3 else "instant",
        }
        wanted = starts_of(jobs, nodes, fast, backfill, **options)
        assert starts_of(jobs, nodes, slow, backfill, **options) == wanted
        overtaken += wanted != starts_of(jobs, nodes, "fcfs", backfill, **options)
    assert overtaken > 10


def four_jobs(**columns):
    return JobTable.build(
        submit_us=[0, 10 * US, 20 * US, 30 * US],
        run_us=[100 * US, 50 * US, 50 * US, 50 * US],
        estimate_us=[200 * US, 60 * US, 70 * US, 80 * US],
        nodes=[2, 2, 1, 2],
        number=[11, 12, 13, 14],
        **columns,
    )


def test_what_an_order_sees():
    from own_orders import seen  # noqa: PLC0415 - written by the fixture

    seen.clear()
    starts_of(four_jobs(queue=[0, 1, 2, 3], user=[4, 5, 6, 7], group=[1, 1, 2, 2]), 2, "slowshare", "none")
    now_us, queue = seen[1]  # the passes with nodes idle: 0 s, 100 s
    assert now_us == 100 * US
    rows = queue.tolist()
    shares = {1: 0.75, 2: 0.25}
    assert rows == [
        (1, 10 * US, 90 * US, 60 * US, 2, 1, 5, 1, 0, 1.0, shares[1], 0.0),
        (2, 20 * US, 80 * US, 70 * US, 1, 2, 6, 2, 1, 0.0, shares[2], 0.0),
        (3, 30 * US, 70 * US, 80 * US, 2, 3, 7, 2, 1, 0.0, shares[2], 0.0),
    ]
    # job 13 ran from 100 s on; of its one node and of the two of job 11 each second halves in 100 s
    (later,) = (view for now, view in seen if now == 150 * US)
    first, second = 2 * (2**-0.5 - 2**-1.5), 1 - 2**-0.5
    assert later.usage.tolist() == pytest.approx([first / (first + second), second / (first + second)])


def test_the_compiled_loops_and_the_view_mean_the_same_columns():
    columns = (
        "row",
        "submit_us",
        "wait_us",
        "estimate_us",
        "nodes",
        "queue",
        "user",
        "group",
        "account",
        "usage",
    )
    assert WAITING.names == (*columns, "share", "fixed")
    assert VIEW.names == WAITING.names
    assert VIEW.itemsize == WAITING.itemsize


def test_the_order_of_the_docs_makes_one_schedule_in_both_forms():
    text = (Path(__file__).parents[3] / "docs" / "schedulers.md").read_text()
    plain = textwrap.dedent(text[text.index("    @dataclass(") : text.index("\nor compiled,")])
    score = textwrap.indent(
        textwrap.dedent(text[text.index("        def score(") : text.index("\nFields of a waiting")]), "    "
    )
    found: dict[str, Any] = {"dataclass": dataclass, "np": np}
    exec(plain, found)  # noqa: S102 - our own docs
    in_python = found["Patience"]
    exec(plain[: plain.index("    def ")] + score, found)  # noqa: S102
    overtaken = 0
    rng = np.random.default_rng(3)
    for _ in range(10):
        work, nodes = random_workload(rng)
        jobs, starts = job_table(work), []
        for order in (in_python(2.0), found["Patience"](2.0)):
            cluster = Cluster(nodes, SchedulerConfig(), jobs)
            cluster._hook = OrderHook("patience", order, nodes)
            cluster._hook.learn(jobs, 0)
            cluster._make_state()
            cluster.advance(NEVER_US)
            starts.append(cluster.start_us.tolist())
        assert starts[0] == starts[1]
        overtaken += starts[0] != starts_of(jobs, nodes, "fcfs")
    assert overtaken > 3


def test_fixed_parts_are_asked_for_once_and_jobs_may_come_later():
    live = Cluster(1, SchedulerConfig(order="byrow", backfill="none"), simulated=False)
    rows = [
        live.add(number=number, submit_us=0, estimate_us=US, nodes=1) for number in (*range(1, 200), 500, 300)
    ]
    for row in rows:
        live.submit(row, 0)
    started = []
    for _ in range(3):
        (row,) = live.schedule_pass(0)
        started.append(live.number(row))
        live.end(row, 0)
    assert started == [500, 300, 199]


def test_jobs_of_many_users_may_come_one_by_one():
    """The same places in the queue as where all users are known from the beginning."""
    count = 400
    users = (200 * np.random.default_rng(5).random(count) ** 3).astype(int)
    assert len(set(users.tolist())) > 100
    columns = {"submit_us": [0] * count, "run_us": [US] * count, "nodes": [1] * count}
    jobs = JobTable.build(**columns, user=users)
    order = {"multifactor": {"half_life_s": 20, "shares": {user: 1 + user % 3 for user in range(200)}}}
    started = []
    for known in (True, False):
        cluster = Cluster(3, SchedulerConfig(order=order), jobs if known else None, simulated=False)
        found = []
        for at, row in enumerate(range(count)):
            if not known:
                cluster.add(number=row + 1, submit_us=at, estimate_us=US, nodes=1, user=int(jobs.user[row]))
            cluster.submit(row, at * US)
            if at % 3 == 0:
                found += cluster.schedule_pass(at * US).tolist()
            if at % 5 == 0:
                cluster.end(found[at // 5], at * US)
        started.append(found)
    assert started[0] == started[1]
    assert started[0] != sorted(started[0])


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ({"fails": {"at_s": 50}}, "KeyError: 'lost'"),
        ({"fails": {"at_s": 50, "how": "short"}}, "ValueError: it gave priorities of shape (0,) to 3 waiting jobs"),
        ({"fails": {"at_s": 50, "how": "nan"}}, f"ValueError: it gave the job in row 1 {_NAN}"),
        ({"fails": {"at_s": 50, "how": "write"}}, "ValueError: assignment destination is read-only"),
        ({"failscompiled": {"at_s": 50}}, f"ValueError: it gave the job in row 1 {_NAN}"),
    ],
)  # fmt: skip
def test_an_order_that_fails_ends_the_run_at_once_and_is_named(order, message):
    cluster = Cluster(2, SchedulerConfig(order=order, backfill="easy"), four_jobs())
    with pytest.raises(PluginError) as error:
        cluster.advance(NEVER_US)
    (name,) = order
    asked = "score" if name == "failscompiled" else "priority"
    assert str(error.value) == f"queue order {name} failed in {asked} at 100.000000 s: {message}"
    assert cluster.now_us == 100 * US


@pytest.mark.parametrize("by_steps", [False, True])
def test_an_order_that_fails_ends_a_compiled_run_of_a_mechanism_too(by_steps):
    mechanism, scheduler = HybridMechanism(), SchedulerConfig(order={"fails": {"at_s": 50}}, backfill="easy")
    loop = Loop(mechanism.make_machine(2, scheduler, four_jobs(), 1), mechanism)
    with pytest.raises(
        PluginError, match=r"queue order fails failed in priority at 100\.000000 s: KeyError: 'lost'"
    ):
        loop.run(by_steps=by_steps)
    assert loop.now_us == 100 * US


def test_a_job_that_is_put_before_all_others_stays_there():
    cluster = Cluster(
        1, SchedulerConfig(order="wfp3", backfill="none"), four_jobs().take(np.array([0, 2])), simulated=False
    )
    for row in range(2):
        cluster.submit(row, 0)
    cluster.take_offline([0], 0)
    cluster.bring_online([0], 0)
    cluster._job["nodes"][:] = 1
    assert cluster.schedule_pass(0).tolist() == [0]
    cluster.requeue(0, 90 * US, front=True)
    assert cluster.schedule_pass(100 * US).tolist() == [0], "the other one has the higher priority"


FIRST_OF_ALL = """
from emulator.cluster.cluster import Cluster
from emulator.schedulers.config import SchedulerConfig
from emulator.workload.table import JobTable

Cluster(1, SchedulerConfig(order="wfp3", backfill="none"), JobTable.empty())
"""


def test_no_machine_code_is_kept_beside_its_source_where_it_would_outlive_a_change_of_what_it_calls():
    """An order that was compiled before any loop was once kept so: it went on with the tables of an older version."""
    subprocess.run([sys.executable, "-c", FIRST_OF_ALL], check=True)
    package = Path(emulator.__file__).parent
    assert [str(path) for path in package.rglob("*.nbi")] == [], "delete these"


def test_a_machine_that_sorts_its_queue_once_says_so():
    with pytest.raises(
        ValueError, match="realtime: the queue order wfp3 is called at each pass, and this machine"
    ):
        Realtime().make_machine(4, SchedulerConfig(order="wfp3", backfill="none"), four_jobs(), 1)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("wfp4", "there is no queue order 'wfp4'; did you mean 'wfp3'?"),
        ({"fcfs": {"exponent": 3}}, "queue order fcfs has no parameter 'exponent'; it has none"),
        ({"wfp3": {"exponent": 0}}, "wfp3: exponent must be more than 0, not 0"),
        ({"wfp3": {"exponnt": 1}}, "queue order wfp3 has no parameter 'exponnt'; did you mean 'exponent'?"),
        ({"multifactor": {"half_life_s": -1}}, "multifactor: half_life_s must be more than 0, not -1"),
        ({"multifactor": {"shares": {"a": 1}}}, "multifactor: shares are given by number, not by 'a'"),
        ({"multifactor": {"shares": {3: 0}}}, "multifactor: shares of 3 must be more than 0, not 0.0"),
        ({"multifactor": {"account": "job"}}, "multifactor: account must be user or group, not 'job'"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_an_order_is_said(order, message):
    with pytest.raises(ValueError) as error:
        SchedulerConfig(order=order)
    assert str(error.value) == message


def test_numbers_that_went_through_json_are_numbers():
    assert SchedulerConfig(order={"multifactor": {"queues": {"3": 1.0}}}).make_order().queues == {3: 1.0}
