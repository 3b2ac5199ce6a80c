"""Policies in plain Python: they make the schedules of the built-in ones; a mistake is one error that names the job."""

from __future__ import annotations

import numpy as np
import pytest

import emulator
from balancer.plugin_files import in_use, with_plugin_object
from balancer.plugins import Plugins
from command_line import emulate
from emulator.plugins import KINDS
from emulator.schedulers.config import SchedulerConfig
from emulator.simulation.run import simulate
from emulator.validation.laws import assert_lawful
from gates import GATE
from oracle.workloads import job_table, random_workload
from testdata import TRACES

JOB = "{number} {submit} 0 {run} -1 -1 -1 {nodes} {estimate} -1 1 -1 -1 -1 -1 -1 -1 -1\n"
OWN = """
def strict(now_us, view):
    starts, free = [], view.free
    for job in view.queue:
        if job.nodes > free:
            break
        free -= job.nodes
        starts.append(job)
    return starts


def easy(now_us, view):
    starts = strict(now_us, view)
    blocked = view.queue[len(starts) :]
    if not blocked:
        return starts
    held = view.reservation(blocked[0], starts)
    free, spare = held.free, held.spare
    for job in blocked[1:]:
        crosses = now_us + job.estimate_us > held.shadow_us
        if job.nodes <= free and (job.nodes <= spare or not crosses):
            free -= job.nodes
            spare -= job.nodes if crosses else 0
            starts.append(job)
    return starts


def in_time_or_spare(job, reservation):
    in_time = reservation.now_us + job.estimate_us <= reservation.shadow_us
    return in_time or job.nodes <= reservation.spare


def patient(job):
    return (job.wait_us / job.estimate_us) ** 3 * job.nodes


def tuned(job, exponent=3.0):
    return (job.wait_us / job.estimate_us) ** exponent * job.nodes


def shortest(now_us, queue):
    return -queue.estimate_us
"""
own = {}
exec(OWN, own)  # noqa: S102 - what tests also write into a file


@pytest.fixture
def log(tmp_path, monkeypatch):
    """Nodes and estimates of five jobs on four nodes: a wide head blocks, two behind it could start."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.py").write_text(OWN)
    path = tmp_path / "five.swf"
    rows = [(3, 100, 100), (4, 50, 50), (1, 90, 90), (1, 200, 200), (2, 10, 20)]
    path.write_text(
        "".join(
            JOB.format(number=number, submit=number, nodes=nodes, run=run, estimate=estimate)
            for number, (nodes, run, estimate) in enumerate(rows, 1)
        )
    )
    return path


def starts(jobs, nodes, **options):
    """The starts under a scheduler in which functions stand for their names."""
    known = Plugins()
    for key, value in options.items():
        if callable(value):
            known, options[key] = with_plugin_object(known, value, KINDS)
    with in_use(known):
        record = simulate(jobs, nodes, SchedulerConfig.from_mapping(options))
    assert_lawful(record, jobs_in=len(jobs))
    return record.start_us.tolist()


CASES = [
    ({"order": own["easy"]}, {"backfill": "easy"}),
    ({"order": own["strict"]}, {"backfill": "none"}),
    ({"order": "sjf", "backfill": own["in_time_or_spare"]}, {"order": "sjf"}),
    ({"order": "wfp3", "backfill": own["in_time_or_spare"]}, {"order": "wfp3"}),
    ({"order": own["patient"], "backfill": "conservative"}, {"order": "wfp3", "backfill": "conservative"}),
    ({"order": own["shortest"]}, {"order": "sjf"}),
    ({"order": own["patient"], "backfill": own["in_time_or_spare"]}, {"order": "wfp3"}),
]
"""A scheduler with functions in it, and the same rules built in."""


def assert_same_schedules(plain, built_in, workloads):
    rng = np.random.default_rng([3, *repr(built_in).encode()])
    differed = 0
    for round_ in range(workloads):
        work, nodes = random_workload(rng, jobs=20)
        jobs = job_table(work)
        passes = {"pass": "event" if round_ % 3 == 0 else "instant"}
        wanted = starts(jobs, nodes, **built_in, **passes)
        assert starts(jobs, nodes, **plain, **passes) == wanted, (work, nodes)
        differed += wanted != sorted(wanted)
    assert differed or built_in == {"backfill": "none"}


@pytest.mark.parametrize(("plain", "built_in"), [CASES[0], CASES[-1]])
def test_a_policy_of_ones_own_makes_the_schedule_of_the_same_rules_built_in(plain, built_in):
    assert_same_schedules(plain, built_in, workloads=30)


@pytest.mark.slow
@pytest.mark.parametrize(("plain", "built_in"), CASES)
def test_it_does_so_on_hundreds_of_workloads(plain, built_in):
    assert_same_schedules(plain, built_in, workloads=GATE.reference_workloads)


def test_what_is_given_in_python_is_what_a_file_gives(log):
    for name, scheduler in (("easy", "easy"), ("in_time_or_spare", "fcfs+in_time_or_spare")):
        own_way = {"backfill": own[name]} if "+" in scheduler else own[name]
        a = emulator.run(log, nodes=4, scheduler=own_way, check=True)
        b = emulator.run(log, nodes=4, scheduler=scheduler, plugins=[f"my.py:{name}"], check=True)
        c = emulator.run(log, nodes=4, scheduler="fcfs+easy")
        assert a.compare(b).is_same
        assert a.compare(c).is_same
    done = emulate("run", "--trace", log, "--nodes", "4", "--plugin", "my.py:easy", "--scheduler", "easy")
    assert done.exit_code == 0, done.stderr
    assert emulator.compare(a, "runs/five").is_same


def test_parameters_with_defaults_are_set_like_those_of_any_plugin(log):
    plugin = ["my.py:tuned"]
    found = emulator.run(log, nodes=4, plugins=plugin, scheduler={"order": {"tuned": {"exponent": 0.5}}})
    assert found.compare(emulator.run(log, nodes=4, scheduler={"order": {"wfp3": {"exponent": 0.5}}})).is_same
    with pytest.raises(
        emulator.ScenarioError, match="queue order tuned has no parameter 'exp'; there are: exponent"
    ):
        emulator.run(log, nodes=4, plugins=plugin, scheduler={"order": {"tuned": {"exp": 1}}})


@pytest.mark.slow
def test_a_compiled_order_is_the_plain_one(log):
    compiled = emulator.compiled(own["patient"])
    assert (
        emulator.run(log, nodes=4, scheduler=compiled)
        .compare(emulator.run(log, nodes=4, scheduler="wfp3"))
        .is_same
    )
    with pytest.raises(
        emulator.ScenarioError, match=r"cannot be compiled \(.*\); without @emulator\.compiled it runs"
    ):
        emulator.run(log, nodes=4, scheduler=emulator.compiled(lambda job: {"a": job.wait_us}["b"].nonsense))


def job_of(view, number):
    return next(job for job in view.queue if job.number == number)


def forgets_to_return(now_us, view):
    list(view.queue)


def starts_twice(now_us, view):
    return [1, 1] if now_us == 0 else []


def starts_too_much(now_us, view):
    return view.queue if now_us else [1]


def starts_a_running_one(now_us, view):
    return [1]


def starts_a_name(now_us, view):
    return ["job 1"]


def writes_to_a_job(now_us, view):
    view.queue[0].nodes = 1


def writes_to_the_view(now_us, view):
    view.free = 100


def breaks(now_us, view):
    raise KeyError("lost")


def ranks_nothing(job):
    return None if job.number == 3 else 0


def ranks_nan(job):
    return float("nan") if job.number == 3 else 0


def allows_by_a_wrong_name(job, reservation):
    return job.walltime


DECIDE = "scheduler {} failed in decide at {}.000000 s: {}"
MISTAKES = [
    (forgets_to_return, 0, "ValueError: it returned None; return the jobs that start now, [] for none"),
    (starts_twice, 0, "ValueError: it starts job 1 twice"),
    (starts_too_much, 1, "ValueError: it starts job 2, which wants 4 nodes; 1 are idle"),
    (starts_a_running_one, 1, "ValueError: it starts job 1, which does not wait"),
    (starts_a_name, 0, "ValueError: 'job 1' is among the jobs to start, which is neither a job nor a number"),
    (writes_to_a_job, 0, "AttributeError: a job can only be looked at: nodes of job 1 stays as it is"),
    (writes_to_the_view, 0, "AttributeError: a view can only be looked at: free stays as it is"),
    (breaks, 0, "KeyError: 'lost'"),
]
ORDER = "queue order {} failed in rank{} at 2.000000 s: {}"
OTHER_MISTAKES = [
    (
        ranks_nothing,
        ORDER.format(
            "ranks_nothing",
            " of job 3",
            "TypeError: it returned None; return a number",
        ),
    ),
    (
        ranks_nan,
        ORDER.format(
            "ranks_nan", "", "ValueError: it gave job 3 the priority NaN, which has no place in an order"
        ),
    ),
    (
        {"backfill": allows_by_a_wrong_name},
        (
            "backfill allows_by_a_wrong_name failed in may_start of job 3 at 2.000000 s: "
            "AttributeError: 'Job' object has no attribute 'walltime'"
        ),
    ),
]


@pytest.mark.parametrize(
    ("scheduler", "message"),
    [
        *((policy, DECIDE.format(policy.__name__, at_s, said)) for policy, at_s, said in MISTAKES),
        *OTHER_MISTAKES,
    ],
)
def test_a_mistake_is_one_error_that_names_the_instant_and_the_job(scheduler, message, log):
    with pytest.raises(emulator.PluginError) as error:
        emulator.run(log, nodes=4, scheduler=scheduler)
    assert str(error.value) == message
    assert error.value.result.summary["interrupted"] == message


def test_a_function_of_no_known_form_is_told_what_forms_there_are(log):
    with pytest.raises(
        emulator.ScenarioError,
        match=r"\(a, b, c\) says nothing; name them as in one of: .*\(now, view\) scheduler",
    ):
        emulator.run(log, nodes=4, scheduler=lambda a, b, c: 0)


@pytest.mark.parametrize("mechanism", ["malleable", "realtime", "hybrid"])
def test_a_machine_with_a_scheduler_of_its_own_refuses_another(mechanism, log):
    with pytest.raises(emulator.ScenarioError, match=r"cannot replace|cannot decide|nothing backfills"):
        emulator.run(log, nodes=4, mechanism=mechanism, scheduler={"order": own["easy"], "backfill": "conservative"}
                     if mechanism == "malleable" else own["easy"])  # fmt: skip


def on_idle_nodes(job, act):
    idle = [node for node, runs in enumerate(act.cluster.node_job) if runs < 0]
    wanted = act.cluster.nodes_wanted(job)
    if len(idle) < wanted:
        act.reject(job, "not enough idle nodes")
    else:
        act.start(job, act.reserve(idle[:wanted])[0])


def keep_six(view):
    from balancer.algorithms.basic import serve_then_keep  # noqa: PLC0415

    return serve_then_keep(view, 6)


DAY = {
    "nodes": 16,
    "workload": {
        "generate": [
            {"daily_batch": {"days": 0.5, "jobs": 60, "load": 0.7}},
            {"bursty_leases": {"days": 0.5, "weekends": True, "leases_per_day": 60}},
        ]
    },
}


def test_a_function_is_a_mechanism_or_an_algorithm(log):
    idle = emulator.run(DAY, mechanism=on_idle_nodes, scheduler=own["easy"], check=True)
    assert idle.summary["ondemand_granted"] > 0
    assert (
        idle.timeline()["od_reserve"].to_pylist()[-1] == 0
    )  # at its end a lease's nodes are the batch pool's again
    own_way = emulator.run(DAY, mechanism={"balancer": {"algorithm": keep_six}}, check=True)
    assert own_way.compare(emulator.run(DAY, mechanism={"balancer": {"static_reserve": 6}})).is_same


def test_a_sweep_takes_functions_as_values(log):
    found = emulator.sweep(
        log, {"scheduler": ["fcfs+easy", own["easy"], own["strict"]]}, changes={"nodes": 4}
    )
    assert found.failed == ()
    assert found.table["scheduler"].to_pylist() == ["fcfs+easy", "easy", "strict"]
    first, second, third = found.table["mean_wait_s"].to_pylist()
    assert first == second != third


def test_what_was_given_in_python_cannot_be_run_again_from_its_name(log):
    stored = emulator.run(log, nodes=4, scheduler=own["easy"]).record.scenario
    assert [each["file"] for each in stored["plugins"]] == ["python"]
    with pytest.raises(
        emulator.ScenarioError, match="the plug-in easy was given in Python and is in no file"
    ):
        emulator.run(stored)
    assert emulator.run(stored, plugins=[own["easy"]]).summary["jobs_run"] == 5


@pytest.mark.slow
def test_all_of_kth_with_plain_policies_is_the_schedule_of_the_built_in_ones():
    kth = {"nodes": 100, "workload": {"trace": str(TRACES / "KTH-SP2-1996-2.swf.xz"), "overrun": "kill"}}
    wanted = emulator.run(kth, scheduler="wfp3+easy")
    for scheduler in (own["patient"], {"order": own["patient"], "backfill": own["in_time_or_spare"]}):
        assert emulator.run(kth, scheduler=scheduler).compare(wanted).is_same
