"""The rules of other simulators by name (`like`), and the two options that only they have."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from balancer.clock import US
from emulator.cluster.cluster import Cluster
from emulator.cluster.selection import Selection
from emulator.mechanisms.hybrid import HybridMechanism
from emulator.mechanisms.realtime import Realtime
from emulator.runs.scenario import from_mapping
from emulator.schedulers.config import SchedulerConfig
from emulator.schedulers.like import PEERS
from emulator.schedulers.orders import static_keys
from emulator.simulation.run import simulate
from emulator.validation.laws import assert_lawful
from gates import GATE
from oracle.logs import read_accasims_starts, read_known_input, read_known_schedule
from oracle.reference import Job, Options, reference_schedule
from oracle.workloads import job_table, random_workload

if TYPE_CHECKING:
    from emulator.kernel import tables as t
    from emulator.workload.table import JobTable

THE_SHADOW_IS_AT_10 = [Job(1, 0, 10 * US, 10 * US, 2), Job(2, 1 * US, 5 * US, 5 * US, 4)]
"""On four nodes: job 2 wants all of them and job 1 has two."""


def starts_s(jobs: list[Job], nodes: int = 4, **options: Any) -> dict[int, float]:
    record = simulate(job_table(jobs), nodes, SchedulerConfig(**options))
    assert_lawful(record, jobs_in=len(jobs))
    return dict(zip(record.jobs.number.tolist(), (record.start_us / US).tolist(), strict=True))


def starts_of(text: str, jobs: JobTable, nodes: int) -> dict[int, int]:
    record = simulate(jobs, nodes, SchedulerConfig.parse(text))
    return dict(zip(record.jobs.number.tolist(), record.start_us.tolist(), strict=True))


def test_like_stands_for_the_options_in_which_the_program_differs():
    for name, peer in PEERS.items():
        options = {"pass_" if key == "pass" else key: value for key, value in peer.options.items()}
        expected = SchedulerConfig(**options)
        assert SchedulerConfig.from_mapping({"easy": {"like": name}}) == expected
        assert SchedulerConfig.from_mapping({"like": name}) == expected
        assert SchedulerConfig.parse(f"like:{name}") == expected


def test_jobs_beyond_their_estimate_run_on_where_they_do_in_the_program():
    for name, peer in PEERS.items():
        for scheduler in ({"like": name}, {"easy": {"like": name, "order": "sjf"}}, f"like:{name}"):
            asked = {"workload": {"trace": "log.swf"}, "scheduler": scheduler}
            assert from_mapping(asked).workload.overrun == peer.overrun
            asked["workload"] = {"trace": "log.swf", "overrun": "kill"}
            assert from_mapping(asked).workload.overrun == "kill"
    assert {name for name, peer in PEERS.items() if peer.overrun == "run_on"} == {"accasim", "rlscheduler"}
    assert from_mapping({"workload": {"trace": "log.swf"}}).workload.overrun == "extend"


def test_what_is_said_beside_like_goes_before_it():
    made = SchedulerConfig.from_mapping({"like": "cqsim", "order": "sjf", "estimates": "user"})
    assert made == SchedulerConfig(order="sjf", pass_="event", ends_in_order_of="start")


def test_who_ends_when_expected_gives_its_nodes_back_before_the_first_pass():
    """At 10 jobs 1 and 2 end, 2 as expected: job 5 fits at the first pass, unless job 2's nodes let 3 and 4 go."""
    sizes = ((1, 0, 10, 20, 1), (2, 0, 10, 10, 3), (3, 1, 5, 5, 2), (4, 2, 5, 5, 2), (5, 3, 5, 5, 1))
    jobs = [
        Job(number, submit * US, run * US, asked * US, nodes) for number, submit, run, asked, nodes in sizes
    ]
    assert starts_s(jobs, pass_="event") == {1: 0, 2: 0, 3: 10, 4: 15, 5: 10}
    assert starts_s(jobs, pass_="event", exact_ends_first=True) == {1: 0, 2: 0, 3: 10, 4: 10, 5: 15}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"submits_first": True}, "submits_first: goes with `pass: event`"),
        ({"ends_in_order_of": "start"}, "ends_in_order_of: goes with `pass: event`"),
        ({"pass": "event", "ends_in_order_of": "starts"}, "ends_in_order_of 'starts'; did you mean 'start'?"),
        ({"like": "batsin"}, "unknown scheduler like 'batsin'; did you mean 'batsim'"),
        ({"conservative": {"like": "pyss"}}, "the backfilling can only be easy"),
        ({"easy": {"backfill": "none"}}, "the backfilling is said already"),
        (
            {"backfill": {"easy": {"choice": "best_fit"}}},
            "the options of easy stand beside it: {backfill: easy, choice: best_fit}",
        ),
        (
            {"pass": "event", "ends_in_order_of": "expected_end"},
            "ends_in_order_of: expected_end goes with `reservation: kept`",
        ),
        ({"exact_ends_first": True}, "goes with `pass: event`"),
        ({"backfill": "conservative", "commit": True}, "commit: goes with `backfill: none` and `easy`"),
        ({"head_waits": True}, "goes with `reservation: kept`, `pass: instant`, no cycle_s"),
        ({"start_delay_s": -1}, "start_delay_s"),
        (
            {"start_delay_s": 1, "pass": "event"},
            "scheduler start_delay_s: goes with `backfill: none` and `easy`",
        ),
        (
            {"start_delay_s": 1, "reservation": "kept"},
            "`reservation: refreshed`, `pass: instant`, no cycle_s",
        ),
        (
            {"start_delay_s": 1, "backfill": "conservative"},
            "start_delay_s: goes with `backfill: none` and `easy`",
        ),
        ({"head_waits": True, "reservation": "kept", "pass": "event"}, "goes with `reservation: kept`"),
    ],
)
def test_what_does_not_go_together_is_an_error(options: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=re.escape(words)):
        SchedulerConfig.from_mapping(options)


def test_accasims_rules_meet_its_own_schedule_start_by_start():
    assert starts_of("like:accasim", read_known_input(5_000), 128) == read_accasims_starts()
    assert starts_of("fcfs+easy", read_known_input(5_000), 128) != read_accasims_starts()


def seconds(*jobs: tuple[int, int, int, int]) -> list[Job]:
    """Jobs of (submit, run, estimate, nodes) in seconds, numbered from 1."""
    return [
        Job(number, submit * US, run * US, asked * US, nodes)
        for number, (submit, run, asked, nodes) in enumerate(jobs, 1)
    ]


def test_a_submit_comes_before_an_end_of_its_time_where_submits_are_first():
    """At 3 job 1 ends early and job 3 is submitted, which may start ahead of job 2 while that waits for job 1."""
    jobs = seconds((1, 2, 5, 1), (2, 3, 3, 4), (3, 1, 1, 1))
    rules: dict[str, Any] = {"pass_": "event", "exact_ends_first": True}
    assert starts_s(jobs, **rules) == {1: 1, 2: 3, 3: 6}
    assert starts_s(jobs, **rules, submits_first=True) == {1: 1, 2: 4, 3: 3}
    assert starts_of("like:pyss", job_table(jobs), 4) == {1: 1 * US, 2: 4 * US, 3: 3 * US}


def test_ends_of_one_time_go_in_order_of_the_starts():
    """At 9 jobs 2 (started at 6) and 5 (at 5) end early; while job 5 is there, job 4 starts ahead of job 3."""
    jobs = seconds((2, 4, 6, 2), (4, 3, 5, 4), (4, 5, 9, 5), (4, 1, 3, 4), (5, 4, 8, 1))
    assert starts_s(jobs, 5, pass_="event") == {1: 2, 2: 6, 3: 10, 4: 9, 5: 5}
    assert starts_s(jobs, 5, pass_="event", ends_in_order_of="start") == {1: 2, 2: 6, 3: 9, 4: 14, 5: 5}


def test_a_submit_that_does_not_fit_may_have_no_pass():
    """Job 3 is ahead of job 2 as soon as both have waited; at 5 job 4 comes, for whom there is no room."""
    jobs = seconds((0, 100, 100, 3), (0, 10, 10, 2), (0, 1, 1, 1), (5, 1, 1, 4))
    options: dict[str, Any] = {"pass_": "event", "order": "wfp3", "backfill": "none"}
    assert starts_s(jobs, **options) == {1: 0, 2: 101, 3: 5, 4: 100}
    assert starts_s(jobs, **options, submit_pass="if_it_fits") == {1: 0, 2: 101, 3: 101, 4: 100}
    with pytest.raises(ValueError, match="submit_pass: goes with `pass: event`"):
        SchedulerConfig(submit_pass="if_it_fits")


MADE_BY_PYSS = [
    (4, ((1, 2, 5, 1), (2, 3, 3, 4), (3, 1, 1, 1)), (1, 4, 3)),
    (6, ((2, 3, 11, 4), (2, 7, 8, 6), (5, 4, 7, 3), (5, 3, 3, 1), (7, 2, 10, 4), (7, 3, 11, 3)), (2, 8, 15, 5, 19, 21)),
    (3, ((1, 2, 3, 3), (3, 7, 15, 1), (3, 5, 8, 2), (4, 6, 6, 1), (7, 6, 6, 2), (10, 3, 3, 1)), (1, 3, 3, 8, 13, 10)),
]  # fmt: skip
"""Nodes, jobs of (submit, run, estimate, nodes), and starts by pyss's EasyBackfillScheduler itself (Python 2.7)."""


@pytest.mark.parametrize(("nodes", "jobs", "starts"), MADE_BY_PYSS)
def test_pyss_itself_starts_these_jobs_then(
    nodes: int, jobs: tuple[tuple[int, int, int, int], ...], starts: tuple[int, ...]
):
    ours = starts_of("like:pyss", job_table(seconds(*jobs)), nodes)
    assert ours == {number: start * US for number, start in enumerate(starts, 1)}


def test_cqsim_itself_starts_these_jobs_then():
    """By `cqsim.py -b 1`; ends of one time in order of submit would start job 3 at 14."""
    jobs = (
        (2, 6, 6, 2), (2, 6, 12, 2), (5, 3, 3, 3), (6, 4, 4, 3), (7, 7, 10, 2),
        (7, 7, 7, 1), (8, 3, 4, 3), (8, 6, 6, 2), (9, 9, 9, 1), (9, 3, 5, 1),
    )  # fmt: skip
    starts = (2, 8, 17, 20, 24, 7, 33, 36, 24, 14)
    assert starts_of("like:cqsim", job_table(seconds(*jobs)), 3) == {
        number: start * US for number, start in enumerate(starts, 1)
    }


MADE_BY_ALEA = [
    (((1, 2, 5, 1), (2, 3, 3, 4), (3, 1, 1, 1)), (1.0008, 4.0016, 3.0008)),
    (
        (
            (2, 7, 7, 1), (3, 6, 14, 2), (5, 8, 10, 3), (7, 5, 8, 1),
            (8, 7, 7, 1), (10, 8, 8, 1), (10, 8, 8, 4), (13, 7, 7, 1),
        ),
        (2.0008, 3.0008, 9.0016, 7.0008, 12.0016, 17.0024, 25.0032, 17.0032),
    ),
]  # fmt: skip
"""Jobs, and starts by its EASY with `estimate=true`, on four processors.

At 3 job 1 ends early, after job 3 is submitted; at 9.0008 jobs 1 and 2 end, and one pass sees the nodes of both.
"""


@pytest.mark.parametrize(("jobs", "starts"), MADE_BY_ALEA)
def test_alea_itself_starts_these_jobs_then(
    jobs: tuple[tuple[int, int, int, int], ...], starts: tuple[float, ...]
):
    ours = starts_of("like:alea", job_table(seconds(*jobs)), 4)
    assert ours == {number: round(start * US) for number, start in enumerate(starts, 1)}


def test_a_start_takes_its_time_before_which_nobody_else_is_picked():
    """Job 1 is on its way until 2, then job 2 until 4; both have ended at 9, and job 3 is on its way until 11."""
    jobs = seconds((0, 7, 7, 2), (0, 5, 5, 2), (1, 1, 1, 3))
    assert starts_s(jobs) == {1: 0, 2: 0, 3: 7}
    assert starts_s(jobs, start_delay_s=2) == {1: 2, 2: 4, 3: 11}


def test_who_was_picked_starts_whoever_comes_while_the_start_is_under_way():
    """The shortest first: job 2 comes while job 1 is on its way, and has to wait for its nodes."""
    jobs = seconds((0, 7, 7, 4), (1, 5, 5, 4))
    assert starts_s(jobs, order="sjf", start_delay_s=2) == {1: 2, 2: 11}


def test_a_start_that_is_called_off_under_way_makes_place_for_the_next():
    jobs = job_table(seconds((0, 7, 7, 4), (0, 5, 5, 4)))
    cluster = Cluster(4, SchedulerConfig(start_delay_s=2), jobs)
    cluster.advance(1 * US)
    cluster.cancel(0, 1 * US)
    cluster.finish_instant(1 * US)
    cluster.advance(20 * US)
    assert cluster.kernel_table["start_us"][:2].tolist() == [-1, 4 * US]


TRACED_IN_RLSCHEDULER = [
    ("fcfs", 4, ((0, 4, 10, 2), (0, 4, 6, 1), (1, 1, 1, 4), (2, 2, 2, 3), (2, 2, 2, 2)), (0, 0, 6, 7, 4)),
    ("sjf", 3, ((1, 4, 4, 2), (2, 20, 20, 2), (3, 9, 9, 1), (3, 8, 8, 1), (4, 1, 1, 3)), (1, 5, 13, 5, 25)),
    ("f1", 2, ((0, 4, 4, 2), (0, 1, 1, 2), (0, 9, 9, 2), (1, 2, 2, 1)), (0, 4, 5, 14)),
]
"""Order, nodes, jobs, and starts traced by hand through RLScheduler's schedule_curr_sequence_reset.

At 4 jobs 1 and 2 end, job 2 first, for it was expected to; at 5 jobs 3 and 4 both wait when job 5 becomes the head, so
that the shorter one comes first; a submit at 0 s comes before one at 1 s.
"""


@pytest.mark.parametrize(("order", "nodes", "jobs", "starts"), TRACED_IN_RLSCHEDULER)
def test_by_rlschedulers_source_these_jobs_start_then(
    order: str, nodes: int, jobs: tuple[tuple[int, int, int, int], ...], starts: tuple[int, ...]
):
    config = SchedulerConfig.from_mapping({"like": "rlscheduler", "order": order})
    record = simulate(job_table(seconds(*jobs)), nodes, config)
    assert (record.start_us // US).tolist() == list(starts)


@pytest.mark.parametrize("program", ["pyss", "batsim"])
def test_the_known_schedule_is_that_of_pyss_and_of_what_was_made_of_it(program: str):
    known = {number: start for number, (start, _) in read_known_schedule(5_000).items()}
    assert starts_of(f"like:{program}", read_known_input(5_000), 128) == known


def test_a_head_that_waits_does_not_start_before_its_reservation():
    ends_early = [replace_run(THE_SHADOW_IS_AT_10[0], 4), THE_SHADOW_IS_AT_10[1], Job(3, 2 * US, US, US, 1)]
    assert starts_s(ends_early, reservation="kept") == {1: 0, 2: 4, 3: 2}
    assert starts_s(ends_early, reservation="kept", head_waits=True) == {1: 0, 2: 10, 3: 2}


def test_a_head_that_waits_in_vain_is_tried_at_every_later_pass():
    """Nothing protects its reservation: job 3 has a node until 21, job 4 is submitted at 12."""
    jobs = [*THE_SHADOW_IS_AT_10, Job(3, 1 * US, 20 * US, 20 * US, 1), Job(4, 12 * US, US, US, 1)]
    options: dict[str, Any] = {"reservation": "kept", "protect_head": False, "head_waits": True}
    assert starts_s(jobs, **options) == {1: 0, 2: 21, 3: 1, 4: 12}


def test_a_committed_pick_stays_the_head_whatever_comes_after_it():
    """SJF picks job 2, which does not fit before 10; job 3 is shorter and comes at 2."""
    jobs = [
        Job(1, 0, 10 * US, 10 * US, 3), Job(2, 1 * US, 5 * US, 5 * US, 4), Job(3, 2 * US, 2 * US, 2 * US, 4),
    ]  # fmt: skip
    assert starts_s(jobs, order="sjf", backfill="none") == {1: 0, 2: 12, 3: 10}
    assert starts_s(jobs, order="sjf", backfill="none", commit=True) == {1: 0, 2: 10, 3: 15}


def test_who_would_end_at_the_shadow_may_have_to_end_before_it():
    to_the_second = [*THE_SHADOW_IS_AT_10, Job(3, 2 * US, 8 * US, 8 * US, 1)]
    one_shorter = [*THE_SHADOW_IS_AT_10, Job(3, 2 * US, 7 * US, 7 * US, 1)]
    assert starts_s(to_the_second) == {1: 0, 2: 10, 3: 2}
    assert starts_s(to_the_second, end_at_shadow=False) == {1: 0, 2: 10, 3: 15}
    assert starts_s(one_shorter, end_at_shadow=False) == {1: 0, 2: 10, 3: 2}


def test_machines_with_rules_of_their_own_and_live_servers_refuse_them():
    waits = SchedulerConfig.parse("like:accasim")
    jobs = job_table(THE_SHADOW_IS_AT_10)
    with pytest.raises(ValueError, match="head_waits: this is known in virtual time only"):
        Cluster(4, waits, simulated=False)
    with pytest.raises(ValueError, match="exact_ends_first: this is known in virtual time only"):
        Cluster(4, SchedulerConfig.parse("like:pyss"), simulated=False)
    with pytest.raises(ValueError, match="start_delay_s: this is known in virtual time only"):
        Cluster(4, SchedulerConfig.parse("like:alea"), simulated=False)
    with pytest.raises(ValueError, match="hybrid: jobs start when they are chosen; start_delay_s must be 0"):
        HybridMechanism().make_machine(4, SchedulerConfig(start_delay_s=1), jobs, 1)
    with pytest.raises(ValueError, match="leave the scheduler option submits_first out"):
        static_keys(jobs, SchedulerConfig(pass_="event", submits_first=True), "oversubscribe")
    with pytest.raises(ValueError, match="leave the scheduler option commit out"):
        HybridMechanism().make_machine(4, SchedulerConfig(commit=True), jobs, 1)
    with pytest.raises(ValueError, match="commit: jobs are picked for good where whole nodes"):
        Cluster(4, SchedulerConfig(commit=True), jobs, selection=EvenNodes())
    with pytest.raises(ValueError, match="head_waits can only be false"):
        HybridMechanism().make_machine(4, waits, jobs, 1)
    with pytest.raises(ValueError, match="end_at_shadow can only be True"):
        Realtime().make_machine(4, SchedulerConfig(end_at_shadow=False), jobs, 1)


class EvenNodes(Selection):
    """Of a pass of its own, which knows no committed heads."""

    def start_jobs(self, state: t.State, now_us: int) -> None:
        pass


def assert_peers_are_the_reference(program: str, *, workloads: int, seed: int) -> None:
    rng = np.random.default_rng([seed, *program.encode()])
    config = SchedulerConfig.parse(f"like:{program}")
    options = Options(**{name: getattr(config, name) for name in Options.__dataclass_fields__})
    for _ in range(workloads):
        jobs, nodes = random_workload(rng)
        ours = starts_of(f"like:{program}", job_table(jobs), nodes)
        expected = reference_schedule(jobs, nodes, options=options)
        assert ours == {number: start for number, (start, _) in expected.items()}, (jobs, nodes)


@pytest.mark.parametrize("program", sorted(PEERS))
def test_every_job_starts_when_the_reference_with_these_rules_starts_it(program: str):
    assert_peers_are_the_reference(program, workloads=40, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("program", sorted(PEERS))
def test_hundreds_of_workloads_start_when_the_reference_starts_them(program: str):
    assert_peers_are_the_reference(program, workloads=GATE.reference_workloads, seed=2)


def replace_run(job: Job, run_s: int) -> Job:
    return job._replace(run_us=run_s * US)
