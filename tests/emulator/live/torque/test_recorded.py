"""What users see equals what was recorded from real Torque, file by file.

Only what cannot be equal is made alike before the comparison: a mom's status line (load, memory, mac address)
and session ids.
"""

import re
from pathlib import Path

import pytest

EPOCH_S = 1_795_221_728  # Sat Nov 21 00:42:08 2026, when job 26 was submitted


def words(text):
    return text.split()


# Files in the order in which they were recorded, by scene.
IDLE = words("""
    pbsnodes-a-idle pbsnodes-noargs-idle pbsnodes-x-idle pbsnodes-q-idle pbsnodes-n01-n02 pbsnodes-unknown
    pbsnodes-x-unknown pbsnodes-help pbsnodes-version pbsnodes-l-none pbsnodes-l-active-idle
    pbsnodes-l-all-idle pbsnodes-l-bogus-idle pbsnodes-l-busy-idle pbsnodes-l-down-idle pbsnodes-l-free-idle
    pbsnodes-l-job-exclusive-idle pbsnodes-l-offline-idle pbsnodes-l-power-idle pbsnodes-l-up-idle
    pbsnodes-l-used-idle
    pbsnodes-o-free pbsnodes-o-free-after pbsnodes-o-already-offline pbsnodes-o-with-note
    pbsnodes-A-append-note pbsnodes-N-clear-note pbsnodes-N-on-free pbsnodes-N-n-clears
    pbsnodes-c pbsnodes-c-after
    pbsnodes-c-not-offline pbsnodes-c-unknown pbsnodes-o-unknown pbsnodes-o-nonode
    pbsnodes-o-mixed-known-unknown pbsnodes-c-several pbsnodes-r
    qsub-bad-queue qsub-bad-resource qsub-bad-walltime qsub-nonexistent-script qsub-toomany-nodes
    qsub-toomany-ppn qdel-unknown qhold-unknown qstat-unknown qstat-unknown-server-suffix qstat-1 qstat-ubob
""")
BUSY = words("""
    pbsnodes-a-busy pbsnodes-x-busy pbsnodes-l-active-busy pbsnodes-l-all-busy pbsnodes-l-busy-busy
    pbsnodes-l-down-busy pbsnodes-l-free-busy pbsnodes-l-job-exclusive-busy pbsnodes-l-offline-busy
    pbsnodes-l-up-busy qstat-running pbsnodes-o-busy pbsnodes-o-busy-after pbsnodes-c-busy pbsnodes-o-partial
""")
JOBS_AFTER_3_S = words("""
    qstat-a qstat-n-1 qstat-s qstat-r qstat-i qstat-ualice qstat-Q qstat-B qstat-q
""")
JOBS_AFTER_19_S = words("""
    qstat qstat-e qstat-n qstat-shortid qstat-f-running qstat-f-1-running qstat-f-held qstat-x-running
    qstat-xf-running qselect qrerun-as-user qrerun-held qrerun-not-rerunable qdel-other-user qdel-completed
    qhold-queued-and-qrls
""")
SUBMITS = words("qsub-stdin qsub-script-directives qsub-hold")
OTHER = words("""
    qsub-as-root pbsnodes-o-as-user pbsnodes-r-busy qstat-Qf qstat-Bf all-nodes-offline-qsub-needs-6
    offline-survives-server-restart server-down-pbsnodes-a server-down-pbsnodes-l server-down-pbsnodes-o
    server-down-pbsnodes-x server-down-qdel server-down-qstat server-down-qsub
""")
USERS = {"qrerun-as-user": "alice", "qdel-other-user": "bob", "pbsnodes-o-as-user": "bob"} | {
    name: "alice" for name in IDLE + SUBMITS if name.startswith("qsub")
}
COVERED = sorted([*IDLE, *BUSY, *JOBS_AFTER_3_S, *JOBS_AFTER_19_S, *SUBMITS, *OTHER])


def alike(text):
    """The text without what two machines cannot have in common."""
    text = text.replace("/opt/torque-6.1.3.h5", "$TORQUE")
    text = re.sub(r"(status( =|>|&gt;)? ?)opsys=[^\n<]*", r"\1STATUS", text)
    text = re.sub(r"(session_id( = |>))\d+", r"\1N", text)
    # The column SessID of qstat -a.
    return re.sub(r"(?m)^(\d+\.server +\S+ +batch +\S+ +)\d+( )", r"\1N\2", text)


def compare(world, recorded, name, user="root"):
    said = recorded(f"{name}.txt")
    ran = world.shell(said.command, USERS.get(name, user))
    found = (alike(squeeze(ran.stdout)), alike(ran.stderr), ran.returncode)
    assert found == (alike(squeeze(said.stdout)), alike(said.stderr), said.status)


def squeeze(text):
    """The session's column may be narrower or wider: blanks before a number that is replaced are one."""
    return re.sub(r"(?m)^(\d+\.server +\S+ +batch +\S+) +(\d+ )", r"\1 \2", text)


@pytest.fixture
def busy(world):
    world.qsub("-N first -l nodes=1:ppn=2,walltime=60", script="sleep 1\n")
    world.at(1).ends(0)
    world.qsub("-N busy2 -l nodes=2:ppn=2,walltime=600")
    world.qsub("-N partial -l nodes=1:ppn=1,walltime=600")
    world.at(5)
    return world


@pytest.fixture
def jobs(make_world):
    """Jobs 7 to 25 are over, 26 and 27 run since time 0, 28 is held."""
    world = make_world(epoch_s=EPOCH_S - 100)
    world.batch.next_number = 7
    world.agents_up()
    hours = {7: "00:33", 9: "00:34", 10: "00:34", **dict.fromkeys(range(19, 23), "00:37")}
    for number in (7, 9, 10, *range(19, 26)):
        world.batch.next_number = number
        failed = number < 19
        wide = number in (19, 20, 21)
        walltime = "00:00:10" if number == 23 else "00:05:00"
        name = "prc" if failed else "exp"
        job = world.qsub(f"-N {name} -l nodes={2 if wide else 1}:ppn=2,walltime={walltime}")
        job.comment = f"Job started on Sat Nov 21 at {hours.get(number, '00:41')}"
        world.ends(number, -2 if failed else 0, session=0 if failed else number)
        where = {19: (2, 1), 20: (2, 1), 21: (2, 1), 22: (1,)}
        job.exec_nodes = () if failed else where.get(number, (0,))
    world.at(100)
    script = "#PBS -N scripted\n#PBS -l nodes=1:ppn=1,walltime=00:02:00\n#PBS -j oe\n#PBS -r n\nsleep 80\n"
    world.qsub("-N stdinjob -l nodes=2:ppn=2,walltime=00:10:00")
    world.qsub("s.sh", script=script)
    world.qsub("-h -N held -l nodes=1")
    return world


@pytest.mark.live
def test_idle_cluster(world, recorded):
    world.serve()
    for name in IDLE:
        compare(world, recorded, name)


@pytest.mark.live
def test_busy_cluster(busy, recorded):
    busy.serve()
    for name in BUSY:
        compare(busy, recorded, name)


@pytest.mark.live
def test_jobs_of_many_kinds(jobs, recorded):
    jobs.at(103)
    jobs.serve()
    for name in JOBS_AFTER_3_S:
        compare(jobs, recorded, name)


@pytest.mark.live
def test_jobs_in_full(jobs, recorded):
    jobs.at(119)
    del jobs.batch._jobs[19]  # complete for more than keep_completed when these were recorded
    jobs.serve()
    jobs.batch.scheduling = False  # real Torque's scheduler takes up to a second to come to a released job
    for name in JOBS_AFTER_19_S:
        compare(jobs, recorded, name)


@pytest.mark.live
def test_submissions(world, recorded):
    world.batch.next_number = 26
    world.serve()
    for name in SUBMITS:
        compare(world, recorded, name)


@pytest.mark.live
def test_root_may_not_submit_and_users_may_not_take_nodes_away(world, recorded):
    world.serve()
    for name in ("qsub-as-root", "pbsnodes-o-as-user"):
        compare(world, recorded, name)


@pytest.mark.live
def test_a_busy_node_that_is_reset_is_down_until_its_next_report(busy, recorded):
    busy.serve()
    compare(busy, recorded, "pbsnodes-r-busy")


def test_queues_and_server_in_full(jobs, recorded):
    jobs.at(119)
    del jobs.batch._jobs[19]
    for file, command in (("qstat-Qf", "qstat -Q -f"), ("qstat-Bf", "qstat -B -f")):
        said, found = recorded(f"{file}.txt"), jobs.do(command)
        varying = r"(mtime|net_counter|next_job_number) = .*"
        assert re.sub(varying, r"\1", found.stdout) == re.sub(varying, r"\1", said.stdout)


@pytest.mark.live
@pytest.mark.slow
def test_jobs_are_accepted_while_all_nodes_are_offline(world, recorded):
    world.batch.next_number = 34
    world.serve()
    world.shell(
        "pbsnodes -o n01 n02 n03 n04 n05 n06; echo sleep 5 | TORQUE_USER=alice qsub -N waits -l nodes=1"
    )
    compare(world, recorded, "all-nodes-offline-qsub-needs-6", "alice")


@pytest.mark.live
def test_marks_survive_a_restart(make_world, recorded):
    before = make_world()
    before.agents_up()
    before.do("pbsnodes -o -N kept? n05")
    before.qsub()
    after = make_world()
    after.agents_up([f"n{number:02}" for number in range(2, 7)])
    after.serve()
    compare(after, recorded, "offline-survives-server-restart")
    assert after.batch.next_number == 1


@pytest.mark.live
def test_without_a_server(make_world, recorded):
    world = make_world()
    world.serve()
    world.close()
    world._thread = None
    for name in [name for name in OTHER if name.startswith("server-down")]:
        said = recorded(f"{name}.txt")
        ran = world.shell(said.command.removeprefix("time "), "alice")
        stderr = said.stderr.partition("\nreal\t")[0].replace("10.77.0.1", "127.0.0.1")
        assert (ran.stdout, ran.stderr, ran.returncode) == (said.stdout, stderr, said.status)


def test_the_page_says_how_many_are_covered_here():
    page = (Path(__file__).parents[4] / "docs" / "live-torque.md").read_text()
    assert f"equal {len(COVERED)} recordings" in page
