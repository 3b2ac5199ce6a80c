"""What Slurm cannot do is said before anything has begun."""

from types import SimpleNamespace

import pytest

from emulator.live.batch_system import make_batch_system
from emulator.live.fleet import Fleet
from emulator.live.slurm import programs, system
from emulator.live.slurm.programs import find_library
from emulator.runs.preparation import prepare
from emulator.runs.scenario import ScenarioError, from_mapping, load

BATCH = {"generate": [{"daily_batch": {"days": 0.1, "jobs": 5, "load": 0.5}}]}


ONE_MIDPLANE = {"torus": [1, 1, 1, 1], "shapes": [[1, 1, 1, 1]]}


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Slurm, libfaketime and a name of the machine that leads to it, for who only looks whether they are there."""
    monkeypatch.setattr("socket.gethostbyname", lambda _name: "127.0.1.1")
    monkeypatch.setattr(system, "_PROGRAMS", ())
    monkeypatch.setattr(
        system, "find_library", lambda given, _root: find_library(given) if given else tmp_path / "lib"
    )


@pytest.fixture
def no_root(monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("pwd.getpwuid", lambda _number: SimpleNamespace(pw_name="alice"))


def scenario(batch="slurm", mechanism=None, nodes=4, **live):
    return from_mapping(
        {"nodes": nodes, "workload": BATCH, "mechanism": mechanism, "live": {"batch": batch} | live}
    )


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        ({"pace": "held"}, "held is not possible with this batch system"),
        ({"batch": "slurmm"}, "did you mean 'slurm'"),
        ({"batch": {"slurm": {"config": "x"}}}, "no parameter 'config'"),
        (
            {"mechanism": {"oversubscribe": {"cores": 4}}},
            "jobs on Slurm have whole nodes, which oversubscribe shares",
        ),
        ({"mechanism": {"hybrid": {}}}, "with this mechanism set live.jobs to emulator-job"),
        (
            {"nodes": 512, "mechanism": {"realtime": {"topology": {"blue_gene_q": ONE_MIDPLANE}}}},
            "use a topology that gives them so many",
        ),
        (
            {"batch": {"slurm": {"users": {1: "root"}}}, "jobs": "emulator-job"},
            "processes of others cannot write",
        ),
        ({"batch": {"slurm": {"conf": "nowhere.conf"}}}, "nowhere.conf: cannot be read"),
        ({"batch": {"slurm": {"libfaketime": "/nowhere.so"}}}, "/nowhere.so is no file"),
        ({"batch": {"slurm": {"accounting": "mysql"}}}, "accounting.*'jobcomp' or 'slurmdbd'"),
        ({"batch": {"slurm": {"accounts": {1: "physics"}}}}, "accounts: Slurm's job log has no accounts"),
        ({"batch": {"slurm": {"sacctmgr": ["add qos 'a"]}}}, "No closing quotation"),
        (
            {"batch": {"slurm": {"accounting": "slurmdbd", "sacctmgr": ["add qos a PreemptMode=cancel"]}}},
            "sacctmgr: PreemptMode=cancel: in a live run .* say REQUEUE or OFF",
        ),
        ({"batch": {"slurm": {"users": {1: "alice"}}}}, "only root can submit jobs for others"),
    ],
)
def test_a_run_that_is_not_possible_is_refused_with_the_reason(installed, no_root, tmp_path, wanted, problem):
    asked = scenario(**wanted)
    with pytest.raises(ScenarioError, match=problem):
        Fleet(asked, prepare(asked), tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("weight", ["PriorityWeightAge", "PriorityWeightFairshare"])
def test_a_priority_that_changes_is_refused_without_a_database_where_slurm_works_it_out_once(
    installed, tmp_path, weight
):
    conf = tmp_path / "site.conf"
    conf.write_text(f"PriorityType=priority/multifactor\n{weight}=1000\n")
    asked = scenario(batch={"slurm": {"conf": str(conf)}})
    work = tmp_path / "work"
    work.mkdir()
    with pytest.raises(
        ScenarioError, match=rf"site\.conf: {weight} counts only with slurmdbd .* set accounting"
    ):
        Fleet(asked, prepare(asked), work)
    conf.write_text(f"PriorityType=priority/basic\n{weight}=1000\n")
    Fleet(asked, prepare(asked), work)


@pytest.mark.parametrize(
    "said", ["PreemptMode=CANCEL", "PartitionName=low Nodes=ALL PreemptMode=suspend,gang"]
)
def test_a_preempted_job_that_would_not_wait_again_is_refused(installed, tmp_path, said):
    conf = tmp_path / "site.conf"
    conf.write_text(f"PreemptType=preempt/partition_prio\nPartitionName=high Nodes=ALL Default=YES\n{said}\n")
    asked = scenario(batch={"slurm": {"conf": str(conf)}})
    work = tmp_path / "work"
    work.mkdir()
    mode = said.rpartition("=")[2]
    with pytest.raises(
        ScenarioError, match=rf"site\.conf: PreemptMode={mode}: in a live run .* say REQUEUE or OFF"
    ):
        Fleet(asked, prepare(asked), work)
    again = conf.read_text().replace(mode, "REQUEUE")
    conf.write_text(f"{again}JobRequeue=0\n")
    with pytest.raises(ScenarioError, match=r"JobRequeue=0 with PreemptMode=REQUEUE: .* leave it out"):
        Fleet(asked, prepare(asked), work)
    conf.write_text(again)
    Fleet(asked, prepare(asked), work)


def test_a_user_whom_this_machine_does_not_know_is_refused_before_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    asked = scenario(batch={"slurm": {"users": {1: "nobody-of-that-name"}}})
    with pytest.raises(ScenarioError, match="users: this machine has no user nobody-of-that-name"):
        Fleet(asked, prepare(asked), tmp_path)


def test_a_machine_whose_name_leads_to_its_network_is_told_what_to_do(installed, tmp_path, monkeypatch):
    monkeypatch.setattr("socket.gethostname", lambda: "head.site")
    monkeypatch.setattr("socket.gethostbyname", {"head.site": "192.0.2.7"}.__getitem__)
    asked = scenario()
    problem = r"leads to 192\.0\.2\.7, .* a line in /etc/hosts: 127\.0\.1\.1 head\.site"
    with pytest.raises(ScenarioError, match=problem):
        Fleet(asked, prepare(asked), tmp_path)


@pytest.mark.parametrize("line", ["", "SchedulerParameters=bf_max_job_user=1"])
def test_who_has_a_number_only_as_in_some_containers_is_told_to_take_a_name(
    installed, tmp_path, monkeypatch, line
):
    conf = tmp_path / "site.conf"
    conf.write_text(line)

    def unknown(number):
        raise KeyError(f"getpwuid(): uid not found: {number}")

    monkeypatch.setattr("os.geteuid", lambda: 1000)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    asked = scenario(batch={"slurm": {"conf": str(conf)}})
    with pytest.raises(ScenarioError, match=r"user 1000 has no name .* /etc/passwd: NAME:x:1000:"):
        Fleet(asked, prepare(asked), tmp_path)
    assert list(tmp_path.iterdir()) == [conf]


def test_a_machine_without_slurm_is_told_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "_SEARCH", str(tmp_path))
    asked = scenario()
    with pytest.raises(
        ScenarioError, match=r"not installed: slurmctld, slurmd, .* apt-get install slurmctld"
    ):
        Fleet(asked, prepare(asked), tmp_path)


def test_a_machine_without_a_database_is_told_so_only_if_the_run_wants_one(tmp_path, monkeypatch):
    monkeypatch.setattr("socket.gethostbyname", lambda _name: "127.0.1.1")
    for name in system._PROGRAMS:
        (tmp_path / name).touch(0o755)
    monkeypatch.setattr(programs, "_SEARCH", str(tmp_path))
    monkeypatch.setattr(system, "find_library", lambda *_: tmp_path / "libfaketime")
    wanted = scenario(batch={"slurm": {"accounting": "slurmdbd"}})
    missing = "not installed: sacctmgr, .*mariadbd, .* apt-get install .* slurmdbd mariadb-server"
    with pytest.raises(ScenarioError, match=missing):
        Fleet(wanted, prepare(wanted), tmp_path)
    assert Fleet(scenario(), prepare(scenario()), tmp_path)


def test_a_batch_system_with_a_clock_of_its_own_is_not_held_unless_somebody_says_so():
    assert scenario().live.pace == "free"
    assert scenario(pace="strict").live.pace == "strict"
    assert scenario(batch="torque").live.pace == "held"
    assert not make_batch_system(scenario()).can_wait


def test_the_sites_file_is_found_beside_the_scenario(tmp_path):
    (tmp_path / "site.conf").write_text("PartitionName=debug Nodes=ALL Default=YES\n", encoding="utf-8")
    text = f"{{nodes: 4, workload: {BATCH}, live: {{batch: {{slurm: {{conf: site.conf}}}}}}}}".replace(
        "'", ""
    )
    (tmp_path / "scenario.yaml").write_text(text, encoding="utf-8")
    found = make_batch_system(load(tmp_path / "scenario.yaml"))
    assert found.fragment(("n1",)).partitions == ["debug"]
