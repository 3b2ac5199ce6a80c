"""`emulator-job` on its own: what it has done, what it saves, what its output proves."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from balancer.clock import NEVER_US
from emulator.kernel import tables as t
from emulator.kernel.rows import new_rows
from emulator.live.job.program import WORK_LEFT, Checkpoints, Phase, main
from emulator.live.job.proof import ProofError, prove
from emulator.machine import work as w
from emulator.workload.table import JobTable
from polling import until

ROOT = Path(__file__).parents[4]
times = st.integers(0, 10**10)
small = st.integers(1, 64)


@given(
    run_us=st.integers(1, 10**9), width=small, nodes=small, share=st.tuples(small, small), now_us=times,
    since_us=times, part=st.floats(0, 1), own=st.tuples(st.integers(0, 10**8), st.integers(0, 10**7)),
)  # fmt: skip
@settings(max_examples=500)
def test_a_job_counts_its_work_as_the_harness_does(
    *, run_us, width, nodes, share, now_us, since_us, part, own
):
    num, den = min(share), max(share)
    jobs = JobTable.build(submit_us=[0], run_us=[run_us], nodes=[width])
    work = w.work_table(jobs)
    work[0].interval_us, work[0].cost_us = own
    total = run_us * width
    done = int(total * part)
    mine = work[0]
    mine.row, mine.begun, mine.done, mine.since_us, mine.num, mine.den = 1, 0, done, since_us, num, den
    table = new_rows(t.Job, 1)
    table["nodes"][0] = nodes
    phase = Phase(total, done, since_us, nodes, num, den, *own)
    assert phase.at(now_us) == w.done_at(table, work, 0, now_us)[0]
    end_us = since_us + w.length_us(work, 0, total - done, nodes, num, den)
    assert phase.when_us(total) == end_us
    assert phase.at(end_us) == total
    if done < total:
        assert phase.at(end_us - 1) < total
    saved_us, saved = phase.checkpoint(1) or (NEVER_US, 0)
    if saved_us < NEVER_US:
        assert w.done_at(table, work, 0, saved_us)[1] == saved
        assert w.done_at(table, work, 0, saved_us - 1)[1] == 0


class TestCheckpoints:
    def test_the_newest_whole_one_counts(self, tmp_path):
        saved = Checkpoints(tmp_path / "shared", "seven")
        assert saved.newest() is None
        for done in (10, 20, 30, 40):
            saved.save(done, 100)
        names = sorted(path.name for path in (tmp_path / "shared").iterdir())
        assert names == [f"seven.checkpoint-{number:06d}" for number in (2, 3, 4)]
        newest = tmp_path / "shared" / names[-1]
        newest.write_bytes(newest.read_bytes()[:-9])
        assert (saved.newest().number, saved.newest().done) == (3, 30)
        damaged = tmp_path / "shared" / names[-2]
        damaged.write_text(damaged.read_text().replace('"done": 30', '"done": 99'))
        assert saved.newest().done == 20

    def test_one_of_more_work_than_counts_is_left_alone(self, tmp_path):
        saved = Checkpoints(tmp_path, "seven")
        for done in (10, 20, 30):
            saved.save(done, 100)
        assert [getattr(saved.newest(most), "done", None) for most in (5, 10, 29, None)] == [None, 10, 20, 30]

    def test_those_of_another_job_do_not(self, tmp_path):
        Checkpoints(tmp_path, "seven").save(10, 100)
        assert Checkpoints(tmp_path, "eight").newest() is None


def line(event, **more):
    words = {"event": event, "at_us": 5} | {name.rstrip("_"): value for name, value in more.items()}
    return str(words).replace("'", '"') + "\n"


BEGUN = line("begins", run=1, nodes=2, of=10, done=0)


class TestProof:
    def test_work_that_was_lost_is_done_again(self):
        again = [
            line("begins", run=2, nodes=2, of=10, done=2),
            line("work", from_=2, to=10),
            line("finished"),
        ]
        proof = prove([BEGUN, line("work", from_=0, to=6), *again])
        assert (proof.done, proof.lost, proof.total, proof.runs, proof.finished) == (14, 4, 10, 2, True)

    def test_what_was_cut_off_was_not_written(self):
        proof = prove([BEGUN, line("work", from_=0, to=6), line("work", from_=6, to=10)[:-4]])
        assert (proof.done, proof.finished) == (6, False)

    @pytest.mark.parametrize(
        ("lines", "problem"),
        [
            ([], "no line of output"),
            ([line("work", from_=0, to=1)], "line 1: work before the beginning"),
            ([BEGUN, line("work", from_=1, to=2)], "line 2: work from 1 to 2 does not go on from 0"),
            ([BEGUN, line("begins", run=2, of=10, done=3)], "line 2: begins at 3, but only 0 was done"),
            ([BEGUN, line("begins", run=2, of=11, done=0)], "line 2: the work was 10 and is now 11"),
            ([BEGUN, line("finished")], "line 2: finished with 0 of 10 done"),
            ([BEGUN, line("work", from_=0, to=10), line("finished"), BEGUN], "line 4: begins after the end"),
            ([BEGUN, "nonsense\n"], "line 2: "),
        ],
    )
    def test_what_does_not_add_up_is_no_proof(self, lines, problem):
        with pytest.raises(ProofError, match=problem):
            prove(lines)


@pytest.mark.live
class TestAsAPlainProgram:
    @pytest.fixture
    def start(self, tmp_path):
        def start(*options):
            command = [
                sys.executable,
                "-m",
                "emulator.live.job.program",
                "--work",
                "200",
                "--checkpoints",
                "c",
            ]
            with (tmp_path / "out").open("ab") as out:
                return subprocess.Popen(
                    [*command, *options], cwd=tmp_path, stdout=out, env=os.environ | {"PYTHONPATH": str(ROOT)}
                )

        return start

    def output(self, tmp_path):
        with (tmp_path / "out").open() as lines:
            return list(lines)

    def wait_for(self, tmp_path, process, text):
        until(lambda: any(text in line for line in self.output(tmp_path)) or process.poll() is not None)
        assert process.poll() is None, f"it ended without saying {text}"

    @pytest.mark.slow
    def test_killed_and_told_to_leave_it_does_all_its_work_once(self, start, tmp_path):
        first = start("--speed", "10", "--every", "10")
        self.wait_for(tmp_path, first, '"number": 2')
        first.kill()
        first.wait(120)
        (tmp_path / "nodes").write_text("1\n")
        second = start("--speed", "10", "--nodes-file", "nodes", "--step", "1")
        self.wait_for(tmp_path, second, '"run": 1, "nodes": 1, "of": 200000000, "done": 2')
        (tmp_path / "nodes").write_text("n01\nn01\nn02\n")
        second.send_signal(signal.SIGUSR2)
        self.wait_for(tmp_path, second, '"event": "changed"')
        second.send_signal(signal.SIGTERM)
        assert second.wait(120) == WORK_LEFT
        assert start("--speed", "1000").wait(60) == 0
        proof = prove(self.output(tmp_path))
        assert (proof.done - proof.lost, proof.runs, proof.finished) == (200_000_000, 3, True)

    def test_its_output_is_checked_from_the_command_line(self, start, tmp_path, capsys):
        assert start("--speed", "2000").wait(60) == 0
        assert main(["--prove", str(tmp_path / "out")]) == 0
        assert capsys.readouterr().out == (
            "200 node-seconds done in 1 runs, 0 of them lost and done again, 200 of 200 count\n"
        )
        (tmp_path / "out").write_text("\n")
        assert main(["--prove", str(tmp_path / "out")]) == 1

    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            (["--work", "0"], "must be more than 0"),
            (["--work", "1", "--nodes-file", "/nowhere"], "No such file"),
            (["--work", "1", "--prove", "x"], "not allowed with"),
            (["--work", "a lot"], "invalid"),
        ],
    )
    def test_bad_input_is_told_and_the_status_is_2(self, options, problem):
        ran = subprocess.run(
            [sys.executable, "-m", "emulator.live.job.program", *options],
            capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=False,
        )  # fmt: skip
        assert (ran.returncode, problem in ran.stderr) == (2, True), ran.stderr
