"""Made sites of which the right verdict is known: one a kind of answer, and one a kind of wrong input."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html import unescape

import pytest

import made_site
from command_line import study_merge
from emulator.text.number_text import duration
from made_site import BEGIN_S, DAY_S, DAYS, HOUR_S, Server

LIKELY_CORES = "Likely the log counts processors: say --procs-per-node"


@pytest.fixture(scope="module")
def batch_jobs():
    return made_site.jobs()


def long_servers():
    """Three servers from 10 to 21, and one more for half an hour: while they run, a reserve is held beside them."""
    found = []
    for day in range(DAYS):
        ten, two = BEGIN_S + day * DAY_S + 10 * HOUR_S + 31, BEGIN_S + day * DAY_S + 14 * HOUR_S + 31
        found += [Server(f"d{day}-{number}", ten, ten + 11 * HOUR_S) for number in range(3)]
        found.append(Server(f"d{day}-late", two, two + HOUR_S // 2))
    return found


def of_cores(found):
    """The same log without its column of nodes: each job has as many processors as its nodes have cores."""
    rows = [line.split("|") for line in made_site.sacct(found).splitlines()]
    nodes = rows[0].index("NNodes")
    return "\n".join("|".join(text for at, text in enumerate(row) if at != nodes) for row in rows) + "\n"


@pytest.fixture
def judge(tmp_path):
    """A study of two texts: status, document (None where there is none) and what stderr says."""

    def study(batch, ondemand, *more, nodes="12+4", reserve="3"):
        (tmp_path / "batch").write_text(batch)
        (tmp_path / "ondemand").write_text(ondemand)
        done = study_merge(
            tmp_path / "batch", tmp_path / "ondemand", tmp_path / "out", "--nodes", nodes, "--reserve", reserve,
            "--wait-min", 0, "--pairings", 1, "--json", *more,
        )  # fmt: skip
        return done.exit_code, json.loads(done.stdout) if done.stdout else None, done.stderr

    return study


def test_where_merging_pays_it_is_merge(judge, batch_jobs):
    status, document, _ = judge(made_site.sacct(batch_jobs), made_site.usage(made_site.servers()))
    assert (status, document["verdict"]) == (0, "merge")
    assert document["advice"][0]["figures"]["setting"] == "basic R=3 W=0"
    assert document["advice"][0]["wait_ratio"][1] < 1


def test_the_page_opens_with_verdict_tiles_trust_and_one_chart(judge, batch_jobs, tmp_path):
    _, document, _ = judge(made_site.sacct(batch_jobs), made_site.usage(made_site.servers()))
    page = unescape((tmp_path / "out" / "report.html").read_text())
    found = document["advice"][0]["figures"]
    split = next(each for each in document["settings"] if each["setting"] == "split")
    waits = " → ".join(duration(60 * each["wait_min"]) for each in (split, found))
    cards = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", page)
    assert cards == [
        ("On-demand nodes kept", f"{found['reserve']} of {document['ondemand_nodes']}"),
        ("Mean batch wait, today to merged", waits),
        ("Requests refused", f"{found['rejected']} of {found['requests']}"),
    ]
    parts = [
        'class="verdict">Merge<',
        "<dt>On-demand nodes kept",
        'class="light green"',
        'id="first"',
        "<details>",
    ]
    assert sorted(parts, key=page.index) == parts
    assert page.count('<div class="wide" id="first">') == 1
    assert 'class="opening">With a reserve of 3 nodes, batch jobs wait ' in page
    drawn = page[page.index('id="first"') : page.index("<figcaption>Mean wait")]
    assert "no request waits" in drawn
    assert "none refused" in drawn
    assert "some requests refused" not in drawn  # since none are


def test_where_merging_is_worse_two_machines_are_kept(judge, batch_jobs, tmp_path):
    status, document, _ = judge(made_site.sacct(batch_jobs), made_site.usage(long_servers()))
    assert (status, document["verdict"]) == (0, "keep two machines")
    advice = document["advice"][0]
    assert (advice["figures"]["setting"], advice["meets"]) == ("basic R=3 W=0", True)
    assert advice["wait_ratio"][0] > 1
    assert "and that is the best merger without a notice from users within your limits" in document["reason"]
    assert document["who"] is None
    page = (tmp_path / "out" / "report.html").read_text()
    assert re.findall("<dt>(.*?)</dt>", page) == [
        "On-demand nodes kept, if merged",
        "Mean batch wait, today to merged",
        "Requests refused, if merged",
    ]


@pytest.mark.parametrize(("more", "weeks"), [(("--quick",), 2), (("--weeks", "1"), 1)])
def test_where_there_is_too_little_data_nothing_can_be_told(judge, batch_jobs, more, weeks):
    status, document, _ = judge(made_site.sacct(batch_jobs), made_site.usage(made_site.servers()), *more)
    assert (status, document["verdict"]) == (0, "cannot be told")
    assert f"seen in {weeks} week" in document["reason"]
    assert "4 or more would tell" in document["reason"]


def test_a_log_without_starts_cannot_tell(judge, batch_jobs):
    swf = made_site.swf(batch_jobs).splitlines()
    fields = [line if line.startswith(";") else line.split() for line in swf]
    text = "\n".join(
        line if isinstance(line, str) else " ".join([*line[:2], "-1", *line[3:]]) for line in fields
    )
    status, document, _ = judge(text + "\n", made_site.usage(made_site.servers()))
    assert (status, document["verdict"]) == (0, "cannot be told")
    assert "the batch log has no waits" in document["reason"]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            (),
            "wider than the 12 nodes of the batch part; likely the log counts processors: say --procs-per-node; or",
        ),
        (
            ("--procs-per-node", str(made_site.CORES)),
            "Are the two logs the wrong way round (--batch and --ondemand)?",
        ),
    ],
)
def test_logs_the_wrong_way_round_end_with_2(judge, batch_jobs, more, said):
    status, document, text = judge(made_site.usage(made_site.servers()), made_site.sacct(batch_jobs), *more)
    assert (status, document) == (2, None), text
    assert said in text


@pytest.mark.parametrize(
    ("nodes", "reserve", "said"),
    [
        ("12+2", "1", "Likely there were more on-demand nodes than --nodes says"),
        ("9+4", "3", "nodes were in use at once"),
        ("26+4", "3", "Today is not understood"),
    ],
)
def test_wrong_numbers_of_nodes_end_with_2(judge, batch_jobs, nodes, reserve, said):
    status, document, text = judge(
        made_site.sacct(batch_jobs), made_site.usage(made_site.servers()), nodes=nodes, reserve=reserve
    )
    assert (status, document) == (2, None), text
    assert said in text


def test_a_log_of_cores_read_as_one_of_nodes_ends_with_2_and_with_the_right_rule_is_the_same_answer(
    judge, batch_jobs
):
    ondemand = made_site.usage(made_site.servers())
    narrow = [replace(job, nodes=min(job.nodes, 8)) for job in batch_jobs]
    status, document, text = judge(of_cores(narrow), ondemand, nodes="144+4")
    assert (status, document) == (2, None), text
    assert LIKELY_CORES in text
    status, document, text = judge(of_cores(narrow), ondemand, "--procs-per-node", str(made_site.CORES))
    assert (status, document["verdict"]) == (0, "merge"), text
    assert document["advice"][0]["figures"]["setting"] == "basic R=3 W=0"
