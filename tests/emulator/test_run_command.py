"""`emulator run` and its neighbours from the command line."""

import gzip
import hashlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from command_line import emulate
from emulator.report import files
from emulator.validation.laws import check
from oracle.reference import ORDERS
from testdata import TRACES

ROOT = Path(__file__).parents[2]
DEFAULT = ROOT / "scenarios" / "default.yaml"
KTH = TRACES / "KTH-SP2-1996-2.swf.xz"
RESULTS = ["events.parquet", "jobs.csv", "jobs.parquet", "report.html", "summary.json"]
JOB = "{number} {submit} 0 60 -1 -1 -1 {nodes} 120 -1 1 -1 -1 -1 -1 -1 -1 -1\n"
SLOW = {
    "name": "slow",
    "nodes": 400,
    "scheduler": "fcfs+conservative",
    "workload": {
        "generate": [{"daily_batch": {"days": 60, "jobs": 60_000, "load": 1.5, "median_run_s": 600}}]
    },
}
"""Minutes of work: nobody waits for its end."""
COMMAND = [sys.executable, "-c", "from emulator.cli import main; main()"]


@pytest.fixture
def emulator(tmp_path, monkeypatch):
    """Run a command in this process, standing in an empty folder."""
    monkeypatch.chdir(tmp_path)

    return emulate


def _desktop(folder, monkeypatch, opens):
    """Have the desktop open files with this script, or have nothing that does."""
    programs = folder / "programs"
    programs.mkdir()
    if opens is not None:
        (programs / "xdg-open").write_text(f"#!/bin/sh\n{opens}\n", encoding="utf-8")
        (programs / "xdg-open").chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))


@pytest.fixture
def log_file(tmp_path):
    def write(*widths, name="good.swf"):
        path = tmp_path / name
        path.write_text(
            "".join(JOB.format(number=n, submit=n, nodes=width) for n, width in enumerate(widths, 1))
        )
        return path

    return write


def environ(**more):
    return os.environ | {"PYTHONPATH": str(ROOT)} | more


def digests(folder):
    names = ("jobs.csv", "jobs.parquet", "events.parquet")
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}


def assert_refused(result, message, folder):
    """Exit status 2, one clear line, nothing written."""
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.startswith("emulator: ")
    assert result.stderr.count("\n") == 1
    assert not folder.exists()


class TestRun:
    def test_the_default_scenario_runs_and_leaves_its_results(self, emulator, tmp_path):
        result = emulator("run", DEFAULT, "--check")
        assert result.exit_code == 0, result.output
        assert "on-demand requests" in result.stdout
        found = sorted(path.name for path in (tmp_path / "runs" / "default").iterdir())
        assert found == ["baseline.json", *RESULTS]
        record = files.load(tmp_path / "runs" / "default")
        assert check(record) == []
        assert record.scenario["name"] == "default"

    def test_a_trace_runs_without_a_scenario(self, emulator, log_file, tmp_path):
        result = emulator("run", "--trace", log_file(4, 4, 4), "--nodes", 4, "--json")
        assert result.exit_code == 0, result.output
        summary = json.loads(result.stdout)
        assert (summary["jobs_run"], summary["mean_wait_s"], summary["makespan_s"]) == (3, 59.0, 180.0)
        assert sorted(path.name for path in (tmp_path / "runs" / "good").iterdir()) == RESULTS

    def test_without_a_report_all_else_is_the_same_and_it_can_be_made_later(
        self, emulator, log_file, tmp_path
    ):
        log = log_file(1, 2, 2)
        for folder, options in (("with", []), ("without", ["--no-report"]), ("with", ["--no-report"])):
            assert emulator("run", "--trace", log, "--nodes", 4, "--out", folder, *options).exit_code == 0
        assert digests(tmp_path / "with") == digests(tmp_path / "without")
        for folder in ("with", "without"):  # that of the first run, whose results are gone, is gone too
            found = sorted(path.name for path in (tmp_path / folder).iterdir())
            assert found == [name for name in RESULTS if name != "report.html"]
        assert emulator("report", "without").exit_code == 0
        assert "<svg" in (tmp_path / "without" / "report.html").read_text()

    def test_json_is_all_that_stdout_has_and_no_figure_is_missing(self, emulator):
        result = emulator("run", DEFAULT, "--json", "--out", "out")
        summary = json.loads(result.stdout)
        wanted = """jobs_run jobs_left_out mean_wait_s median_wait_s max_wait_s mean_response_s
            mean_bounded_slowdown slowdown_weighted_by_area utilization makespan_s wall_s jobs_per_s seed scenario
            versions ondemand_requests ondemand_rejected batch_utilization ondemand_utilization
            reserve_idle_node_h"""
        assert set(wanted.split()) <= set(summary)
        assert (result.exit_code, result.stderr) == (0, "")
        assert summary == json.loads(Path("out/summary.json").read_text())

    def test_options_change_the_scenario(self, emulator):
        result = emulator(
            "run", DEFAULT, "--json", "--out", "out", "--seed", 3, "--scheduler", "sjf+none", "--nodes", 80,
            "--set", "mechanism.balancer.static_reserve=9",
        )  # fmt: skip
        scenario = json.loads(result.stdout)["scenario"]
        assert (scenario["seed"], scenario["scheduler"], scenario["nodes"]) == (3, "sjf+none", 80)
        assert scenario["mechanism"]["balancer"]["static_reserve"] == 9

    def test_a_run_can_be_repeated_from_its_results(self, emulator, tmp_path):
        emulator("run", DEFAULT, "--out", "first")
        scenario = json.loads((tmp_path / "first" / "summary.json").read_text())["scenario"]
        (tmp_path / "again.yaml").write_text(yaml.safe_dump(scenario, sort_keys=False))
        emulator("run", "again.yaml", "--out", "again")
        assert digests(tmp_path / "again") == digests(tmp_path / "first")

    def test_results_may_be_written_over_results(self, emulator, log_file):
        for _ in range(2):
            assert emulator("run", "--trace", log_file(1), "--nodes", 4, "--out", "out").exit_code == 0

    def test_jobs_that_are_too_wide_are_left_out_and_counted(self, emulator, log_file):
        result = emulator("run", "--trace", log_file(1, 9), "--nodes", 4, "--json")
        summary = json.loads(result.stdout)
        assert (summary["jobs_run"], summary["jobs_left_out"]) == (1, {"wider than the cluster": 1})

    @pytest.mark.slow
    def test_the_same_scenario_and_seed_give_the_same_bytes(self, tmp_path):
        found = []
        for seed in ("0", "4711"):
            command = [*COMMAND, "run", str(DEFAULT), "--quiet", "--out", str(tmp_path / seed)]
            subprocess.run(command, check=True, capture_output=True, env=environ(PYTHONHASHSEED=seed))
            found.append(digests(tmp_path / seed))
        assert found[0] == found[1]


class TestKth:
    def run(self, emulator, scheduler):
        result = emulator(
            "run", "--trace", KTH, "--nodes", 100, "--overrun", "kill", "--scheduler", scheduler, "--json"
        )
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def test_conservative_backfilling_gives_the_published_figures(self, emulator):
        summary = self.run(emulator, "fcfs+conservative")
        names = ("mean_wait_s", "mean_response_s", "slowdown_weighted_by_area", "utilization")
        assert [summary[name] for name in names] == pytest.approx([7992, 16_849, 3.10, 0.687], rel=0.005)

    def test_easy_backfilling_gives_the_published_wait(self, emulator):
        assert self.run(emulator, "fcfs+easy")["mean_wait_s"] == pytest.approx(6888, rel=0.01)


class TestLists:
    def test_mechanisms_are_listed_with_their_parameters(self, emulator):
        listed = json.loads(emulator("mechanisms", "--json").stdout)
        assert listed["balancer"]["parameters"] == {
            "algorithm": "basic", "static_reserve": 0, "wait_s": 0, "idle_reserve_s": 600,
            "pick": "longest_idle", "notice_s": 0, "predictor": None,
            "slots_per_day": 4, "keep": "slot", "history": [], "reserve_rule": "fixed",
            "boot_s": 0, "delete_s": 0, "cloud_faults": [], "every": [], "time_zero": None,
            "on_failure": "keep", "failed_after_s": 60,
            "reconcile_period_s": 60,
        }  # fmt: skip
        text = emulator("mechanisms").stdout
        assert "balancer" in text
        assert "static_reserve: 0" in text

    def test_schedulers_are_listed_with_their_options(self, emulator):
        listed = json.loads(emulator("schedulers", "--json").stdout)
        assert set(listed["orders"]) == set(ORDERS)
        assert listed["orders"]["wfp3"]["parameters"] == {"exponent": 3.0, "negative_wait": False}
        assert set(listed["options"]["backfill"]["values"]) == {"none", "easy", "conservative"}
        assert "backfill" in emulator("schedulers").stdout


class TestBadInput:
    def test_a_trace_that_is_cut_off(self, emulator, log_file, tmp_path):
        whole = gzip.compress(log_file(*[1] * 1000).read_bytes())
        cut = tmp_path / "cut.swf.gz"
        cut.write_bytes(whole[: len(whole) // 2])
        assert_refused(
            emulator("run", "--trace", cut, "--out", "out"),
            "cut.swf.gz: the compressed data is cut off",
            tmp_path / "out",
        )

    def test_a_line_with_letters(self, emulator, log_file, tmp_path):
        log = log_file(1, 1)
        log.write_text(log.read_text() + "3 abc 0 60 -1 -1 -1 4 120 -1 1 -1 -1 -1 -1 -1 -1 -1\n")
        assert_refused(
            emulator("run", "--trace", log, "--out", "out"),
            "good.swf:3: field 2 (submit_s) is 'abc', not a number",
            tmp_path / "out",
        )

    def test_jobs_of_which_none_fits_the_cluster(self, emulator, log_file, tmp_path):
        assert_refused(
            emulator("run", "--trace", log_file(8, 9), "--nodes", 4, "--out", "out"),
            "good.swf: no job can be replayed on 4 nodes (2 wider than the cluster)",
            tmp_path / "out",
        )

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--nodes", 0], "nodes: must be at least 1"),
            (["--nodes", 10**12], "nodes: must be at most 10000000"),
            (["--set", "overrun=kill"], "unknown key 'overrun'; did you mean 'workload.overrun'?"),
            (["--set", "workload.nodes=3"], "unknown key 'workload.nodes'; did you mean 'nodes'?"),
            (["--set", "nodez=3"], "unknown key 'nodez'; did you mean 'nodes'?"),
            (["--set", "mechanism=balanser"], "there is no mechanism 'balanser'; did you mean 'balancer'?"),
            (["--set", "mechanism.balancer.algorithm=basik"], "there is no algorithm 'basik'"),
            (
                ["--set", "mechanism.balancer.static_reserve=65"],
                "static_reserve is 65, the cluster has 64 nodes",
            ),
            (
                ["--set", "mechanism.balancer.algorithm=hint"],
                "hint keeps no static reserve, but static_reserve is 6: set it to 0",
            ),
            (
                ["--set", 'mechanism.balancer.every=[{windows: "Mon-Fri 20:00-06:00", nodes: 65}]'],
                "every: 65 nodes, the cluster has 64",
            ),
            (
                [
                    "--set",
                    "mechanism.balancer.cloud_faults=[{do: fail_hosts, at_s: 5, for_s: 6, nodes: n065}]",
                ],
                "cloud_faults: there is no node n065",
            ),
            (["--scheduler", "fcfs+eesy"], "unknown scheduler backfill 'eesy'; did you mean 'easy'?"),
            (["--seed", -1], "seed: must be at least 0"),
            (["--trace", "a.swf"], "give either a scenario file or --trace, not both"),
        ],
    )
    @pytest.mark.parametrize("clock", ["virtual", "live"])
    def test_a_wrong_option(self, emulator, tmp_path, options, message, clock):
        result = emulator("run", DEFAULT, *options, "--out", "out", "--clock", clock)
        assert_refused(result, message, tmp_path / "out")

    @pytest.mark.parametrize(
        ("scheduler", "message"),
        [
            ("{easy: {start_delay_s: 1}}", "scheduler start_delay_s: this is known in virtual time only"),
            ("{cycle_s: 60}", "scheduler cycle_s: a cycle is kept in virtual time only"),
            ("{like: pyss}", "scheduler exact_ends_first: this is known in virtual time only"),
            ("slurm", "scheduler slurm acts at times of its own"),
        ],
    )
    def test_a_scheduler_of_virtual_time_live(self, emulator, tmp_path, scheduler, message):
        result = emulator(
            "run", DEFAULT, "--set", f"scheduler={scheduler}", "--out", "out", "--clock", "live"
        )
        assert_refused(result, message, tmp_path / "out")

    @pytest.mark.parametrize(
        ("clock", "message"),
        [
            ("live", "live.speed: must be more than 0"),
            ("virtual", "--speed: virtual time has no speed; it is that of --clock live; leave it out"),
        ],
    )
    def test_a_wrong_speed(self, emulator, tmp_path, clock, message):
        result = emulator("run", DEFAULT, "--speed", -1, "--out", "out", "--clock", clock)
        assert_refused(result, message, tmp_path / "out")

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--trace", "no.swf"], "no.swf: No such file or directory"),
            (["no.yaml"], "no.yaml: No such file or directory"),
            ([], "give a scenario file or a job log"),
            (["--trace", "."], "not a folder of logs in a known format"),
        ],
    )
    def test_a_file_that_is_not_there(self, emulator, tmp_path, arguments, message):
        assert_refused(emulator("run", *arguments, "--out", "out"), message, tmp_path / "out")

    def test_a_folder_that_holds_something_else(self, emulator, tmp_path):
        mine = tmp_path / "mine"
        mine.mkdir()
        (mine / "thesis.txt").touch()
        result = emulator("run", DEFAULT, "--out", mine)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "mine is not empty and holds no results of ours (found thesis.txt)" in result.stderr
        assert [path.name for path in mine.iterdir()] == ["thesis.txt"]

    def test_a_target_below_a_file_is_refused_before_the_run(self, emulator, tmp_path):
        (tmp_path / "file").touch()
        result = emulator("run", DEFAULT, "--out", "file/out")
        assert_refused_at = f"emulator: cannot make file/out: {tmp_path / 'file'} is a file"
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(assert_refused_at)

    @pytest.mark.slow
    def test_a_disk_that_is_full(self, emulator, tmp_path):
        """No file may grow beyond 4 kB, as on a disk that has no more: the kernel refuses the write."""

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

        command = [*COMMAND, "run", str(DEFAULT), "--quiet", "--out", str(tmp_path / "out")]
        # The kernels must not be compiled in there: their cache could not be written either.
        assert emulator("run", DEFAULT, "--out", tmp_path / "whole").exit_code == 0
        shutil.rmtree(tmp_path / "whole")
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, env=environ(), preexec_fn=limit
        )
        assert (done.returncode, done.stdout) == (2, "")
        assert "emulator: cannot write results into" in done.stderr
        assert done.stderr.count("\n") == 1
        assert list(tmp_path.iterdir()) == []

    def test_a_wrong_command_is_told_with_the_nearest_right_one(self, emulator):
        result = emulator("rum")
        assert result.exit_code == 2
        assert "unknown command 'rum'; did you mean 'run'?" in result.stderr


class TestStartUp:
    def test_what_needs_no_kernels_does_not_load_them(self):
        code = f"""
import sys
from emulator.cli import main
slow = {{"numba", "matplotlib", "openstack", "emulator.kernel.kernel", "pyarrow"}}
for words in ["--help"], ["run", "--help"], ["schedulers"], ["sweep", "--help"]:
    main(words, standalone_mode=False)
    assert not slow & set(sys.modules), (words, slow & set(sys.modules))
slow.remove("pyarrow")
for words in ["compare", "--help"], ["trace", "info", {str(KTH)!r}]:
    main(words, standalone_mode=False)
    assert not slow & set(sys.modules), (words, slow & set(sys.modules))
"""
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env=environ())

    def test_a_run_loads_no_plotting_library_and_no_pandas(self, log_file, tmp_path):
        run = ["run", "--trace", str(log_file(1, 2)), "--nodes", "4", "--out", str(tmp_path / "out")]
        code = f"""
import sys
from click.testing import CliRunner
from emulator.cli import main
result = CliRunner().invoke(main, {run!r})
assert result.exit_code == 0, result.output
print(*sorted({{"matplotlib", "pandas", "pyarrow.compute"}} & set(sys.modules)))
"""
        # The first process compiles what nobody has compiled before.
        _, again = (
            subprocess.run(
                [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=environ()
            )
            for _ in range(2)
        )
        assert again.stdout == "\n"

    def test_help_loads_next_to_nothing(self):
        code = """
import sys
from emulator.cli import main
main(["--help"], standalone_mode=False)
slow = {"numpy", "pydantic", "pyarrow", "yaml", "rich.console"} & set(sys.modules)
assert not slow, slow
"""
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env=environ())


class TestInterrupt:
    @pytest.fixture
    def long_run(self, tmp_path):
        """A run in the middle of its work."""
        (tmp_path / "slow.yaml").write_text(yaml.safe_dump(SLOW))
        command = [*COMMAND, "run", "slow.yaml", "--out", "out"]
        with subprocess.Popen(
            command, cwd=tmp_path, env=environ(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stderr.readline().startswith("cluster time")
            yield process
            process.kill()

    @pytest.mark.slow
    def test_ctrl_c_leaves_a_valid_partial_result(self, long_run, tmp_path):
        long_run.send_signal(signal.SIGINT)
        _, errors = long_run.communicate(timeout=200)
        assert long_run.returncode == 130
        assert "emulator: stopped by the user; what was done is in out" in errors
        summary = files.load_summary(tmp_path / "out")
        assert summary["interrupted"] == "stopped by the user"
        assert 0 < summary["jobs_run"] < 60_000
        assert summary["jobs_run"] + summary["jobs_unfinished"] == 60_000
        record = files.load(tmp_path / "out")
        assert check(record) == []
        assert [mark.text for mark in record.marks] == ["interrupted: stopped by the user"]

    @pytest.mark.slow
    def test_sigterm_ends_it_in_the_same_way(self, long_run, tmp_path):
        long_run.terminate()
        long_run.communicate(timeout=200)
        assert long_run.returncode == 143
        assert files.load_summary(tmp_path / "out")["interrupted"]

    @pytest.mark.slow
    def test_a_second_ctrl_c_stops_at_once(self, long_run, tmp_path):
        long_run.send_signal(signal.SIGINT)
        while "once more stops at once" not in long_run.stderr.readline():
            pass
        long_run.send_signal(signal.SIGINT)
        _, errors = long_run.communicate()
        assert long_run.returncode == 130
        assert errors.splitlines()[-1] == "emulator: stopped at once; no results were written"
        assert [path.name for path in tmp_path.iterdir()] == ["slow.yaml"]


class TestManners:
    @pytest.mark.parametrize("command", [["run"], []], ids=["run LOG", "LOG"])
    def test_a_log_is_run_without_saying_that_it_is_one(self, emulator, log_file, command):
        log = log_file(4, 4, 4)
        result = emulator(*command, log, "--nodes", 4, "--json")
        assert result.exit_code == 0, result.output
        assert json.loads(result.stdout)["scenario"]["workload"]["trace"] == str(log)

    def test_a_scenario_is_run_without_saying_run(self, emulator, log_file, tmp_path):
        (tmp_path / "my.yaml").write_text(
            yaml.safe_dump({"nodes": 4, "workload": {"trace": str(log_file(4))}})
        )
        assert json.loads(emulator("my.yaml", "--json").stdout)["jobs_run"] == 1

    def test_a_wrong_command_is_no_file(self, emulator):
        result = emulator("rum")
        assert (result.exit_code, "did you mean 'run'?" in result.stderr) == (2, True)

    @pytest.mark.parametrize(
        "words", [["run"], ["compare"], ["trace", "info"], ["sweep"], ["fleet", "up"], ["gui"], []]
    )
    def test_h_is_help_everywhere(self, emulator, words):
        result = emulator(*words, "-h")
        assert result.exit_code == 0
        assert result.stdout.startswith("Usage: ")

    def test_gui_finds_the_newest_report_and_makes_one_that_is_not_there(
        self, emulator, log_file, tmp_path, monkeypatch
    ):
        opened = tmp_path / "opened"
        _desktop(tmp_path, monkeypatch, f'echo "$1" >> {opened}')
        result = emulator("gui")
        assert (result.exit_code, "there are no results in runs/" in result.stderr) == (2, True)
        for name in ("old", "new"):
            emulator("run", log_file(4), "--nodes", 4, "--out", f"runs/{name}", "--no-report")
        os.utime(tmp_path / "runs" / "old" / "summary.json", ns=(1, 1))
        page = tmp_path / "runs" / "new" / "report.html"
        assert emulator("gui").stdout == "runs/new/report.html\n"
        assert page.exists()
        assert opened.read_text() == f"{page}\n"
        assert emulator("gui", "runs/old", "--print").stdout == "runs/old/report.html\n"
        assert opened.read_text() == f"{page}\n"
        wrong = emulator("gui", "runs", "--print")
        assert (wrong.exit_code, "runs/summary.json does not exist" in wrong.stderr) == (2, True)

    @pytest.mark.parametrize("kind", ["studies", "sweeps", "reproduce"])
    def test_gui_opens_the_page_of_a_study_a_sweep_and_a_paper_too(
        self, emulator, log_file, tmp_path, monkeypatch, kind
    ):
        _desktop(tmp_path, monkeypatch, "true")
        emulator("run", log_file(4), "--nodes", 4, "--out", "runs/old", "--no-report")
        os.utime(tmp_path / "runs" / "old" / "summary.json", ns=(1, 1))
        page = tmp_path / kind / "mine" / "report.html"
        page.parent.mkdir(parents=True)
        page.touch()
        assert emulator("gui").stdout == f"{kind}/mine/report.html\n"

    @pytest.mark.parametrize("program", ["echo noise >&2; exit 3", None])
    def test_gui_without_a_browser_says_what_to_do(self, tmp_path, monkeypatch, program):
        _desktop(tmp_path, monkeypatch, program)
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "report.html").touch()
        done = subprocess.run(
            [*COMMAND, "gui", "mine"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (1, "mine/report.html\n")
        assert done.stderr == (
            "emulator: no browser could be started here; open the file above in one, or copy it to a machine that has"
            " one\n"
        )

    def test_completion_is_told_by_the_shell_that_asks(self, monkeypatch):
        script = emulate(env={"_EMULATOR_COMPLETE": "bash_source"})
        assert "_emulator_completion" in script.stdout
        asked = {"_EMULATOR_COMPLETE": "bash_complete", "COMP_WORDS": "emulator comp", "COMP_CWORD": "1"}
        assert emulate(env=asked).stdout == "plain,compare\n"


def test_a_run_of_an_accounting_log_tells_what_is_no_job_of_its_own(emulator, tmp_path):
    row = "{job}|1767225600|1767225610|1767225670|60|5|1|8|COMPLETED\n"
    head = "JobIDRaw|Submit|Start|End|ElapsedRaw|TimelimitRaw|NNodes|NCPUS|State\n"
    log = tmp_path / "slurm.txt"
    log.write_text(head + row.format(job="7") + row.format(job="7.batch") + row.format(job="7.0"))
    result = emulator("run", "--trace", log, "--nodes", 4, "--out", "results")
    assert result.exit_code == 0
    assert "no job of its own: step of a job  2" in result.output
    summary = json.loads((tmp_path / "results" / "summary.json").read_text())
    assert (summary["jobs_run"], summary["jobs_changed"]) == (1, {"no job of its own: step of a job": 2})


def test_a_key_below_what_an_option_says_is_set_in_it(emulator, log_file, tmp_path):
    """The option goes first: it does not undo what was set."""
    (tmp_path / "slurm.conf").write_text("NodeName=n[001-004] CPUs=4\nPartitionName=all Nodes=ALL\n")
    words = ["run", log_file(1, 2), "--nodes", 4, "--no-report", "--out", tmp_path / "out"]
    for scheduler, change, wrong in (
        ("slurm:slurm.conf", "scheduler.slurm.bf_interval=-7", "bf_interval must be at least 1, not -7"),
        ("slurm", "scheduler.slurm.bf_interval=-7", "bf_interval must be at least 1, not -7"),
        ("fcfs+conservative", "scheduler.cycle_s=-1", "cycle_s must be at least 0, not -1"),
        (
            "fcfs+easy+best_fit+more",
            "scheduler.cycle_s=60",
            "unknown scheduler option 'fcfs+easy+best_fit+more'",
        ),
    ):
        refused = emulator(*words, "--scheduler", scheduler, "--set", change)
        assert (refused.exit_code, wrong in refused.output) == (2, True), refused.output
    assert emulator(*words, "--scheduler", "sjf+easy", "--set", "scheduler.cycle_s=60").exit_code == 0
    scheduler = json.loads((tmp_path / "out/summary.json").read_text())["scenario"]["scheduler"]
    assert scheduler == {"order": "sjf", "backfill": "easy", "cycle_s": 60}


@pytest.mark.parametrize("scheduler", ["slurm", "slurm:", "{slurm: null}", "{slurm: {}}", "{decide: slurm}"])
def test_a_scheduler_without_parameters_may_be_written_in_any_way(emulator, tmp_path, scheduler):
    log = tmp_path / "sacct.txt"  # which has names of queues
    log.write_text(
        "JobIDRaw|Submit|Start|ElapsedRaw|NNodes|State|User|Partition\n1|100|100|60|1|COMPLETED|ann|a\n"
    )
    done = emulator(
        "run", log, "--nodes", 2, "--scheduler", scheduler, "--no-report", "--out", tmp_path / "out"
    )
    assert done.exit_code == 0, done.output
    assert "batch jobs run" in done.output


@pytest.mark.parametrize(
    ("option", "change"),
    [
        (["--scheduler", "sjf+easy"], "scheduler=fcfs"),
        (["--seed", 2], "seed=3"),
        (["--overrun", "kill"], "workload={}"),
        (["--overrun", "kill"], "workload.overrun=extend"),
    ],
)
def test_what_an_option_and_a_change_both_say_is_refused(emulator, log_file, option, change):
    refused = emulator("run", log_file(1, 2), "--nodes", 4, *option, "--set", change)
    assert refused.exit_code == 2
    assert f"--set {change}: {option[0]} says it, too; leave one of the two out" in refused.output
