"""Mixed load on a real Slurm with every fault: no node has two owners, no job runs on a lent one, none is lost."""

from __future__ import annotations

import random
import signal
import threading
from collections import defaultdict
from contextlib import suppress
from itertools import pairwise
from subprocess import CalledProcessError
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from balancer.client import NotObtainable
from balancer.clock import US, utc_us, wall_us
from fleet_kit.slurm_site import HOME_S, granted
from gates import GATE
from polling import until

NODES, CLIENTS = 24, 6


class Span(NamedTuple):
    """From begin to end, in seconds of the day that all processes have, `node` was `holder`'s."""

    begin_s: float
    end_s: float
    node: str
    holder: str


def doubles(spans):
    """Pairs that overlap on one node."""
    by_node = defaultdict(list)
    for each in sorted(spans):
        by_node[each.node].append(each)
    return [
        (one, two) for found in by_node.values() for one, two in pairwise(found) if two.begin_s < one.end_s
    ]


def strayed(look, slurm):
    """Nodes that are not batch's: their state here and in Slurm."""
    away = {each.name: each for each in look.nodes() if each.state not in ("OA_IDLE", "OA_BUSY")}
    states = slurm.states() if away else {}
    return {name: (each.state, each.reported, states[name]) for name, each in away.items()}


def now_s():
    return utc_us() / US


class Client(threading.Thread):
    """Asks for nodes, has them for a while and gives them back, until `over`; `held`: what it had."""

    def __init__(self, service, number, over):
        super().__init__()
        self._service, self._name, self._over = service, f"client-{number}", over
        self._chance = random.Random(number)
        self.held: list[Span] = []
        self.refused = 0

    def run(self):
        with self._service.client(self._name) as balancer:
            while not self._over.wait(self._chance.uniform(0, 3)):
                try:
                    nodes = balancer.request_nodes(self._chance.randint(1, 3)).nodes
                except NotObtainable:
                    self.refused += 1
                    continue
                begin_s = now_s()
                self._over.wait(self._chance.uniform(1, 12))
                self.held += [Span(begin_s, now_s(), node, self._name) for node in nodes]
                balancer.release_nodes(nodes)


class Faults:
    """Kills, stops, drains, breaks and resumes, in an order that is drawn; `repair` takes all of it back."""

    def __init__(self, slurm, service, look):
        self._slurm, self._service, self._look = slurm, service, look
        self._chance = random.Random(47)
        self._pause = threading.Event()
        self._touched: set[str] = set()
        self.done: dict[str, int] = defaultdict(int)

    def one(self):
        act = self._chance.choice(
            (self.kill_the_service, self.stop_the_controller, self.drain, self.resume_a_lent_one, self.break_a_lent_one,
             self.repair, self.repair)
        )  # fmt: skip
        self.done[act.__name__] += 1
        act()
        self._pause.wait(self._chance.uniform(1, 6))

    def kill_the_service(self):
        self._service.end(signal.SIGKILL)
        self._pause.wait(self._chance.uniform(0, 5))
        self._service.start()

    def stop_the_controller(self):
        self._slurm.stop_controller()
        self._pause.wait(self._chance.uniform(0, 8))
        self._slurm.start_controller()

    def _update(self, node, *words):
        """Whether Slurm did so: asked between two answers, a node may be another's by now, and it refuses."""
        with suppress(CalledProcessError):
            self._slurm.scontrol("update", f"nodename={node}", *words)
            return True
        return False

    def drain(self):
        node = self._chance.choice(self._slurm.names)
        if self._update(node, "state=drain", "reason=disk"):
            self._touched.add(node)

    def _lent_one(self):
        """None: there is none."""
        lent = sorted(granted(self._look))
        return self._chance.choice(lent) if lent else None

    def resume_a_lent_one(self):
        if (node := self._lent_one()) is not None:
            self._update(node, "state=resume")

    def break_a_lent_one(self):
        node = self._lent_one()
        if node is not None and self._update(node, "state=down", "reason=fan"):
            self._touched.add(node)

    def repair(self):
        for node in sorted(self._touched):
            if self._update(node, "state=resume"):
                self._touched.discard(node)


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.timeout(600 + GATE.slurm_load_s)
def test_no_node_has_two_owners_and_no_job_is_lost_or_on_a_lent_node(site, tmp_path):
    # Slurm forgets a job that ended five minutes ago, unless told.
    slurm, service = site(count=NODES, hooks="MinJobAge=86400\n", driver={"hold": "reservation"})
    service.start()
    written = tmp_path / "jobs"
    note = f"echo $SLURM_JOB_ID $SLURM_JOB_NODELIST $(date +%s.%N) >> {written}"
    over = threading.Event()
    clients = [Client(service, number, over) for number in range(CLIENTS)]
    with service.client("look") as look:
        until(lambda: look.status()["nodes"].get("OA_IDLE") == NODES)
        jobs = slurm.queue_jobs(40, 4, note)
        for each in clients:
            each.start()
        faults, chance, begun_us = Faults(slurm, service, look), random.Random(1), wall_us()
        while wall_us() - begun_us < GATE.slurm_load_s * US:
            faults.one()
            with suppress(CalledProcessError):
                jobs += slurm.queue_jobs(chance.randint(1, 8), chance.randint(1, 10), note)
        over.set()
        for each in clients:
            each.join()
        faults.repair()
        with suppress(AssertionError):  # the next line says which
            until(lambda: not strayed(look, slurm), limit_s=HOME_S)
        assert strayed(look, slurm) == {}
        until(lambda: slurm.ended_well(jobs), limit_s=HOME_S)
    held = [span for each in clients for span in each.held]
    runs = defaultdict(list)
    for job, node, at_s in map(str.split, written.read_text().splitlines()):
        runs[job, node].append(float(at_s))
    spans = [Span(begin_s, end_s, node, f"job {job}") for (job, node), (begin_s, end_s) in runs.items()]
    refused = sum(each.refused for each in clients)
    print(f"{len(held)} spans of clients, {refused} refused, {len(spans)} of jobs, {dict(faults.done)}")
    assert {job for job, _ in runs} == set(jobs)
    assert len(held) > GATE.slurm_load_s / 10
    assert doubles([*held, *spans]) == []


def test_a_node_with_two_owners_would_be_seen():
    one, two, later = Span(0, 5, "n01", "a"), Span(4, 6, "n01", "job 1"), Span(6, 7, "n01", "b")
    assert doubles([later, two, one, Span(0, 9, "n02", "a")]) == [(one, two)]


def test_a_controller_that_does_not_start_ends_the_load():
    class Broken:
        def stop_controller(self):
            pass

        def start_controller(self):
            raise CalledProcessError(1, ["slurmctld"])

    faults = Faults(Broken(), None, None)
    faults._pause.set()
    faults._chance = SimpleNamespace(
        choice=lambda acts: faults.stop_the_controller, uniform=lambda low, high: 0
    )
    with pytest.raises(CalledProcessError):
        faults.one()
