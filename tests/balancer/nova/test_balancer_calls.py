"""What the scheduler filter asks the Balancer, and which hosts it passes; the Balancer is real, Nova is not there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from balancer.client import Balancer, Unreachable
from balancer.clock import wall_us
from balancer.nova.balancer_calls import Asker
from balancer.nova.question import Create, QuestionSettings
from polling import until
from service_kit import running

HOSTS = ("n01", "n02", "n03", "n04", "n05", "n06")


def asker(url, **options):
    return Asker(QuestionSettings(url=url, **({"patience_s": 1.0} | options)))


def create(count=1, hosts=HOSTS, request_id="req-1", attempt=""):
    return Create(request_id=request_id, count=count, hosts=hosts, attempt=attempt)


@pytest.fixture
def busy(served):
    """`busy("n01", nodes=2)`: a quiet service where requests may wait, and a job on these nodes; and its URL."""

    def make(*hosts, **options):
        w, url = served(wait_s=600, confirm_s=60, **options)
        w.settled()
        w.start_job("1.server", *hosts)
        return w, url

    return make


def test_as_many_nodes_pass_as_there_are_servers_and_they_are_provisional(served, client):
    w, url = served(confirm_s=60)
    passing = asker(url).passing(create(2, hosts=("n03", "n04", "n05")))
    assert len(passing) == 2
    assert passing < {"n03", "n04", "n05"}, "only what Nova can use"
    (request,) = client(url).requests()
    assert (request.owner, request.state, set(request.nodes), request.confirmed) == (
        "nova",
        "granted",
        passing,
        False,
    )
    assert w.states()["n01"] == "OA_IDLE"


def test_who_asks_twice_is_granted_once_and_another_attempt_gets_another_node(served, client):
    _, url = served(confirm_s=60)
    asking = asker(url)
    first = asking.passing(create())
    assert asking.passing(create()) == first
    assert asking.passing(create(attempt="s1 2")) != first
    assert len(client(url).requests()) == 2


def test_hosts_that_are_no_nodes_of_the_balancer_pass_and_only_the_rest_is_asked_for(served, client):
    _, url = served(confirm_s=60)
    asking = asker(url)
    assert asking.passing(create(2, hosts=("other1", "other2", "n01"))) == {"other1", "other2"}
    assert client(url).requests() == []
    passing = asking.passing(create(3, hosts=("other1", "n01", "n02", "n03")))
    assert ("other1" in passing, len(passing)) == (True, 3)


def test_what_cannot_be_had_passes_no_node(served):
    w, url = served(nodes=2, wait_s=0, confirm_s=60)
    w.settled()
    assert asker(url).passing(create(3, hosts=("other", "n01", "n02"))) == {"other", "n01", "n02"}
    assert asker(url).passing(create(3, hosts=HOSTS[:2], request_id="req-2")) == frozenset()


def test_it_waits_until_jobs_have_ended(busy, kit):
    w, url = busy("n01", nodes=2)
    with running(lambda: asker(url).passing(create(2, hosts=HOSTS[:2]))) as result:
        until(lambda: w.engine.ledger.waiting().requests == 1)
        w.end_job("1.server")
    assert result == [{"n01", "n02"}]


def test_or_not_at_all(busy):
    w, url = busy("n01", nodes=2)
    with running(lambda: asker(url, wait=False).passing(create(2, hosts=HOSTS[:2]))) as result:
        # It waits for a look, which may have come before we look.
        until(lambda: result or w.engine.ledger.waiting().requests == 1)
        w.clock.advance_to(w.clock.now_us() + 6_000_000)
    assert result == [frozenset()]


def test_a_create_that_nobody_wants_any_more_is_withdrawn(busy, client):
    w, url = busy("n01", nodes=2)
    wanted = [True]
    with running(lambda: asker(url).passing(create(2, hosts=HOSTS[:2]), lambda: 2 * wanted[0])) as result:
        until(lambda: w.engine.ledger.waiting().requests == 1)
        wanted[0] = False
    assert result == [frozenset()]
    (request,) = client(url).requests()
    assert request.state == "withdrawn"


def test_a_create_of_which_fewer_are_wanted_asks_for_fewer_within_the_same_wait(busy, client):
    w, url = busy("n01", nodes=3)
    wanted = [3]
    with running(lambda: asker(url).passing(create(3, hosts=HOSTS[:3]), lambda: wanted[0])) as result:
        until(lambda: w.engine.ledger.waiting().requests == 1)
        first = client(url).requests()[0]
        w.clock.advance_to(w.clock.now_us() + 5_000_000)
        wanted[0] = 2
    assert result == [{"n02", "n03"}]
    last, withdrawn = client(url).requests()
    assert (withdrawn.state, withdrawn.count, last.state, last.count) == ("withdrawn", 3, "granted", 2)
    assert last.deadline_s == first.deadline_s


def test_of_a_create_of_which_the_rest_fits_on_other_hosts_nothing_is_asked_any_more(busy, client):
    w, url = busy("n01", nodes=2)
    wanted = [3]
    hosts = ("other", *HOSTS[:2])
    with running(lambda: asker(url).passing(create(3, hosts=hosts), lambda: wanted[0])) as result:
        until(lambda: w.engine.ledger.waiting().requests == 1)
        wanted[0] = 1
    assert result == [{"other"}]
    assert [request.state for request in client(url).requests()] == ["withdrawn"]


def test_a_wait_in_which_nova_cannot_be_asked_is_withdrawn_and_the_error_is_raised(busy, client):
    _, url = busy("n01", nodes=1)

    def wanted():
        raise ConnectionError("the database is away")

    with pytest.raises(ConnectionError):
        asker(url).passing(create(1, hosts=HOSTS[:1]), wanted)
    assert [request.state for request in client(url).requests()] == ["withdrawn"]


def all_but(*hosts):
    return lambda asked: asked - set(hosts)


def test_a_node_that_nova_can_use_no_more_after_the_wait_goes_back_and_the_next_is_waited_for_within_w(
    busy, client
):
    w, url = busy("n01", nodes=2, idle_reserve_s=0)
    w.start_job("2.server", "n02")
    asked = create(1, hosts=HOSTS[:2])
    with running(lambda: asker(url).passing(asked, fitting=all_but("n01"))) as result:
        until(lambda: w.engine.ledger.waiting().requests == 1)
        first = client(url).requests()[0]
        w.clock.advance_to(w.clock.now_us() + 5_000_000)
        w.end_job("1.server")
        until(lambda: len(client(url).requests()) == 2 and w.settled()["n01"] == "OA_IDLE")
        assert result == []
        w.end_job("2.server")
    assert result == [{"n02"}]
    last, before = client(url).requests()
    assert (before.state, before.nodes, last.state, last.nodes) == ("granted", ("n01",), "granted", ("n02",))
    assert before.ended_s is not None
    assert last.deadline_s == first.deadline_s


def test_what_fits_of_a_grant_is_not_lost_to_anybody_while_the_rest_is_asked_for_anew(busy, client):
    w, url = busy("n02", "n01", nodes=3, idle_reserve_s=0)
    w.start_job("3.server", "n03")
    asked = create(2, hosts=HOSTS[:3])
    with running(lambda: asker(url).passing(asked, fitting=all_but("n01"))) as result:
        until(lambda: w.engine.ledger.waiting().requests == 1)
        w.end_job("1.server")
        until(lambda: len(client(url).requests()) == 2 and w.settled()["n01"] == "OA_IDLE")
        assert w.states()["n02"] == "OD_RESERVE"
        w.end_job("3.server")
    assert result == [{"n02", "n03"}]


def test_a_create_whose_nodes_nova_can_all_use_no_more_ends_at_once_and_keeps_none(busy, client):
    w, url = busy("n01", nodes=2, idle_reserve_s=0)
    asked = create(2, hosts=HOSTS[:2])
    with running(lambda: asker(url).passing(asked, fitting=all_but("n01", "n02"))) as result:
        until(lambda: w.engine.ledger.waiting().requests == 1)
        w.end_job("1.server")
    assert result == [frozenset()]
    assert w.settled() == {"n01": "OA_IDLE", "n02": "OA_IDLE"}
    assert len(client(url).requests()) == 1


def test_a_host_of_the_clouds_own_that_is_gone_after_the_wait_is_made_up_for(busy):
    w, url = busy("n01", nodes=2)
    w.start_job("2.server", "n02")
    asked = create(2, hosts=("other", "n01", "n02"))
    with running(lambda: asker(url).passing(asked, fitting=all_but("other"))) as result:
        until(lambda: w.engine.ledger.waiting().requests == 1)
        w.end_job("1.server")
        w.end_job("2.server")
    assert result == [{"n01", "n02"}]


@pytest.mark.parametrize(("fresh_s", "count"), [(3600.0, 0), (0.0, 1)])
def test_what_is_granted_at_once_is_looked_at_again_only_if_what_nova_said_is_old(
    served, monkeypatch, fresh_s, count
):
    monkeypatch.setattr("balancer.nova.question._FRESH_S", fresh_s)  # on a busy machine nothing is at once
    w, url = served(confirm_s=60, reserve=1)
    w.settled()
    looks = []
    assert len(asker(url).passing(create(), fitting=lambda hosts: looks.append(hosts) or hosts)) == 1
    assert len(looks) == count


def test_when_nova_cannot_be_looked_at_again_what_was_granted_goes_back(busy):
    w, url = busy("n01", nodes=1, idle_reserve_s=0)

    def fitting(_):
        raise ConnectionError("the database is away")

    with running(lambda: asker(url).passing(create(1, hosts=HOSTS[:1]), fitting=fitting)) as result:
        until(lambda: w.engine.ledger.waiting().requests == 1)
        w.end_job("1.server")
    assert repr(result) == "[ConnectionError('the database is away')]"
    assert w.settled() == {"n01": "OA_IDLE"}


def lent(url, hosts=HOSTS):
    """Nodes of a create whose servers run."""
    return sorted(asker(url).passing(create(hosts=hosts, request_id="before")))


def test_a_host_of_its_own_on_which_a_server_runs_passes_unasked(served, client):
    _, url = served(confirm_s=60)
    (own,) = lent(url)
    looked = []

    def occupied(hosts):
        looked.append(hosts)
        return {own}

    assert asker(url).passing(create(hosts=(own,)), occupied=occupied) == {own}
    assert asker(url).passing(create(hosts=HOSTS), occupied=occupied) == {own}
    assert looked == [{own}, set(HOSTS)]
    assert len(client(url).requests()) == 1


def test_beside_a_host_of_its_own_only_what_is_short_is_asked_for(served, client):
    _, url = served(confirm_s=60)
    (own,) = lent(url)
    passing = asker(url).passing(create(2), occupied=lambda _: {own})
    assert own in passing
    assert len(passing) == 2
    assert client(url).requests()[0].count == 1


@pytest.mark.parametrize("whose", ["nobody's yet", "batch's", "somebody else's", "gone back"])
def test_a_host_that_is_not_its_own_is_asked_for_whatever_runs_there(served, client, whose):
    w, url = served(nodes=2, wait_s=0, confirm_s=60, idle_reserve_s=0)
    w.settled()
    if whose == "nobody's yet":
        occupied = set()
        lent(url, HOSTS[:2])
    elif whose == "somebody else's":
        occupied = set(client(url, "odrm").request_nodes(1).nodes)
    elif whose == "gone back":
        occupied = set(lent(url, HOSTS[:2]))
        client(url).release_nodes(sorted(occupied))
    else:
        occupied = {"n01"}
    asker(url).passing(create(hosts=HOSTS[:2]), occupied=lambda _: occupied)
    assert client(url).requests()[0].count == 1
    assert len(client(url).requests()) == 1 + (whose != "batch's")


def test_a_host_that_became_its_own_while_the_create_waited_passes_where_nova_wants_only_that(busy, client):
    """Two servers of an affinity group: while one waits the other starts, and then it can be nowhere else."""
    w, url = busy("n02", nodes=2, idle_reserve_s=0)
    assert lent(url, HOSTS[:2]) == ["n01"]
    own = set()
    asked = create(hosts=HOSTS[:2])
    with running(
        lambda: asker(url).passing(asked, fitting=lambda hosts: hosts & own, occupied=lambda _: own)
    ) as result:
        until(lambda: w.engine.ledger.waiting().requests == 1)
        own.add("n01")
        w.end_job("1.server")
    assert result == [{"n01"}]
    assert w.settled() == {"n01": "OD_ALLOC", "n02": "OA_IDLE"}


def test_alternates_are_further_nodes_that_were_there_at_once(served, client):
    w, url = served(nodes=4, wait_s=600, confirm_s=60)
    w.settled()
    assert len(asker(url, alternates=2).passing(create(1, hosts=HOSTS[:4]))) == 3
    assert sorted(request.count for request in client(url).requests()) == [1, 1, 1]


def test_with_the_balancer_away_no_host_passes_until_it_has_said_which_are_its_nodes(served):
    assert asker("http://127.0.0.1:9", patience_s=0).passing(create()) == frozenset()


def test_with_the_balancer_away_hosts_that_are_not_its_own_go_on(served, monkeypatch):
    _, url = served(confirm_s=60)
    asking = asker(url, nodes_age_s=0.0, patience_s=0.0)
    assert asking.passing(create(hosts=("other",))) == {"other"}
    object.__setattr__(asking.settings, "url", "http://127.0.0.1:9")
    assert asking.passing(create(2, hosts=("other", "n01"))) == {"other"}


def test_list_of_nodes_and_request_have_one_patience_together(served, monkeypatch):
    _, url = served()
    asking = asker(url, nodes_age_s=0.0, patience_s=20.0)
    asking.passing(create(hosts=("other",)))
    now_us, had_s = [wall_us() + 1_000_000], []

    def silent(took_s):
        def ask(balancer, *_, **__):
            had_s.append(balancer.patience_s)
            now_us[0] += round(took_s * 1e6)
            raise Unreachable(0, "balancer.unreachable", "no answer")

        return ask

    monkeypatch.setattr("balancer.nova.balancer_calls.wall_us", lambda: now_us[0])
    monkeypatch.setattr(Balancer, "nodes", silent(15.0))
    monkeypatch.setattr(Balancer, "request_nodes", silent(5.0))
    assert asking.passing(create(2, hosts=("other", "n01"))) == {"other"}
    assert had_s == [20.0, 5.0]


def test_who_waits_for_the_list_that_another_create_asks_for_has_no_more_patience(served):
    _, url = served()
    asking = asker(url, patience_s=0.0)
    with asking._nodes._lock:
        assert asking.passing(create(hosts=("other",))) == frozenset()


def test_in_novas_scheduler_it_needs_requests_and_nothing_else():
    """It runs in Nova's environment, which has no packages of ours."""
    program = (
        "import sys, requests; known = set(sys.modules); import balancer.nova.balancer_calls;"
        "print({name.partition('.')[0] for name in set(sys.modules) - known} - set(sys.stdlib_module_names))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("{'balancer'}\n", "")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (create(), create(), True),
        (create(), create(request_id="req-2"), False),
        (create(), create(2), False),
        (create(), create(attempt="again"), False),
    ],
)
def test_the_key_is_the_question(one, other, same):
    assert (one.key(HOSTS) == other.key(HOSTS)) is same
    assert (one.key(HOSTS) == other.key(HOSTS[:2])) is False
    assert one.key(HOSTS) == one.key(HOSTS[::-1])
    assert len(one.key(HOSTS)) < 255
