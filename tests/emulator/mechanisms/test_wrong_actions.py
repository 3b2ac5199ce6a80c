"""Actions of a mechanism with nodes, jobs, times or rates that cannot be end the run and are told, none is bent."""

from __future__ import annotations

import pytest

import emulator
from balancer.clock import US
from emulator import JobTable, Kind, Save

WHOLE = "is a whole number (times: of microseconds), at least 0, not"


class Leases:
    """A batch job of two nodes that runs, and a lease of two that comes."""

    def generate(self, rng, *, nodes):
        kinds = [Kind.BATCH, Kind.ON_DEMAND]
        return JobTable.build(submit_us=[0, 5 * US], run_us=[60 * US] * 2, nodes=[2, 2], kind=kinds)


def mechanism(act_at_arrival, **methods):
    def on_arrival(self, job, act):
        act_at_arrival(job, act)
        act.reject(job, "no")

    return type("Mine", (), {"on_arrival": on_arrival, **methods})


def run(made):
    scenario = {"nodes": 4, "workload": {"generate": ["leases"]}}
    return emulator.run(scenario, plugins=[Leases], mechanism=made, check=True)


def error_of(made, kind=emulator.PluginError):
    with pytest.raises(kind) as error:
        run(made)
    return str(error.value)


WRONG = {
    "there is no node -1; nodes are 0 to 3": lambda job, act: act.reserve([-1]),
    "there is no node 9; nodes are 0 to 3": lambda job, act: act.release([9]),
    "there is no node 4; nodes are 0 to 3": lambda job, act: act.take_down([4]),
    "there is no node -2; nodes are 0 to 3": lambda job, act: act.resize(0, [-2]),
    "there is no job in row -1; rows are 0 to 1": lambda job, act: act.preempt(-1),
    "there is no job in row 7; rows are 0 to 1": lambda job, act: act.reject(7, "no"),
    "job 2 cannot start on a node twice: [3, 3]": lambda job, act: act.start(
        job, [act.reserve([3])[0][0]] * 2
    ),
    "job 2 wants 2 nodes and would start on [3]": lambda job, act: act.start(job, act.reserve([3])[0]),
    f"write_us {WHOLE} -5": lambda job, act: act.preempt(0, Save.NOW, write_us=-5),
    f"write_us {WHOLE} 0.5": lambda job, act: act.checkpoint(0, write_us=0.5),
    f"pause_us {WHOLE} -1": lambda job, act: act.resize(0, [0, 1], pause_us=-1),
    f"numerator {WHOLE} 0.5": lambda job, act: act.set_rate(0, 0.5, 1),
    "'now' is not": lambda job, act: act.preempt(0, "Now"),
    f"at_us {WHOLE} nan": lambda job, act: act.wake(float("nan")),
    f"at_us {WHOLE} inf": lambda job, act: act.wake(float("inf")),
    f"at_us {WHOLE} -1": lambda job, act: act.wake(-1),
    f"at_us {WHOLE} 'soon'": lambda job, act: act.wake("soon"),
}
WRONG = {told.replace("'now' is not", "'Now' is not a valid Save"): act for told, act in WRONG.items()}


@pytest.mark.parametrize("told", WRONG)
def test_an_impossible_action_is_told(told):
    found = error_of(mechanism(WRONG[told]))
    assert found.startswith("mechanism mine failed in on_arrival of job 2 at 5.000000 s: ")
    assert told in found


def test_what_a_stopped_job_keeps_may_be_said_by_its_word():
    ends = [
        run(mechanism(lambda job, act, save=save: act.preempt(0, save))).to_pandas(unit="s").end_s[0]
        for save in ("now", Save.NOW, "none")
    ]
    assert ends == [60, 60, 65]


def test_a_mechanism_that_asks_to_be_woken_has_on_timer():
    told = error_of(mechanism(lambda job, act: act.wake(act.now_us + 3e6)))
    assert (
        told
        == "mechanism mine failed in wake at 8.000000 s: TypeError: it asked to be woken and has no on_timer"
    )
    woken = []
    run(mechanism(lambda job, act: act.wake(8e6), on_timer=lambda self, act: woken.append(act.now_us)))
    assert woken == [8 * US]


@pytest.mark.parametrize("notice_us", [1.5, -5, "soon"])
def test_a_notice_is_a_whole_number_of_microseconds(notice_us):
    made = mechanism(lambda job, act: None, notice_us=notice_us, on_notice=lambda self, job, act: None)
    told = f"mine: notice_us is a whole number of microseconds, at least 0, not {notice_us!r}"
    assert told in error_of(made, emulator.ScenarioError)
