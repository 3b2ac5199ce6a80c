"""How the server behaves: scheduling cycles, holds, faults. No process, no socket."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from emulator.kernel.job_states import JobState
from emulator.live.torque.jobs import PbsState

LETTERS = {
    JobState.QUEUED: "Q",
    JobState.HELD: "H",
    JobState.RUNNING: "R",
    JobState.ENDED: "C",
    JobState.CANCELLED: "C",
}


def check(world):
    """Jobs, nodes and cluster tell the same story."""
    batch = world.batch
    for job in batch._jobs.values():
        cluster_state = LETTERS[JobState(int(batch.scheduler.cluster.state[job.row]))]
        if job.deferred:
            assert (cluster_state, job.state) in {("H", "Q"), ("H", "H")}
        elif job.state != PbsState.EXITING:
            assert job.state == cluster_state
    for node in batch.nodes:
        row = int(batch.scheduler.cluster.node_job[node.index])
        assert list(node.jobs) == ([batch._by_row[row].number] if row >= 0 else [])
        assert node.pooled == node.usable == (not batch.scheduler.cluster.node_offline[node.index])


def test_clearing_a_node_does_not_start_a_scheduling_cycle(world):
    world.do("pbsnodes -o n01 n02 n03 n04 n05 n06")
    world.qsub("-N waits")
    world.at(10).do("pbsnodes -c n04")
    world.at(599)
    assert world.states() == {0: "Q"}
    world.at(600)  # scheduler_iteration after the last cycle, the one of the submission
    assert world.states() == {0: "R"}
    check(world)


def test_qmgr_starts_a_scheduling_cycle(world):
    world.do("pbsnodes -o n01 n02 n03 n04 n05 n06")
    world.qsub()
    world.at(10).do("pbsnodes -c n04")
    assert world.do("qmgr -c set").status == 1
    world.serve()
    assert world.shell('qmgr -c "set server scheduling = True"').returncode == 0
    assert world.executor.call(lambda _: world.states()) == {0: "R"}


def test_qmgr_sets_the_servers_comment(world):
    world.serve()
    assert "comment" not in world.shell("qstat -B -f").stdout
    assert world.shell("qmgr -c 'set server comment = \"down on Monday\"'").returncode == 0
    assert "    comment = down on Monday\n" in world.shell("qstat -B -f").stdout


def test_scheduling_can_be_switched_off(world):
    world.batch.scheduling = False
    world.qsub()
    world.at(2000)
    assert world.states() == {0: "Q"}
    assert "Idle" in world.do("qstat -B").stdout
    world.batch.start_cycle(world.clock.now_us())
    world.settle()
    assert world.states() == {0: "R"}


def test_a_submission_and_a_job_end_start_a_cycle_at_once(world):
    world.qsub("-l nodes=6")
    world.qsub("-l nodes=1")
    assert world.states() == {0: "R", 1: "Q"}
    world.at(50).ends(0)
    assert world.states() == {0: "C", 1: "R"}
    check(world)


def test_why_a_job_waits_can_be_seen(world):
    world.do("pbsnodes -o n01")
    world.qsub("-l nodes=6")
    lines = world.do("qstat -f 0").stdout.splitlines()
    assert "    comment = Not Running: Not enough of the right type of nodes are available" in lines


def test_an_offline_mark_lets_the_job_end_and_then_keeps_the_node(world):
    world.qsub("-l nodes=6:ppn=2")
    world.at(2).do("pbsnodes -o n02")
    assert world.batch.node("n02").state == "offline,job-exclusive"
    world.qsub("-l nodes=6:ppn=2")
    world.at(9).ends(0)
    assert world.batch.node("n02").state == "offline"
    assert world.states() == {0: "C", 1: "Q"}
    check(world)
    assert world.batch.export()["offline"] == [(2_000_000, 1, True)]


def test_complete_jobs_are_kept_for_a_while(world):
    world.qsub()
    world.at(10).ends(0)
    world.at(310)
    assert world.states() == {0: "C"}
    world.at(310.000001)
    assert world.states() == {}
    assert world.do("qdel 0").stderr == "qdel: nonexistent job id: 0\n"


def test_a_held_job_waits_until_it_is_released(world):
    world.qsub("-h")
    assert world.states() == {0: "H"}
    assert world.do("qrls 0", "bob").status == 159
    world.at(5).do("qrls 0", "alice")
    assert world.states() == {0: "R"}
    assert "etime=5 " in world.accounting()
    check(world)


def test_holding_a_running_job_only_marks_it(world):
    job = world.qsub()
    assert world.do("qhold 0").status == 0
    assert (job.state, job.user_hold) == ("R", True)
    world.at(3).do("qrerun 0")
    assert world.states() == {0: "H"}
    check(world)


def test_deleting_a_waiting_job_writes_only_a_d_record(world):
    world.qsub("-h")
    assert world.do("qdel 0", "alice").status == 0
    assert [line.split(";")[1] for line in world.accounting().splitlines()] == ["Q", "D"]
    assert world.states() == {0: "C"}
    check(world)


def test_maui_defers_a_job_wider_than_what_is_online(make_world):
    world = make_world(maui_defer_s=3600, scheduler_iteration_s=30)
    world.agents_up()
    world.do("pbsnodes -o n06")
    world.qsub("-l nodes=6:ppn=2")
    world.at(33).do("pbsnodes -c n06")
    world.at(3599)
    assert world.states() == {0: "Q"}
    check(world)
    world.at(3600)
    assert world.states() == {0: "R"}


def test_releasehold_ends_a_deferral_at_once(make_world):
    world = make_world(maui_defer_s=3600)
    world.agents_up()
    world.do("pbsnodes -o n01 n02 n03 n04 n05 n06")
    world.qsub()
    world.at(10).do("pbsnodes -c n04")
    assert world.do("releasehold 0").stdout == "job holds adjusted\n"
    assert world.states() == {0: "R"}
    check(world)


def test_a_node_whose_agent_never_came_is_down_and_gets_no_job(make_world):
    world = make_world()
    world.agents_up(["n01", "n02"])
    world.qsub("-l nodes=3")
    assert world.states() == {0: "Q"}
    assert world.do("pbsnodes -l").stdout.count("down") == 4
    check(world)


def test_a_job_whose_node_turns_out_dead_goes_back_and_starts_elsewhere(world):
    job = world.qsub("-l nodes=1")
    world.ends(0)
    world.batch._links.pop(0)  # n01's agent is gone, and the server has not noticed
    job = world.qsub("-l nodes=1")
    assert (job.state, job.exit_status, world.batch.node("n01").state) == ("Q", -3, "down")
    world.at(1)
    assert (job.state, job.exec_nodes, job.run) == ("R", (1,), 2)
    check(world)


def test_a_job_whose_agent_is_lost_stays_and_can_only_be_purged(world):
    job = world.qsub("-l nodes=2")
    world.batch.lost(world.agent, 0)
    world.at(213)
    assert world.batch.node("n01").state == "free"
    world.at(214)
    assert (job.state, world.batch.node("n01").state) == ("R", "down")
    assert world.do("qdel 0", "alice").stderr == "qdel: Server could not connect to MOM 0.server\n"
    assert world.do("qdel -p 0", "alice").status == 159
    assert world.do("qdel -p 0").status == 0
    assert world.states() == {0: "C"}
    check(world)


def test_an_agent_that_comes_back_is_told_what_it_should_run(world):
    world.qsub("-l nodes=2")
    world.qsub("-l nodes=1")
    world.batch.lost(world.agent, 0)
    answer = world.batch.register(world.agent, ["n01", "n02", "n03"], 2, [(1, 1), (77, 1)], 0)
    assert [(start["job"], start["adopt"]) for start in answer["start"]] == [(0, True)]
    assert answer["drop"] == [(77, 1)]


@pytest.mark.parametrize("order", [(1, 2, 3, 4, 5, 6), (6, 5, 4, 3, 2, 1), (3, 6, 1, 5, 2, 4)])
def test_nodes_are_used_in_their_order_whoever_of_their_agents_registers_first(make_world, order):
    world = make_world()
    for number in order:
        world.agents_up([f"n{number:02}"])
    jobs = [world.qsub("-l nodes=2") for _ in range(3)]
    assert [job.exec_nodes for job in jobs] == [(1, 0), (3, 2), (5, 4)]
    check(world)


def test_a_node_that_comes_back_later_is_used_first(world):
    job = world.qsub("-l nodes=1")
    world.do("pbsnodes -o n05")
    world.do("pbsnodes -c n05")
    assert (job.exec_nodes, world.qsub("-l nodes=1").exec_nodes) == ((0,), (4,))
    check(world)


def test_an_agent_with_unknown_nodes_is_refused(world):
    answer = world.batch.register(world.agent, ["n01", "x9"], 2, [], 0)
    assert answer == {"do": "refused", "error": "unknown nodes: x9; see `nodes` in the server's file"}
    answer = world.batch.register(world.agent, ["n01"], 4, [], 0)
    assert answer == {"do": "refused", "error": "the agent's nodes have np = 4, the server's have np = 2"}


def test_a_node_lost_twice_is_down_only_after_the_second_loss_lasted(world):
    world.batch.lost(world.agent, 0)
    world.at(100).agents_up()
    world.batch.lost(world.agent, 100_000_000)
    world.at(313)
    assert world.batch.node("n01").state == "free"
    world.at(314)
    assert world.batch.node("n01").state == "down"


def test_reports_of_an_earlier_run_are_ignored(world):
    job = world.qsub()
    world.do("qrerun 0")
    assert job.run == 2
    world.batch.ended(0, 1, 0, 1, 0, requeue=False)
    assert job.state == "R"
    check(world)


COMMAND = st.one_of(
    st.sampled_from(["qsub -l nodes=1", "qsub -l nodes=3", "qsub -l nodes=6", "qsub -h -l nodes=2"]),
    st.builds("{} {}".format, st.sampled_from(["qdel", "qhold", "qrls", "qrerun", "end"]), st.integers(0, 6)),
    st.builds("pbsnodes {} n0{}".format, st.sampled_from(["-o", "-c", "-r"]), st.integers(1, 6)),
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lines=st.lists(st.tuples(COMMAND, st.integers(0, 90)), max_size=30), defer=st.sampled_from([0, 50]))
def test_jobs_nodes_and_cluster_agree_whatever_is_done(make_world, tmp_path, lines, defer):
    for left in tmp_path.glob("server/server_priv/marks.json"):
        left.unlink()
    world = make_world(maui_defer_s=defer)
    world.agents_up()
    time_s = 0
    for line, pause_s in lines:
        if line.startswith("end"):
            job = world.batch._jobs.get(int(line.split()[1]))
            if job is not None and job.state == "R":
                world.ends(job.number)
        else:
            world.do(line, text="sleep 50\n")
        check(world)
        time_s += pause_s
        world.at(time_s)
        check(world)
    world.close()
