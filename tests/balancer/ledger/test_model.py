"""The ledger against a dictionary (T5), and the log against the tables (I9)."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from balancer.ledger.errors import LedgerError, StaleError
from balancer.ledger.replay import EMPTY, replay
from balancer.ledger.store import StoredAnswer
from balancer.lifecycle.records import RequestRecord, RequestStatus, Snapshot
from balancer.lifecycle.states import NodeState
from gates import GATE
from ledger_kit.places import Place, entry, node, replayed

NAMES = st.sampled_from(["n1", "n2", "n3", "n_", "n%"])
STATES = st.sampled_from(list(NodeState))
JOBS = st.lists(st.sampled_from(["1.server", "2.server", "'; --"]), max_size=2, unique=True).map(tuple)


class LedgerModel(RuleBasedStateMachine):
    """What the ledger should hold is kept in dictionaries; everything is committed in batches of 1 to 4."""

    place: Place  # set by the test: a database that may be used again and again
    start: tuple[str, str]
    """Head and digest of the base, when there was nothing in it."""

    def __init__(self) -> None:
        super().__init__()
        self.nodes = {}
        self.requests = {}
        self.answers = {}
        self.log = []
        self.batch = []
        self.first = 1
        self.untouched = False
        """Nothing has been asked of the ledger since it was last compared."""

    @initialize()
    def begin(self):
        head, digest = self.start
        tables = "events", "nodes", "requests", "reserves", "answers"
        self.place.sql(
            *(f"DELETE FROM {table}" for table in tables),  # noqa: S608 - ours
            f"UPDATE writer SET seq = 0, head = '{head}'",  # noqa: S608
            f"UPDATE base SET seq = 0, at_us = 0, serial = 0, records = '{{}}', head = '{head}', digest = '{digest}'",  # noqa: S608
        )
        self.reopen()

    @property
    def ledger(self):
        self.untouched = False
        return self.place.made[-1]

    @property
    def next_seq(self):
        return len(self.log) + len(self.batch) + 1

    def add(self, *, answer=None, **changes):
        made = entry(self.next_seq, at_us=self.next_seq, answer=answer, **changes)
        self.batch.append(made)
        if len(self.batch) == 4:
            self.commit()

    def newest(self, kind, key):
        for each in reversed(self.batch):
            for record in getattr(each.changes, kind):
                if key in (getattr(record, "name", None), getattr(record, "request_id", None)):
                    return record
        return getattr(self, kind).get(key)

    @rule(name=NAMES, state=STATES, jobs=JOBS)
    def change_a_node(self, name, state, jobs):
        before = self.newest("nodes", name)
        generation = 0 if before is None else before.generation + 1
        self.add(nodes=(node(name, state, jobs=jobs, generation=generation),))

    @rule(count=st.integers(1, 9))
    def ask(self, count):
        seq = self.next_seq
        made = RequestRecord(
            request_id=f"r{seq}", count=count, arrived_us=seq, deadline_us=seq + 5, order=seq
        )
        self.add(requests=(made,), answer=StoredAnswer(f"k{seq}", "digest", request_id=made.request_id))

    @rule(data=st.data(), status=st.sampled_from(["granted", "rejected", "withdrawn"]))
    def decide(self, data, status):
        waiting = [each for each in self.requests if self.newest("requests", each).status == "waiting"]
        if waiting:
            before = self.newest("requests", data.draw(st.sampled_from(waiting)))
            kept = {name: getattr(before, name) for name in ("request_id", "count", "arrived_us", "order")}
            made = RequestRecord(
                **kept, deadline_us=before.deadline_us, status=RequestStatus(status), generation=1
            )
            self.add(requests=(made,))

    @rule()
    def commit(self):
        if self.batch:
            self.ledger.commit(self.batch)
            for each in self.batch:
                self.nodes |= {record.name: record for record in each.changes.nodes}
                self.requests |= {record.request_id: record for record in each.changes.requests}
                if each.answer is not None:
                    self.answers[each.answer.key] = each.answer
            self.log += self.batch
            self.batch = []

    @rule(name=NAMES, step=st.sampled_from([-1, 0, 2, 5]))
    def a_stale_write_changes_nothing(self, name, step):
        self.commit()
        before = self.nodes.get(name)
        if before is not None and before.generation + step >= 0:
            stale = node(name, NodeState.DOWN, generation=before.generation + step)
            with pytest.raises(LedgerError):
                self.ledger.commit([entry(self.next_seq, nodes=(stale,))])

    @rule()
    def a_wrong_number_changes_nothing(self):
        self.commit()
        with pytest.raises(StaleError):
            self.ledger.commit([entry(self.next_seq + 1)])

    @rule()
    def reopen(self):
        self.batch = []  # never stored
        self.ledger.close()
        self.place.made.clear()
        self.place.open()

    @rule(back=st.integers(0, 5))
    def forget(self, back):
        self.commit()
        if self.log:
            self.ledger.forget(answers_before_us=0, events_before_us=len(self.log) - back)
            self.first = max(self.first, min(len(self.log), len(self.log) - back))

    @invariant()
    def holds_what_the_dictionaries_hold(self):
        if not self.log or self.untouched:
            return
        open_ones = [each for each in self.requests.values() if each.is_open]
        state = Snapshot(
            now_us=len(self.log),
            serial=len(self.log),
            nodes=tuple(self.nodes[name] for name in sorted(self.nodes)),
            requests=tuple(sorted(open_ones, key=lambda each: each.order)),
            reserves=(),
        )
        kept = list(range(self.first, len(self.log) + 1))
        if len(self.log) % 4:  # all at one moment, or one after the other: the same, and the first is cheaper
            with self.ledger.whole() as (base, log, now, who):
                logged = list(log)
            assert now == state
            assert replay(logged, base) == state
            assert [each.seq for each in logged] == kept
            assert who.seq == len(self.log)
        else:
            assert self.ledger.load() == state
            assert replayed(self.ledger) == state
            assert [each.seq for each in self.ledger.events(0, 10_000)] == kept
            assert self.ledger.last_seq() == len(self.log)
        self.untouched = True

    def teardown(self):
        if not self.log:
            return
        for key, answer in self.answers.items():
            assert self.ledger.answer(key) == answer
        found = self.ledger.requests(status=None, before=None, limit=1000)
        assert {each.request_id: each for each in found} == self.requests


@pytest.mark.slow
def test_the_ledger_is_a_dictionary_that_lasts(fast_place):
    place = fast_place
    place.open()
    start = tuple(place.sql("SELECT head, digest FROM base")[0])
    kind = type("PlacedModel", (LedgerModel,), {"place": place, "start": start})
    share = 1 if place.is_sqlite else 4  # PostgreSQL's rules are the same; its round trips are not
    run_state_machine_as_test(
        kind,
        settings=settings(
            max_examples=GATE.model_examples // share,
            stateful_step_count=GATE.model_steps,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_the_replay_of_nothing_is_nothing():
    assert replay([]) == EMPTY.snapshot
