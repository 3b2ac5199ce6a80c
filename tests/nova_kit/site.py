"""A cloud, a batch system and the Balancer between them, and what a user and an operator do with them."""

from __future__ import annotations

import json
import random
from contextlib import contextmanager

import openstack

from balancer.client import Balancer
from emulator.live.ondemand.config import OndemandConfig
from emulator.live.ondemand.server import OndemandServer
from ledger_kit import postgresql
from nova_kit.batch import Batch
from nova_kit.rig import RAM_MB, VCPUS, Agent, Nova
from polling import until

NODES = tuple(f"n{number:02d}" for number in range(1, 7))


@contextmanager
def running_site(folder, *options, wait_s=60, patience_s=60):
    """A `Site` all of whose processes run, with further `options` of the agent; they end with the block."""
    with postgresql.running() as postgres:
        nova = Nova(folder, postgres, NODES)
        batch = Batch(folder, NODES, nova.environment())
        try:
            batch.start()
            nova.configure(batch.url, wait_s=wait_s, patience_s=patience_s)
            nova.make_databases()
            nova.start()
            agent = Agent(nova, batch.url, folder, "--grace-s", "5", *options)
            try:
                agent.start()
                site = Site(nova, batch, agent)
                site.make_flavors()
                yield site
            finally:
                agent.stop()
        finally:
            nova.close()
            batch.kill()


class Manager:
    """The small manager in this process, as far as a `Site` asks it what it asks of a `Nova`."""

    def __init__(self, server):
        self._server = server

    def connect(self, user="admin"):
        return openstack.connect(
            auth_url=self._server.auth_url, username=user, password="secret", project_name=user,
            user_domain_id="default", project_domain_id="default", region_name="RegionOne", load_yaml_config=False,
            load_envvars=False, api_timeout=60,
        )  # fmt: skip

    def log(self):
        return ""

    def knows_who_waits(self):
        """Whether it has an answer to each request: one that is cut off, it gives up if nobody is there."""
        return all(each.decided or each.waiting_id for each in self._server.cloud.reservations())

    def faults(self):
        """None are told to it."""


@contextmanager
def site_with_the_manager(folder, *, wait_s):
    """A `Site` whose cloud is the small manager; the Balancer and the batch system are those of a `running_site`."""
    batch = Batch(folder, NODES, {}, cloud=None)
    try:
        batch.start()
        flavor = {"vcpus": VCPUS, "ram_mb": RAM_MB, "disk_gb": 10}
        config = OndemandConfig(balancer_url=batch.url, hosts=NODES, wait_s=wait_s, flavor=flavor)
        with OndemandServer(config) as server:
            yield Site(Manager(server), batch)
    finally:
        batch.kill()


class Site:
    """All of it, and what a user and an operator do with it. The small manager has no `agent` beside it."""

    def __init__(self, nova, batch, agent=None):
        self.nova, self.batch, self.agent = nova, batch, agent
        self.status = None if agent is None else agent.status
        self.admin = nova.connect()
        self.user = nova.connect("demo")
        self.balancer = Balancer(batch.url, name="operator", patience_s=30)

    def make_flavors(self):
        for name, share in (("node", 1), ("half", 2), ("third", 3)):
            self.admin.compute.create_flavor(name=name, vcpus=VCPUS // share, ram=RAM_MB // share, disk=10)

    def create(self, count=1, *, flavor="node", image="tiny", connection=None, named="", **more):
        """The servers of one create, named after it."""
        cloud = connection or self.user
        name = named or f"s{random.randrange(10**9)}"
        cloud.compute.create_server(
            name=name, image_id=cloud.image.find_image(image).id, flavor_id=cloud.compute.find_flavor(flavor).id,
            networks="none", min_count=count, max_count=count, **more,
        )  # fmt: skip
        return name

    def servers(self, name=""):
        return [each for each in self.admin.compute.servers(all_projects=True) if each.name.startswith(name)]

    def decided(self, name, count=1):
        """Status -> hosts, once none of its servers is under way any more."""

        def ended():
            found = self.servers(name)
            return found if len(found) == count and all(each.status != "BUILD" for each in found) else None

        found = {}
        for each in until(ended, f"{name} is decided\n{self.nova.log()}"):
            found.setdefault(each.status, []).append(each.compute_host)
        return {status: sorted(hosts, key=str) for status, hosts in found.items()}

    def delete(self, name=""):
        for each in self.servers(name):
            self.admin.compute.delete_server(each, ignore_missing=True)

    def act(self, server, action, version="2.96", **arguments):
        """What only administrators do to a server."""
        path = f"/servers/{server.id}/action"
        answer = self.admin.compute.post(path, json={action: arguments}, microversion=version)
        assert answer.status_code in (200, 202, 204), answer.text

    def waits(self):
        """A create of one while every node runs a job."""
        self.batch.start_job(*NODES)
        name = self.create()
        until(lambda: self.waiting() and self.nova.knows_who_waits(), f"the create waits\n{self.nova.log()}")
        return name

    def service(self, host):
        (found,) = (s for s in self.admin.compute.services(binary="nova-compute") if s.host == host)
        return found

    def force_down(self, host, is_down):
        """What a monitoring does to the compute service of a host that is gone: only then may servers be evacuated."""
        found = self.admin.compute.get("/os-services?binary=nova-compute", microversion="2.96").json()
        (service,) = (each["id"] for each in found["services"] if each["host"] == host)
        body = {"forced_down": is_down}
        answer = self.admin.compute.put(f"/os-services/{service}", json=body, microversion="2.96")
        assert answer.status_code == 200, answer.text

    def states(self):
        return {node.name: node.state for node in self.balancer.nodes()}

    def allocated(self):
        return sorted(name for name, state in self.states().items() if state == "OD_ALLOC")

    def waits_for(self, number):
        """Until so many requests wait."""
        until(lambda: len(self.waiting()) == number, f"{number} wait\n{self.nova.log()}")

    def waiting(self):
        return self.balancer.requests(state="waiting")

    def intruders(self):
        return json.loads(self.status.read_text())["intruders"]

    def is_home(self):
        return (
            not self.servers()
            and set(self.states().values()) <= {"OA_IDLE", "OA_BUSY"}
            and not self.waiting()
        )
