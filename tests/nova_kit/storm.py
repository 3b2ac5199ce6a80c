"""Everything happens at once to a real Nova; then what Nova, Placement and the Balancer have is counted.

One driver with a seed: what it does next is drawn, when that takes effect is not. A call that is refused (a server
that is gone, a full host, a service that was killed) is counted; it changes nothing of what must hold at the end.
"""

from __future__ import annotations

import random
import threading
from collections import Counter

import openstack.exceptions
import requests

from balancer.client import BalancerError
from balancer.clock import micros, wall_us
from nova_kit.site import NODES
from polling import until

_REFUSED = (openstack.exceptions.SDKException, requests.RequestException, BalancerError, AssertionError)
_AT_REST = {"ACTIVE", "ERROR", "VERIFY_RESIZE", "SHUTOFF"}
_MOST_SERVERS = 9


class Storm:
    """`done`: how often what was done, `refused`: how often it was refused, `ran`: servers that were ACTIVE."""

    def __init__(self, site, seed):
        self._site = site
        self._chance = random.Random(seed)
        self._pause = threading.Event()
        self.done: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.ran: set[str] = set()
        self._acts = {
            self.create: 8,
            self.delete_a_server: 5,
            self.delete_a_group: 3,
            self.delete_one_that_waits: 3,
            self.start_jobs: 5,
            self.end_jobs: 5,
            self.migrate: 3,
            self.migrate_live: 3,
            self.confirm_a_move: 3,
            self.disable_a_host: 1,
            self.enable_the_hosts: 2,
            self.kill_the_balancer: 1,
            self.kill_the_agent: 1,
        }

    def blow(self, seconds):
        """Do one thing after the other until so much time has passed; Nova itself is killed once, half way."""
        begun_us = wall_us()
        nova_lives = True
        while (gone_us := wall_us() - begun_us) < micros(seconds):
            if nova_lives and gone_us > micros(seconds) / 2:
                nova_lives = False
                self._do(self.kill_nova)
            (act,) = self._chance.choices(list(self._acts), list(self._acts.values()))
            self._do(act)
            self._look()
            self._pause.wait(self._chance.uniform(0, 1))

    def _do(self, act):
        self.done[act.__name__] += 1
        if act.__name__.startswith("kill_"):  # nobody may refuse to start again
            act()
            return
        try:
            act()
        except _REFUSED as error:
            self.refused[f"{act.__name__}: {type(error).__name__}"] += 1

    def _look(self):
        try:
            self.ran |= {each.id for each in self._site.servers() if each.status == "ACTIVE"}
        except _REFUSED as error:
            self.refused[f"look: {type(error).__name__}"] += 1

    def _one(self, *statuses):
        found = [each for each in self._site.servers() if each.status in statuses and each.task_state is None]
        if not found:
            raise AssertionError("there is none")
        return self._chance.choice(sorted(found, key=lambda each: each.name))

    def create(self):
        if len(self._site.servers()) < _MOST_SERVERS:
            flavor = self._chance.choice(("node", "node", "half"))
            self._site.create(self._chance.choice((1, 1, 2, 3)), flavor=flavor)

    def delete_a_server(self):
        if found := self._site.servers():
            self._delete(self._chance.choice(sorted(found, key=lambda each: each.name)))

    def delete_one_that_waits(self):
        if found := [each for each in self._site.servers() if each.status == "BUILD"]:
            self._delete(self._chance.choice(sorted(found, key=lambda each: each.name)))

    def _delete(self, server):
        self._site.admin.compute.delete_server(server, ignore_missing=True)

    def delete_a_group(self):
        if found := sorted({each.name.partition("-")[0] for each in self._site.servers()}):
            self._site.delete(self._chance.choice(found))

    def start_jobs(self):
        free = self._site.batch.free()
        self._site.batch.start_job(*self._chance.sample(free, min(len(free), self._chance.randint(1, 3))))

    def end_jobs(self):
        busy = self._site.batch.with_jobs()
        self._site.batch.end_job(*self._chance.sample(busy, min(len(busy), self._chance.randint(1, 4))))

    def migrate(self):
        self._site.act(self._one("ACTIVE"), "migrate")

    def migrate_live(self):
        server = self._one("ACTIVE")
        others = sorted(set(NODES) - {server.compute_host})
        host = self._chance.choice([None, *others])
        self._site.act(server, "os-migrateLive", host=host, block_migration="auto")

    def confirm_a_move(self):
        self._site.act(self._one("VERIFY_RESIZE"), self._chance.choice(("confirmResize", "revertResize")))

    def disable_a_host(self):
        host = self._chance.choice(NODES)
        self._site.admin.compute.disable_service(self._site.service(host), host, "nova-compute")

    def enable_the_hosts(self):
        for host in NODES:
            self._site.admin.compute.enable_service(self._site.service(host), host, "nova-compute")

    def kill_the_balancer(self):
        self._site.batch.kill()
        self._pause.wait(self._chance.uniform(0, 4))
        self._site.batch.start()

    def kill_the_agent(self):
        self._site.agent.kill()
        self._pause.wait(self._chance.uniform(0, 4))
        self._site.agent.start()

    def kill_nova(self):
        self._site.nova.kill()
        self._site.nova.start()

    def calm(self):
        """Nothing happens any more: what was begun ends, and jobs end. Servers that Nova was killed under are deleted.

        Nova itself never goes on with a server that it was killed under: an operator deletes it.
        """
        site = self._site
        self.enable_the_hosts()
        until(lambda: self._is_reached(lambda: site.batch.end_job(*site.batch.with_jobs())), "all jobs end")
        limit_us = wall_us() + micros(180)
        while (moving := [each for each in site.servers() if not _rests(each)]) and wall_us() < limit_us:
            self._pause.wait(0.5)
        for each in moving:
            self.done["deleted since Nova had forgotten it"] += 1
            site.admin.compute.delete_server(each, force=True, ignore_missing=True)
        until(lambda: all(map(_rests, site.servers())), f"servers rest\n{site.nova.log()}")
        for each in site.servers():
            if each.status == "VERIFY_RESIZE":
                site.act(each, "confirmResize")
        until(lambda: all(each.status != "VERIFY_RESIZE" for each in site.servers()), "moves are confirmed")

    def _is_reached(self, call):
        try:
            call()
        except _REFUSED:
            return False
        return True


def _rests(server):
    return server.status in _AT_REST and server.task_state is None


def differences(site):
    """Where Nova, Placement and the Balancer do not agree on who has a node; [] where they do."""
    servers = {each.id: each.compute_host for each in site.servers() if each.compute_host}
    states = site.states()
    found = [
        f"{server} runs on {host}, which is {states.get(host)}"
        for server, host in servers.items()
        if states.get(host) != "OD_ALLOC"
    ]
    found += [
        f"{node} is granted, and no server is on it"
        for node, state in states.items()
        if state not in {"OA_IDLE", "OA_BUSY"} and node not in servers.values()
    ]
    held = {(server, host) for host in NODES for server in consumers(site, host)}
    found += [
        f"{consumer} has an allocation on {host}, and is not there"
        for consumer, host in held - set(servers.items())
    ]
    found += [f"{server} has no allocation on {host}" for server, host in set(servers.items()) - held]
    found += [f"request {each.id} waits for nobody" for each in site.waiting()]
    return sorted(found)


def consumers(site, host):
    """Whoever has an allocation on a host, as Placement says."""
    placement = site.admin.placement
    (provider,) = placement.get(f"/resource_providers?name={host}").json()["resource_providers"]
    return placement.get(f"/resource_providers/{provider['uuid']}/allocations").json()["allocations"]
