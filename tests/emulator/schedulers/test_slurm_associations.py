"""Associations in Slurm's twin: each form of sacctmgr, shares, limits of users and accounts, and who is whose."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from balancer.clock import US
from command_line import emulate
from emulator.cluster.slurm_scheduler import Slurm
from emulator.runs.scenario import load as load_scenario
from emulator.schedulers.config import SchedulerConfig
from emulator.schedulers.slurm.associations import Association, read_associations
from emulator.simulation.run import simulate
from emulator.validation.laws import assert_lawful
from emulator.workload.table import JobTable
from testdata import RECORDED

if TYPE_CHECKING:
    from pathlib import Path

RECORDINGS = RECORDED / "slurm/24.11"
TREE = RECORDINGS / "sacctmgr-assoc-tree.txt"


def read(path: Path, cluster: str = "") -> tuple[tuple[Association, ...], list[str]]:
    told: list[str] = []
    return read_associations(path, 32, cluster, told), told


def table(folder: Path, text: str) -> Path:
    path = folder / "assoc.txt"
    path.write_text(text, encoding="utf-8")
    return path


# -- the table ------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["tree", "json", "yaml"])
def test_forms_that_say_which_account_is_below_which_say_the_same(form: str) -> None:
    found, told = read(RECORDINGS / f"sacctmgr-assoc-{form}.txt")
    by_name = {each.name: each for each in found}
    assert list(by_name) == [
        "root", "chem", "physics", "lab", "theory", "root/root", "chem/averylongusername", "chem/bob", "lab/cyd in gpu",
        "theory/ann", "theory/bob",
    ]  # fmt: skip
    above = {each.name: found[each.parent].name for each in found if each.parent >= 0}
    assert (above["lab"], above["physics"], above["theory/bob"]) == ("physics", "root", "theory")
    # 60 of 101 shares at the top (40 chem, 1 user root), 3 of 4 in physics, 5 of 6 in theory.
    parts = [by_name[name].share for name in ("physics", "theory", "theory/ann")]
    assert parts == pytest.approx([60 / 101, 3 / 4, 5 / 6])
    cyd = by_name["lab/cyd in gpu"]
    assert (cyd.share, found[cyd.level].name) == (None, "lab")
    physics, bob, ann = by_name["physics"], by_name["theory/bob"], by_name["theory/ann"]
    assert (physics.grp_jobs, physics.grp_nodes, physics.max_jobs) == (10, 8, 5)
    assert (bob.max_jobs, bob.max_nodes, bob.max_wall, bob.grp_nodes) == (2, 4, 2880, -1)
    assert (ann.max_jobs, ann.max_nodes, ann.max_wall) == (5, -1, 2880)
    assert (cyd.qos, by_name["chem/bob"].qos, ann.qos) == ("long", "normal", "")
    name = f"sacctmgr-assoc-{form}.txt"
    assert f"{name}: MaxSubmit=7 of 1 association: Slurm would take no more jobs at once" in told
    assert sum("of 1 association: gres/gpu is no limit in the twin" in each for each in told) == 1
    assert len(told) == 2


@pytest.mark.parametrize("form", ["parsable", "parsable2", "wide"])
def test_forms_that_do_not_say_it_are_read_and_told(form: str) -> None:
    found, told = read(RECORDINGS / f"sacctmgr-assoc-{form}.txt")
    theory = next(each for each in found if each.name == "theory")
    assert (found[theory.parent].name, theory.share) == ("root", pytest.approx(3 / 105))
    assert told[0] == (
        f"sacctmgr-assoc-{form}.txt: account physics without users: it does not say which accounts are below which, so"
        " each is taken to be right below root; `sacctmgr show assoc tree --parsable2` says it"
    )


def test_a_name_that_was_cut_at_its_width_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"fixed.txt:6: User=averylong\+ is cut at the width.* assoc tree --parsable2"
    ):
        read(RECORDINGS / "sacctmgr-assoc-fixed.txt")


def test_a_column_of_parents_says_it_too(tmp_path: Path) -> None:
    text = "Account|ParentName|User|Share\nb|a||1\nb||ann|1\na|root||3\nroot|||1\n"
    found, told = read(table(tmp_path, text))
    assert [each.name for each in found] == ["root", "a", "b", "b/ann"]
    assert (found[2].parent, told) == (1, [])


def test_a_tree_of_fixed_width_is_deep_where_its_column_begins_at_the_left(tmp_path: Path) -> None:
    rows = [("root", "", "1"), (" a", "", "3"), ("  b", "", "1"), ("   b", "ann", "1")]
    heading = f"{'Account':<20} {'User':>10} {'Share':>9} \n{'-' * 20} {'-' * 10} {'-' * 9} \n"
    text = heading + "".join(f"{account:<20} {user:>10} {share:>9} \n" for account, user, share in rows)
    found, told = read(table(tmp_path, text))
    assert ([each.name for each in found], found[2].parent, told) == (["root", "a", "b", "b/ann"], 1, [])


def test_shares_below_an_account_that_has_those_above_it_count_on_its_level(tmp_path: Path) -> None:
    text = "Account|User|Share\nroot||1\n a||parent\n  a|ann|1\n  a|bob|parent\n b||3\n"
    found, _ = read(table(tmp_path, text))
    by_name = {each.name: each for each in found}
    assert by_name["a/ann"].share == pytest.approx(1 / 4)
    assert by_name["b"].share == pytest.approx(3 / 4)
    assert [found[by_name[name].level].name for name in ("a", "a/ann", "a/bob", "b")] == ["root"] * 4
    assert [by_name[name].share for name in ("a", "a/bob")] == [None, None]


def test_of_several_clusters_that_of_the_slurm_conf_counts(tmp_path: Path) -> None:
    path = table(
        tmp_path, "Cluster|Account|User|Share\none|root||1\none|root|ann|1\ntwo|root||1\ntwo|root|bob|1\n"
    )
    with pytest.raises(
        ValueError, match=r"clusters one, two; write those of one \(.*cluster=one.*ClusterName"
    ):
        read(path)
    assert [each.name for each in read(path, "two")[0]] == ["root", "root/bob"]
    conf = tmp_path / "slurm.conf"
    conf.write_text("ClusterName=Two\n")
    slurm = Slurm(conf=conf, associations=path, users={1: "bob"})
    assert [each.name for each in slurm.rules(4).associations] == ["root", "root/bob"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Account|User|Share\nchem|ann|1\n", "no row of an account .*; write what `sacctmgr show assoc tree"),
        ("Account|User|Share\n|ann|1\n", r"assoc.txt:2: this association has no account"),
        ("Account|User|Share\nroot||few\n", r"assoc.txt:2: Share=few: expected a whole number, or parent"),
        ("Account|ParentName|User\nroot|||\na|b||\nb|a||\n", "account a is below b, which is not below root"),
        ("Account|User|MaxJobs\nroot||few\n", r"assoc.txt:2: root: MaxJobs=few: expected a number"),
        ("User|Share\nann|1\n", r"assoc.txt:1: no heading with Account"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read(table(tmp_path, text))


def test_what_is_not_there_and_not_done_is_told(tmp_path: Path) -> None:
    text = (
        "Account|User|Share|Priority|GrpTRESMins|Odd\nroot||1|||\nroot|ann|1|5|cpu=7|\nnew|bob|1|5|cpu=8|x\n"
    )
    _, told = read(table(tmp_path, text))
    assert told == [
        "assoc.txt: account new without a row of its own, so without shares and limits",
        "assoc.txt: Priority=5 of 2 associations: the twin has no priorities of associations",
        "assoc.txt: GrpTRESMins of 2 associations: Slurm would start no more jobs once so much has been used",
        "assoc.txt: Odd=x of 1 association: no column that is known here, so what it would have done is not",
    ]


# -- runs -----------------------------------------------------------------------------

COLUMNS = (
    "Account",
    "User",
    "Partition",
    "Share",
    "GrpJobs",
    "GrpTRES",
    "MaxJobs",
    "MaxTRES",
    "MaxWall",
    "Def QOS",
)


def tree(*lines: str) -> str:
    """What sacctmgr prints, of lines such as ` a/ann Share=3` that stand as deep as they are."""
    rows = []
    for line in lines:
        who, *words = line.split()
        account, _, user = who.partition("/")
        said = dict(word.replace("_", " ").split("=", 1) for word in words) | {"User": user}
        said["Account"] = " " * (len(line) - len(line.lstrip())) + account
        rows.append("|".join(said.pop(column, "") for column in COLUMNS))
        assert not said
    return "\n".join(["|".join(COLUMNS), *rows, ""])


Job = tuple[int, int, int]
"""User, nodes, account (a group of the log)."""


def starts(folder: Path, text: str, jobs: list[Job], **settings: Any) -> list[float]:
    """Jobs of five minutes, a second apart, on eight nodes: users 1 ann, 2 bob, 3 cyd; accounts 1 a, 2 b."""
    users, nodes, groups = zip(*jobs, strict=True)
    built = JobTable.build(
        submit_us=[place * US for place in range(len(jobs))],
        run_us=[300 * US] * len(jobs),
        estimate_us=[300 * US] * len(jobs),
        nodes=list(nodes),
        user=list(users),
        group=list(groups),
    )
    said = {"associations": table(folder, text), "users": {1: "ann", 2: "bob", 3: "cyd"}}
    said |= {"accounts": {1: "a", 2: "b"}, **settings}
    record = simulate(built, 8, SchedulerConfig(decide={"slurm": said}))
    assert_lawful(record)
    return [each / US for each in record.start_us.tolist()]


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (("root", " a", "  a/ann", "  a/bob"), [0, 1, 2]),
        (("root", " a", "  a/ann MaxJobs=1", "  a/bob"), [0, 300, 2]),
        (("root", " a MaxJobs=1", "  a/ann", "  a/bob"), [0, 300, 2]),  # of each user by himself
        (("root", " a GrpJobs=1", "  a/ann", "  a/bob"), [0, 300, 600]),  # of all of them
        (("root GrpTRES=node=4", " a", "  a/ann", "  a/bob"), [0, 1, 300]),
    ],
)
def test_a_job_waits_for_the_limits_of_its_association_and_those_above(
    tmp_path: Path, lines: tuple[str, ...], found: list[float]
) -> None:
    text = tree(*lines)
    jobs: list[Job] = [(1, 2, 1), (1, 2, 1), (2, 2, 1)]
    assert starts(tmp_path, text, jobs) == found
    assert starts(tmp_path, text, jobs, enforce_limits=False) == [0, 1, 2]


def test_the_account_that_the_log_names_counts_else_the_first(tmp_path: Path) -> None:
    text = tree("root", " a", "  a/ann MaxJobs=1", " b", "  b/ann")
    assert starts(tmp_path, text, [(1, 1, 1), (1, 1, 1)]) == [0, 300]
    assert starts(tmp_path, text, [(1, 1, 2), (1, 1, 2)]) == [0, 1]
    assert starts(tmp_path, text, [(1, 1, -1), (1, 1, -1)]) == [0, 300]


def test_an_association_with_a_partition_counts_there_alone(tmp_path: Path) -> None:
    text = tree("root", " a", "  a/ann Partition=fast MaxJobs=1", "  a/ann")
    conf = tmp_path / "slurm.conf"
    conf.write_text("PartitionName=fast Nodes=ALL Default=YES\nPartitionName=slow Nodes=ALL\n")
    jobs: list[Job] = [(1, 1, 1), (1, 1, 1)]
    said = {"conf": conf, "enforce_limits": True}
    assert starts(tmp_path, text, jobs, **said) == [0, 300]
    assert starts(tmp_path, text, jobs, **said, queues={-1: "slow"}) == [0, 1]


def test_limits_of_a_qos_stand_above_those_of_associations(tmp_path: Path) -> None:
    text = tree("root", " a GrpJobs=1", "  a/ann Def_QOS=few")
    jobs: list[Job] = [(1, 1, 1), (1, 1, 1), (1, 1, 1)]
    assert starts(tmp_path, text, jobs, qos={"few": {"GrpJobs": 2}}) == [0, 1, 300]
    assert starts(tmp_path, text, jobs, qos={"few": {"MaxJobsPU": 3}}) == [0, 300, 600]
    with pytest.raises(ValueError, match="association a/ann has QOS 'few'; there are: normal"):
        starts(tmp_path, text, jobs, qos={})


@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("MaxTRES=node=1", "association a takes no more than 1 nodes"),
        ("MaxWall=4", "association a takes limits up to 4 minutes"),
        ("GrpTRES=node=1", "association a takes no more than 1 nodes"),
    ],
)
def test_a_job_that_its_association_would_never_start_is_refused(
    tmp_path: Path, limit: str, said: str
) -> None:
    text = tree("root", f" a {limit}", "  a/ann")
    with pytest.raises(ValueError, match=said):
        starts(tmp_path, text, [(1, 2, 1)])


def test_who_has_more_of_the_shares_comes_first(tmp_path: Path) -> None:
    """Both used as much; then both ask for all nodes."""
    jobs: list[Job] = [(1, 4, 1), (2, 4, 2), (1, 8, 1), (2, 8, 2)]
    fair = {"priority_type": "multifactor", "priority_weight_fairshare": 1000, "priority_calc_period": 60}
    text = tree("root", " a Share={}", "  a/ann", " b Share={}", "  b/bob")
    assert starts(tmp_path, text.format(1, 9), jobs, **fair)[2:] == [601, 301]
    assert starts(tmp_path, text.format(9, 1), jobs, **fair)[2:] == [301, 601]


def test_a_cycle_tries_only_so_many_jobs_of_an_association(tmp_path: Path) -> None:
    """Ann's three wait behind bob's, who has too few nodes; of her two in one account a cycle tries the first."""
    text = tree("root", " a", "  a/ann", "  a/bob", " b", "  b/ann")
    jobs: list[Job] = [(2, 5, 1), (2, 4, 1), (1, 1, 1), (1, 1, 2), (1, 1, 1)]
    assert starts(tmp_path, text, jobs, sched_interval=-1)[2:] == [30, 30, 30]
    assert starts(tmp_path, text, jobs, sched_interval=-1, bf_max_job_assoc=1)[2:] == [30, 30, 60]
    assert starts(tmp_path, text, jobs, sched_interval=-1, bf_max_job_assoc=1, bf_max_job_user=1)[2:] == [
        30,
        30,
        60,
    ]


def test_names_are_needed_and_shares_are_said_once(tmp_path: Path) -> None:
    text = tree("root", " a", "  a/ann")
    with pytest.raises(
        ValueError, match="associations are of users by name, and the log has numbers; say which is who"
    ):
        starts(tmp_path, text, [(1, 1, 1)], users={})
    with pytest.raises(ValueError, match="shares are those of the associations; leave one of the two out"):
        starts(tmp_path, text, [(1, 1, 1)], shares={1: 2.0})


def test_runs_and_whatif_take_names_from_the_log_and_tell_who_has_no_association(tmp_path: Path) -> None:
    log, conf = tmp_path / "log.txt", tmp_path / "slurm.conf"
    rows = "".join(
        f"{place}|{1000 + place}|{1000 + place}|60|1|1|COMPLETED|{user}|theory\n"
        for place, user in enumerate(("bob", "bob", "bob", "ann", "dan"))
    )
    log.write_text(f"JobIDRaw|Submit|Start|ElapsedRaw|TimelimitRaw|NNodes|State|User|Account\n{rows}")
    conf.write_text(
        "ClusterName=emu\nAccountingStorageEnforce=limits\nPriorityType=priority/multifactor\nPriorityWeightFairshare=10\n"
    )
    scheduler = f"scheduler={{slurm: {{conf: {conf}, associations: {TREE}}}}}"
    out = tmp_path / "out"
    done = emulate("run", log, "--nodes", "8", "--set", scheduler, "--anonymous", "--out", out)
    assert done.exit_code == 0, done.output
    told = json.loads((out / "summary.json").read_text())["not_followed"]
    whose = "user 3 of the log without an association: Slurm would refuse their jobs"
    assert sum(whose in each for each in told) == 1
    assert sum("Def QOS=long: no table says what these QOS are (qos)" in each for each in told) == 1
    for file in ("summary.json", "report.html"):
        assert not any(name in (out / file).read_text() for name in ("averylongusername", "bob"))
    asked = [
        "whatif",
        "--log",
        str(log),
        "--slurm-conf",
        str(conf),
        "--nodes",
        "8",
        "--set",
        "enforce_limits=false",
    ]
    answer = json.loads(emulate(*asked, "--associations", TREE, "--json").stdout)
    # Two of bob's three jobs at once: the third waits for the first, 58 s, and not where limits do not count.
    everybody = answer["groups"][0]
    assert everybody["today_min"] == pytest.approx(58 / 60 / 5, abs=0.01)
    assert everybody["changed_min"] == pytest.approx(0, abs=0.01)
    assert any(whose in note for note in answer["notes"])
    files = ["--associations", str(TREE), "--qos", str(RECORDINGS / "sacctmgr-qos-json.txt"), "--json"]
    answer = json.loads(emulate(*asked, *files).stdout)
    assert any("qos long: MaxSubmitPU=20" in note for note in answer["notes"])
    assert not any("Def QOS" in note for note in answer["notes"])


@pytest.mark.parametrize(
    "said", ["{slurm: {conf: site.conf, qos: qos.txt, associations: assoc.txt}}", "'slurm:site.conf'"]
)
def test_a_scenario_names_the_files_of_a_site_beside_itself(tmp_path: Path, said: str) -> None:
    for name in ("site.conf", "qos.txt", "assoc.txt"):
        (tmp_path / name).write_text("")
    path = tmp_path / "s.yaml"
    path.write_text(
        f"nodes: 4\nworkload: {{generate: [{{daily_batch: {{days: 1, jobs: 4}}}}]}}\nscheduler: {said}\n"
    )
    twin = load_scenario(path).scheduler_config.make_machine()
    assert isinstance(twin, Slurm)
    assert twin.conf == tmp_path / "site.conf"
    if twin.qos is not None:
        assert (twin.qos, twin.associations) == (tmp_path / "qos.txt", tmp_path / "assoc.txt")
