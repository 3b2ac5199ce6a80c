"""Episodes of picks are those of the plain reference, one by one and many at once, and what gymnasium expects."""

from __future__ import annotations

import importlib
import math
import re
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import SyncVectorEnv

import emulator
from balancer.clock import US
from emulator.kernel.picking import Decision
from emulator.rl import ENVIRONMENT, PickEnv, PickVectorEnv
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.picked_cluster import PickedCluster
from emulator.simulation.run import simulate
from emulator.validation.laws import assert_lawful
from emulator.workload.table import JobTable
from oracle.picked import Episode
from oracle.workloads import job_table, random_workload

LOG = Path(__file__).parents[3] / "traces" / "day-64.swf"
KINDS = {
    "next": {"decision": "next"},
    "next, easy": {"decision": "next", "backfill": "easy"},
    "fitting": {"decision": "fitting"},
}


def workload(seed, **options):
    """Jobs in order, their table, the machine's nodes, and chance to pick with."""
    rng = np.random.default_rng(seed)
    jobs, nodes = random_workload(rng, **options)
    return sorted(jobs, key=lambda job: (job.submit_us, job.number)), job_table(jobs), nodes, rng


def from_zero(jobs):
    return [job._replace(submit_us=job.submit_us - jobs[0].submit_us) for job in jobs]


def environment(table, nodes, **options):
    return PickEnv(table, nodes=nodes, **({"jobs": len(table), "window": 64} | options))


def starts(table, start_us):
    return dict(zip(table.number.tolist(), start_us.tolist(), strict=True))


def random_action(rng, mask):
    return int(rng.choice(np.flatnonzero(mask)))


def finish(env, choose=lambda _, mask: int(mask.argmax()), **reset):
    """Every step of an episode: (observation, reward, info)."""
    observation, info = env.reset(**reset)
    steps, is_over = [(observation, 0.0, info)], False
    while not is_over:
        observation, reward, is_over, _, info = env.step(choose(observation, env.action_masks()))
        steps.append((observation, reward, info))
    return steps


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(40))
def test_random_picks_give_the_schedule_of_the_reference(seed, kind):
    jobs, table, nodes, rng = workload(seed, estimates=None if seed % 3 else "shorter")
    options = KINDS[kind] | {"window": int(rng.integers(1, 12))}
    is_fitting = options["decision"] == "fitting"
    plain = Episode(
        from_zero(jobs),
        nodes,
        decision=options["decision"],
        easy=kind == "next, easy",
        window=options["window"],
    )
    env = environment(table, nodes, **options)
    _, info = env.reset()
    is_over = False
    while not is_over:
        allowed = plain.pickable() + [options["window"]] * (is_fitting and plain.next_time() is not None)
        assert np.flatnonzero(info["action_mask"]).tolist() == allowed
        action = int(rng.choice(allowed))
        if action == options["window"]:
            plain.wait()
        else:
            plain.pick(action)
        _, _, is_over, _, info = env.step(action)
    assert plain.is_over
    record = env.record()
    assert starts(record.jobs, record.start_us) == {job.number: at for job, at in plain.start.items()}
    assert_lawful(record, jobs_in=len(jobs))


@pytest.mark.parametrize("backfill", ["none", "easy"])
@pytest.mark.parametrize("seed", range(20))
def test_picking_whoever_came_first_is_the_scheduler_fcfs(seed, backfill):
    _, table, nodes, _ = workload(seed)
    picked = PickedCluster(nodes, table, backfill=backfill)
    while picked.go_on():
        picked.pick(0)
    record = simulate(table, nodes, SchedulerConfig(backfill=backfill))
    assert starts(table, picked.cluster.start_us) == starts(table, record.start_us)


@pytest.mark.parametrize("seed", range(20))
def test_picking_the_shortest_is_the_scheduler_sjf_that_commits_its_picks(seed):
    """Without backfill: behind a pick jobs go first come, first served, and behind sjf's head shortest first."""
    _, table, nodes, _ = workload(seed)
    picked = PickedCluster(nodes, table)
    while picked.go_on():
        waiting = picked.cluster.queue
        picked.pick(min(range(len(waiting)), key=lambda place: (table.estimate_us[waiting[place]], place)))
    record = simulate(table, nodes, SchedulerConfig(order="sjf", backfill="none", commit=True))
    assert starts(table, picked.cluster.start_us) == starts(table, record.start_us)


def test_the_waiting_jobs_are_there_as_the_log_has_them():
    _, table, nodes, rng = workload(3)
    env = environment(table, nodes, window=4)
    nodes_of = dict(zip(table.number.tolist(), table.nodes.tolist(), strict=True))
    seen, info = env.reset(seed=1)
    over = False
    while not over:
        waiting = env.waiting()
        assert len(waiting) == seen["jobs"][:, 0].sum() == info["action_mask"].sum()
        assert seen["jobs"][: len(waiting), 4] == pytest.approx(waiting.nodes / nodes)
        assert waiting.nodes.tolist() == [nodes_of[number] for number in waiting.number.tolist()]
        seen, _, over, _, info = env.step(random_action(rng, info["action_mask"]))


def features(plain, window):
    """What is observed, from the page's formulas: (jobs, cluster)."""

    def log_part(value, most):
        return min(math.log1p(value) / math.log1p(most), 1)

    seen = np.zeros((window, 7))
    for k, job in enumerate(plain.queue()[:window]):
        wait_s, estimate_s = (plain.now - job.submit_us) / US, job.estimate_us / US
        seen[k] = (
            1, wait_s / (wait_s + 3600), wait_s / (wait_s + estimate_s), log_part(estimate_s, 30 * 86_400),
            job.nodes / plain.nodes, log_part(job.nodes, plain.nodes), plain.fits(job),
        )  # fmt: skip
    waiting, wanted = len(plain.queue()), sum(job.nodes for job in plain.queue())
    ends = [plain.start[job] + job.estimate_us for job in plain.running()]
    ahead_s = max(min(ends, default=plain.now) - plain.now, 0) / US
    submitted = len(plain.submitted()) / len(plain.jobs)
    whole = (
        plain.free() / plain.nodes, waiting / (waiting + window), wanted / (wanted + plain.nodes),
        ahead_s / (ahead_s + 3600), submitted,
    )  # fmt: skip
    return seen, np.array(whole)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_seen_is_what_the_page_says(seed):
    jobs, table, nodes, rng = workload(seed, jobs=30)
    plain = Episode(from_zero(jobs), nodes)
    env = environment(table, nodes, window=8)
    observation, _ = env.reset()
    is_over = False
    while not is_over:
        seen, whole = features(plain, 8)
        np.testing.assert_allclose(observation["jobs"], seen, atol=1e-6)
        np.testing.assert_allclose(observation["cluster"], whole, atol=1e-6)
        action = random_action(rng, env.action_masks())
        plain.pick(action)
        observation, _, is_over, _, _ = env.step(action)


@pytest.mark.parametrize("objective", ["bounded_slowdown", "wait", "response"])
@pytest.mark.parametrize("seed", range(5))
def test_the_reward_of_a_step_is_what_the_time_since_the_last_one_cost(seed, objective):
    jobs, table, nodes, rng = workload(seed, jobs=30)
    plain = Episode(from_zero(jobs), nodes)
    env = environment(table, nodes, objective=objective, reward="step")
    env.reset()
    cost, is_over = 0.0, False
    while not is_over:
        action = random_action(rng, env.action_masks())
        plain.pick(action)
        _, reward, is_over, _, _ = env.step(action)
        assert reward == pytest.approx(cost - plain.cost(objective))
        cost = plain.cost(objective)


FIGURES = {
    "bounded_slowdown": ("mean_bounded_slowdown", -1),
    "wait": ("mean_wait_s", -1),
    "response": ("mean_response_s", -1),
    "utilization": ("utilization", 1),
}


@pytest.mark.parametrize("objective", FIGURES)
def test_the_reward_of_an_episode_comes_at_its_end_and_is_the_figure_of_its_result(objective):
    env = PickEnv(LOG, jobs=40, objective=objective)
    steps = finish(env, seed=1)
    name, sign = FIGURES[objective]
    figure = emulator.Result(env.record()).summary[name]
    *before, (_, reward, info) = steps
    assert {reward for _, reward, _ in before} == {0.0}
    assert reward == pytest.approx(sign * figure)
    assert info[name] == pytest.approx(figure)


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_gymnasium_finds_nothing_wrong(options):
    env = gymnasium.make(ENVIRONMENT, source=LOG, jobs=30, window=8, **options)
    check_env(env.unwrapped, skip_render_check=True)


def test_a_seed_is_an_episode_and_the_next_ones():
    def windows(seed):
        return [info["first"] for _, info in [env.reset(seed=seed), env.reset(), env.reset()]]

    env = PickEnv(LOG, jobs=20)
    assert windows(5) == windows(5)
    assert len({*windows(5), *windows(6)}) > 3


def test_an_episode_is_the_window_of_the_log_that_is_asked_for():
    env = PickEnv(LOG, jobs=20)
    env.reset(options={"first": 7})
    numbers = env.record().jobs.number
    assert numbers.tolist() == env.log.jobs.number[7:27].tolist()
    assert env.record().jobs.submit_us[0] == 0


def test_windows_are_drawn_from_the_part_of_the_log_that_is_asked_for():
    env = PickEnv(LOG, jobs=20, part=(0.5, 0.75))
    count = len(env.log.jobs)
    firsts = {env.reset(seed=seed)[1]["first"] for seed in range(200)}
    assert (min(firsts), max(firsts)) == (count // 2, int(0.75 * count) - 20)


def test_a_pick_that_is_masked_is_the_first_that_is_not_and_is_told():
    env, same = PickEnv(LOG, jobs=20), PickEnv(LOG, jobs=20)
    env.reset(seed=1)
    same.reset(seed=1)
    observation, _, _, _, info = env.step(127)
    assert info["was_masked"]
    expected, _, _, _, info = same.step(0)
    assert "was_masked" not in info
    assert all(np.array_equal(observation[name], expected[name]) for name in expected)


def test_a_record_stays_as_it_is_when_the_next_episode_runs():
    env = PickEnv(LOG, jobs=40)
    finish(env, seed=1)
    record = env.record()
    before = record.runs.node.copy(), record.start_us.copy(), record.jobs.number.copy()
    finish(env, seed=2)
    after = record.runs.node, record.start_us, record.jobs.number
    assert all(np.array_equal(*pair) for pair in zip(before, after, strict=True))
    assert_lawful(record)


def test_a_record_of_an_episode_that_goes_on_says_so():
    env = PickEnv(LOG, jobs=40)
    env.reset(seed=1)
    env.step(0)
    record = env.record()
    assert record.interrupted == "not all jobs were picked"
    assert_lawful(record)


@pytest.mark.parametrize("options", KINDS.values(), ids=KINDS)
def test_many_at_once_are_many_one_by_one(options):
    options = options | {"jobs": 12, "window": 6, "reward": "step"}
    many = gymnasium.make_vec(ENVIRONMENT, 3, source=LOG, **options)
    single = SyncVectorEnv([lambda: PickEnv(LOG, **options)] * 3)
    assert isinstance(many.unwrapped, PickVectorEnv)
    rng = np.random.default_rng(1)
    both = [many.reset(seed=4), single.reset(seed=4)]
    finished = 0
    for _ in range(60):
        equal_trees(*both)
        actions = rng.integers(0, many.single_action_space.n, 3)
        both = [many.step(actions), single.step(actions)]
        finished += both[0][2].sum()
    assert finished > 3


def equal_trees(one, other):
    """Nested tuples and dicts of arrays, equal wherever they are said to hold."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for name in one:
            holds = one.get(f"_{name}", ...)
            if isinstance(one[name], dict):
                equal_trees(one[name], other[name])
            else:
                np.testing.assert_allclose(one[name][holds], other[name][holds], err_msg=name)
    elif isinstance(one, tuple):
        for pair in zip(one, other, strict=True):
            equal_trees(*pair)
    else:
        np.testing.assert_allclose(one, other)


def test_records_of_many_at_once_are_lawful():
    many = PickVectorEnv(LOG, num_envs=4, jobs=30)
    many.reset(seed=1)
    for _ in range(30):
        *_, infos = many.step(many.action_masks().argmax(axis=1))
    for k in range(4):
        assert_lawful(record := many.record(k), jobs_in=30)
        assert emulator.Result(record).summary["mean_wait_s"] == pytest.approx(infos["mean_wait_s"][k])


LEASE = JobTable.build(submit_us=[0, 1], run_us=[1, 1], nodes=[1, 1], kind=[0, 1])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"window": 0}, "window: a whole number from 1 on, not 0"),
        ({"jobs": 2.5}, "jobs: a whole number from 1 on, not 2.5"),
        ({"decision": "any"}, "decision: 'any' is none of next, fitting"),
        (
            {"decision": "fitting", "backfill": "easy"},
            "backfill: with decision='fitting' no job has a reservation",
        ),
        ({"backfill": "conservative"}, "backfill: 'conservative' is none of none, easy"),
        ({"objective": "utilization", "reward": "step"}, "reward: utilization is known at the end"),
        ({"objective": "makespan"}, "objective: 'makespan' is none of bounded_slowdown, wait, response"),
        ({"part": (0.5, 0.5)}, "part: two parts of the log, 0 <= FROM < TO <= 1, not (0.5, 0.5)"),
        ({"bounded_slowdown_threshold_s": 0}, "bounded_slowdown_threshold_s: above 0, not 0"),
        ({"jobs": 10**6}, "jobs: an episode of 1000000 jobs; the part of the log has"),
        ({"source": LEASE}, "nodes: how many nodes?"),
        (
            {"source": LEASE, "nodes": 2, "jobs": 1},
            "job 2 is an on-demand lease: only batch jobs can be picked",
        ),
    ],
)
def test_a_wrong_option_is_one_clear_error(options, said):
    with pytest.raises(ValueError, match="^" + re.escape(said)) as caught:
        PickEnv(**{"source": LOG} | options)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"frist": 3}, "unknown option of reset 'frist'; known: first"),
        ({"first": -1}, "first: a row of the log from 0 to"),
    ],
)
def test_a_wrong_option_of_reset_changes_nothing(options, said):
    env = PickEnv(LOG, jobs=20)
    env.reset(seed=1)
    with pytest.raises(ValueError, match=said):
        env.reset(seed=2, options=options)
    assert env.reset()[1]["first"] == [env.reset(seed=1), env.reset()][1][1]["first"]


def test_there_is_no_step_without_an_episode():
    env = PickEnv(LOG, jobs=1)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    finish(env)
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)


def test_what_cannot_be_picked_is_an_error_of_the_cluster():
    table = JobTable.build(submit_us=[0, 0], run_us=[US, US], nodes=[2, 1])
    picked = PickedCluster(2, table)
    picked.go_on(Decision.FITTING)
    with pytest.raises(ValueError, match="place 2 of the queue: 2 jobs wait"):
        picked.pick(2)
    picked.pick_fitting(1)
    with pytest.raises(ValueError, match="job 1 wants 2 nodes, 1 are free"):
        picked.pick_fitting(0)
    picked.wait()
    picked.pick_fitting(0)
    picked.wait()
    with pytest.raises(ValueError, match="there is nothing to wait for"):
        picked.wait()


def test_without_gymnasium_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.delitem(sys.modules, "emulator.rl")
    with pytest.raises(ImportError, match="pip install gymnasium"):
        importlib.import_module("emulator.rl")


FOUR = {"submit_s": [0, 1, 2, 3], "run_s": [5, 5, 5, 5], "nodes": [1, 2, 1, 1]}


def test_jobs_in_memory_are_a_source():
    assert finish(PickEnv(source=FOUR, nodes=2, jobs=4))[-1][2]["mean_wait_s"] > 0
    for options, told in (
        ({"nodes": 1}, "job 2 asks for 2 nodes, the cluster has 1"),
        ({"nodes": 2, "overrun": "kill"}, "overrun: jobs in memory are taken as they are"),
    ):
        with pytest.raises(ValueError, match=told):
            gymnasium.make("emulator/Pick-v0", source=FOUR, jobs=4, **options)


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"scheduler": "sjf+easy"}, "scheduler: the agent and `backfill` decide who starts; leave it out"),
        ({"mechanism": "balancer"}, "mechanism: the agent and `backfill` decide who starts; leave it out"),
        ({"limits": [{"by": "user", "jobs": 1}]}, "do not go with an agent that picks; leave out"),
    ],
)
def test_what_a_scenario_says_and_an_agent_does_not_follow_is_refused(keys, told):
    scenario = {"nodes": 8, "workload": {"generate": [{"daily_batch": {"days": 1, "jobs": 20}}]}}
    with pytest.raises(emulator.ScenarioError, match=told):
        gymnasium.make("emulator/Pick-v0", source=scenario | keys, jobs=4)
