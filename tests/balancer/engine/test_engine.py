"""The engine with a batch system in memory: what is answered is true and durable; no node is given twice."""

from __future__ import annotations

import threading

import pytest

from balancer.clock import micros
from balancer.drivers.base import RefusedError, UnclearError, UnreachableError
from balancer.ledger.errors import LedgerError
from balancer.lifecycle.errors import Refused
from balancer.service.decision import Key
from balancer.service.idempotency import KeyReusedError
from balancer.service.writer import StoppingError


def test_nodes_start_as_the_batch_system_reports_them(world, kit):
    w = world(nodes=4)
    assert w.settled() == {"n01": "OA_IDLE", "n02": "OA_IDLE", "n03": "OA_IDLE", "n04": "OA_IDLE"}


def test_the_static_reserve_is_collected_at_the_start(world):
    w = world(nodes=4, reserve=2)
    assert sorted(w.settled().values()) == ["OA_IDLE", "OA_IDLE", "OD_RESERVE", "OD_RESERVE"]
    assert w.batch.commands() == [("reclaim", ("n01", "n02"))]


def test_a_request_is_granted_once_its_nodes_read_offline_and_empty(world):
    w = world(nodes=3)
    record = w.engine.submit_request(2)
    waiter = w.engine.wait_for_request(record.request_id)
    assert waiter.record.status == "granted"
    assert waiter.record.nodes == ("n01", "n02")
    assert w.batch.marked == {"n01": True, "n02": True, "n03": False}
    assert w.states() == {"n01": "OD_ALLOC", "n02": "OD_ALLOC", "n03": "OA_IDLE"}


def test_a_request_beyond_the_cluster_is_rejected_without_asking_the_batch_system(world):
    w = world(nodes=3)
    w.settled()
    before = len(w.batch.calls)
    assert w.engine.submit_request(4).status == "rejected"
    assert len(w.batch.calls) == before


def test_a_request_that_looks_unobtainable_reads_the_batch_system_before_it_is_rejected(world):
    w = world(nodes=2)
    w.start_job("1.server", "n01", "n02")
    assert w.asked(1).status == "rejected"
    w.end_job("1.server", hook=False)  # a lost epilogue
    record = w.engine.submit_request(2)
    assert w.engine.wait_for_request(record.request_id).record.status == "granted"


def test_a_waiting_request_gets_a_node_when_its_job_ends(world, kit):
    w = world(nodes=1, wait_s=600)
    w.start_job("1.server", "n01")
    record = w.engine.submit_request(1)
    assert record.status == "waiting"
    with kit.running(lambda: w.engine.wait_for_request(record.request_id)) as answer:
        w.end_job("1.server")
    assert answer[0].record.status == "granted"
    assert w.states() == {"n01": "OD_ALLOC"}


def test_an_epilogue_is_answered_only_after_its_node_was_marked_offline(world):
    w = world(nodes=1, wait_s=600)
    w.start_job("1.server", "n01")
    w.engine.submit_request(1)
    w.engine.update_nodes(idle=("n01",), job="1.server")
    assert w.batch.commands() == [("reclaim", ("n01",))]


def test_a_node_whose_job_is_still_listed_is_not_handed_over(world, kit):
    w = world(nodes=1, wait_s=600)
    w.start_job("1.server", "n01")
    record = w.engine.submit_request(1)
    w.engine.update_nodes(idle=("n01",), job="1.server")
    polls = len(w.batch.calls)
    kit.until(lambda: len(w.batch.calls) > polls + 3)
    assert w.states() == {"n01": "RECLAIMING"}
    with w.batch.lock:
        w.batch.jobs.clear()
    assert w.engine.wait_for_request(record.request_id).record.nodes == ("n01",)


def test_a_node_that_keeps_its_job_goes_back_without_our_mark(world, kit):
    w = world(nodes=2, wait_s=600, confirm_limit_s=0.05)
    w.start_job("1.server", "n01", "n02")
    w.engine.submit_request(1)
    with w.batch.lock:
        w.batch.jobs["n01"] = "2.server"  # started although its prologue was never heard of
    w.engine.update_nodes(idle=("n01",), job="1.server")
    kit.until(lambda: w.states()["n01"] == "OA_BUSY")
    assert w.batch.marked["n01"] is False


def test_a_request_that_waits_too_long_is_rejected_by_the_timer(world, kit):
    w = world(nodes=1, wait_s=60)
    w.start_job("1.server", "n01")
    record = w.engine.submit_request(1)
    with kit.running(lambda: w.engine.wait_for_request(record.request_id)) as answer:
        w.clock.advance_to(w.clock.now_us() + micros(61))
    assert answer[0].record.status == "rejected"


def test_a_prologue_on_a_lent_node_is_refused_and_changes_nothing(world):
    w = world(nodes=2, reserve=1)
    before = w.settled()
    with pytest.raises(Refused, match="n01 is OD_RESERVE"):
        w.engine.update_nodes(busy=("n01", "n02"), job="1.server")
    assert w.states() == before


def test_released_nodes_go_back_to_batch_after_their_time(world, kit):
    w = world(nodes=1, idle_reserve_s=600)
    record = w.engine.submit_request(1)
    w.engine.wait_for_request(record.request_id)
    w.engine.release_nodes(("n01",))
    assert w.states() == {"n01": "OD_RESERVE"}
    w.clock.advance_to(w.clock.now_us() + micros(601))
    kit.until(lambda: w.states() == {"n01": "OA_IDLE"})
    assert w.batch.marked == {"n01": False}


@pytest.mark.parametrize(
    "error", [RefusedError("no"), UnreachableError("down"), UnclearError("slow"), OSError("?")]
)
def test_a_failing_command_never_frees_a_node(world, kit, error):
    w = world(nodes=1, wait_s=600, confirm_limit_s=0.02)
    w.batch.fails["reclaim"] = error
    record = w.engine.submit_request(1)
    kit.until(lambda: any(e.kind == "nodes_reclaimed" for e in w.engine.ledger.events(0, 100)))
    assert w.states() == {"n01": "RECLAIMING"}
    assert w.engine.ledger.request(record.request_id).status == "waiting"
    del w.batch.fails["reclaim"]
    assert w.engine.wait_for_request(record.request_id).record.nodes == ("n01",)


@pytest.mark.parametrize("error", [UnreachableError("down"), UnclearError("half an answer")])
def test_a_batch_system_that_cannot_be_read_never_makes_a_node_idle(world, kit, error):
    w = world(nodes=2)
    w.start_job("1.server", "n01", "n02")
    w.end_job("1.server", hook=False)
    w.batch.fails["status all"] = error
    record = w.engine.submit_request(1)
    w.clock.advance_to(w.clock.now_us() + micros(6))  # beyond what one that may not wait waits for a look
    assert w.engine.wait_for_request(record.request_id, 60.0).record.status == "rejected"
    w.engine.reconcile()
    assert w.states() == {"n01": "OA_BUSY", "n02": "OA_BUSY"}


def test_a_command_without_effect_is_given_again_until_the_node_reads_offline(world, kit):
    w = world(nodes=1, wait_s=600)
    w.batch.without_effect.add("reclaim")
    record = w.engine.submit_request(1)
    kit.until(lambda: len(w.batch.commands()) > 3)
    assert w.states() == {"n01": "RECLAIMING"}
    w.batch.without_effect.clear()
    assert w.engine.wait_for_request(record.request_id).record.nodes == ("n01",)


def test_a_hanging_command_does_not_stop_other_calls(world, kit):
    w = world(nodes=2, wait_s=600)
    w.settled()
    w.batch.gate.clear()
    w.engine.submit_request(1)
    w.start_job("1.server", "n02")
    assert w.states() == {"n01": "RECLAIMING", "n02": "OA_BUSY"}
    w.batch.gate.set()
    assert w.settled() == {"n01": "OD_ALLOC", "n02": "OA_BUSY"}


def test_a_node_taken_offline_by_hand_is_shown_and_left_alone(world):
    w = world(nodes=2)
    w.batch.marked["n02"] = True
    w.engine.reconcile()
    assert w.states() == {"n01": "OA_IDLE", "n02": "DOWN"}
    assert w.engine.taken_offline_by_others == ("n02",)
    assert w.asked(2).status == "rejected"
    w.batch.marked["n02"] = False
    w.engine.reconcile()
    assert w.states()["n02"] == "OA_IDLE"
    assert w.batch.commands() == []


def test_a_mark_that_cannot_be_read_is_not_taken_off_for_it_may_be_somebody_elses(world, kit):
    w = world(nodes=1)
    w.engine.wait_for_request(w.engine.submit_request(1).request_id)
    w.batch.fails["status"] = UnreachableError("no answer")
    w.engine.release_nodes(("n01",))
    w.clock.advance_to(w.clock.now_us() + micros(601))
    kit.until(lambda: w.states() == {"n01": "RESTORING"})
    looks = len(w.batch.calls)
    kit.until(lambda: len(w.batch.calls) >= looks + 3)
    assert w.batch.commands() == [("reclaim", ("n01",))]
    del w.batch.fails["status"]
    assert w.settled() == {"n01": "OA_IDLE"}
    assert w.batch.commands() == [("reclaim", ("n01",)), ("restore", ("n01",))]


def test_a_lent_node_that_lost_its_mark_is_marked_again_and_stays_lent(world, kit):
    w = world(nodes=1)
    w.engine.wait_for_request(w.engine.submit_request(1).request_id)
    w.batch.marked["n01"] = False
    w.engine.reconcile()
    kit.until(lambda: w.batch.marked["n01"])
    assert w.settled() == {"n01": "OD_ALLOC"}
    assert w.batch.commands() == [("reclaim", ("n01",)), ("reclaim", ("n01",))]


def test_a_second_reconcile_gives_no_command(world):
    w = world(nodes=3, reserve=1)
    w.settled()
    w.engine.reconcile()
    w.settled()
    commands = w.batch.commands()
    observed = [event.kind for event in w.engine.ledger.events(0, 100)].count("nodes_observed")
    w.engine.reconcile()
    assert w.batch.commands() == commands
    assert [event.kind for event in w.engine.ledger.events(0, 100)].count("nodes_observed") == observed


def test_the_tail_of_an_epilogue_does_not_make_the_node_busy_again(world):
    w = world(nodes=1)
    w.start_job("1.server", "n01")
    w.engine.update_nodes(idle=("n01",), job="1.server")
    w.engine.reconcile()  # the job is still listed
    assert w.states() == {"n01": "OA_IDLE"}
    with w.batch.lock:
        w.batch.jobs["n01"] = "2.server"
    w.engine.reconcile()
    assert w.states() == {"n01": "OA_BUSY"}


def test_everything_is_as_before_after_a_restart(world):
    w = world(nodes=4, reserve=1, wait_s=600)
    w.start_job("1.server", "n04")
    w.engine.wait_for_request(w.engine.submit_request(1).request_id)
    waiting = w.engine.submit_request(4)
    w.engine.add_reserve(1, micros(60))
    nodes = (
        {record.name: (record.state, record.reserved_for) for record in w.engine.nodes()}
        if w.settled()
        else {}
    )
    reserves = w.engine.ledger.reserves()
    w.restart()
    assert {record.name: (record.state, record.reserved_for) for record in w.engine.nodes()} == nodes
    assert w.engine.ledger.reserves() == reserves
    assert w.engine.ledger.request(waiting.request_id).status == "waiting"


def test_a_reclaim_that_a_stop_interrupted_is_finished_after_the_restart(world, kit):
    w = world(nodes=1, wait_s=600)
    w.start_job("1.server", "n01")
    record = w.engine.submit_request(1)
    w.engine.update_nodes(idle=("n01",), job="1.server")
    w.restart()
    assert w.states() == {"n01": "RECLAIMING"}
    w.batch.jobs.clear()
    assert w.engine.wait_for_request(record.request_id).record.nodes == ("n01",)


def test_waiting_calls_end_when_the_service_stops_and_the_request_goes_on(world, kit):
    w = world(nodes=1, wait_s=600)
    w.start_job("1.server", "n01")
    record = w.engine.submit_request(1)
    with kit.running(lambda: w.engine.wait_for_request(record.request_id)) as answer:
        kit.until(lambda: record.request_id in w.engine._writer.waiters._waiting)
        w.restart()
    assert isinstance(answer[0], StoppingError)
    assert answer[0].request_id == record.request_id
    w.end_job("1.server")
    assert w.engine.wait_for_request(record.request_id).record.nodes == ("n01",)


def test_many_clients_at_once_never_get_the_same_node(world, kit):
    w = world(nodes=12, reserve=12)
    w.settled()
    held: set[str] = set()
    lock = threading.Lock()
    clashes: list[str] = []
    granted = [0]

    def client() -> None:
        for _ in range(8):
            record = w.asked(2)
            if record.status != "granted":
                continue
            with lock:
                clashes.extend(held & set(record.nodes))
                held.update(record.nodes)
                granted[0] += 1
            with lock:
                held.difference_update(record.nodes)
                w.engine.release_nodes(record.nodes)

    threads = [threading.Thread(target=client) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert clashes == []
    assert granted[0] > 20


def test_the_log_has_no_gap_and_every_decision_is_in_it(world):
    w = world(nodes=2, reserve=2)
    w.settled()
    record = w.engine.submit_request(2)
    w.engine.release_nodes(record.nodes)
    events = w.engine.ledger.events(0, 1000)
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert [event.kind for event in events][-2:] == ["nodes_requested", "nodes_released"]


def test_a_commit_that_fails_undoes_the_decision_and_is_an_error(world, kit, monkeypatch):
    w = world(nodes=2, reserve=2)
    before = w.settled()

    def broken(entries: object) -> None:
        raise LedgerError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(w.engine.ledger, "commit", broken)
        with pytest.raises(LedgerError, match="disk full"):
            w.engine.submit_request(1)
    assert w.states() == before
    kit.until(lambda: w.engine.problem() is None)
    assert w.asked(2).nodes == ("n01", "n02")
    numbers = [event.seq for event in w.engine.ledger.events(0, 1000)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_an_error_inside_the_life_cycle_changes_nothing(world, monkeypatch):
    w = world(nodes=1, reserve=1)
    w.settled()
    with monkeypatch.context() as patch:
        patch.setattr(type(w.engine._writer._lifecycle), "handle", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            w.engine.submit_request(1)
    assert w.asked(1).nodes == ("n01",)


def test_the_same_key_means_the_same_call(world):
    w = world(nodes=2, reserve=2)
    w.settled()
    key = Key("k1", "request 1")
    with w.engine.idempotent(key) as stored:
        assert stored is None
        record = w.engine.submit_request(1, key=key)
    w.restart()
    with w.engine.idempotent(key) as stored:
        assert stored.request_id == record.request_id
    with pytest.raises(KeyReusedError), w.engine.idempotent(Key("k1", "request 2")):
        pass


def test_a_node_that_is_lent_cannot_vanish_from_the_configuration(world):
    w = world(nodes=2, reserve=1)
    w.settled()
    w.names.remove("n01")
    with pytest.raises(LedgerError, match="n01 is OD_RESERVE in the ledger and missing"):
        w.restart()
    w.names.insert(0, "n01")
    w.engine = w._started()
    assert w.settled()["n01"] == "OD_RESERVE"


def test_nodes_that_are_new_in_the_configuration_join_the_batch_pool(world):
    w = world(nodes=1)
    w.names.append("n02")
    w.batch.marked["n02"] = False
    w.restart()
    assert w.settled() == {"n01": "OA_IDLE", "n02": "OA_IDLE"}


def test_the_service_is_not_ready_until_the_batch_system_has_answered(world, kit):
    w = world(nodes=1)
    assert w.engine.problem() is None
    w.batch.fails["status all"] = UnreachableError("down")
    w.restart()
    kit.until(lambda: w.engine.batch.error is not None)
    assert w.engine.problem() == "the batch system has not answered yet: down"
    w.batch.fails.clear()
    w.engine.reconcile()
    assert w.engine.problem() is None


def test_the_timer_reads_the_batch_system_periodically(world, kit):
    w = world(nodes=1, reconcile_period_s=60)
    w.start_job("1.server", "n01", hook=False)
    w.clock.advance_to(w.clock.now_us() + micros(61))
    kit.until(lambda: w.states() == {"n01": "OA_BUSY"})


def test_the_ledger_belongs_to_one_service_at_a_time(world, kit):
    w = world(nodes=1)
    with pytest.raises(LedgerError, match="another Balancer uses the ledger"):
        w._started()
