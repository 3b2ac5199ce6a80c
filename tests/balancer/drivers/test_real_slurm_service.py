"""The service on a real Slurm: whatever happens to it, no node is granted without an owner, and all come home.

As in test_real_slurm.py these are left out where Slurm is not installed, and run in CI.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import ExitStack

import pytest

from balancer.client import Balancer, NotObtainable

HOOK = """#!/bin/sh
export BALANCER_URL="$(cat {folder}/url)" BALANCER_HOOK_KEY_FILE={folder}/hook.key
exec {python} -c 'from balancer.cli import main; main()' hook {name} 2>> {folder}/hook.log
"""

if shutil.which("slurmctld", path=f"{os.environ.get('PATH', '')}:/usr/sbin") or os.environ.get("CI"):
    pytestmark = [pytest.mark.live, pytest.mark.slow]

    class Service:
        """`balancer serve` for the nodes of a real Slurm; a restart has the same port."""

        def __init__(self, folder, nodes, **settings):
            self.folder, self.port, self.process, self.token = folder, 0, None, None
            self.config = folder / "balancer.json"
            self.ready = folder / "ready.json"
            usual = {
                "nodes": nodes,
                "driver": {"slurm": {"timeout_s": 12}},
                "db": str(folder / "ledger.db"),
                "ready_file": str(self.ready),
                "reconcile_period_s": 2,
                "confirm_poll_s": 0.3,
                "confirm_s": 4,
                "idle_hold_s": 0,
                "wait_s": 120,
            }
            self.config.write_text(json.dumps(usual | settings), encoding="utf-8")

        def run(self, *arguments, **more):
            command = [sys.executable, "-c", "from balancer.cli import main; main()", *arguments]
            return subprocess.run(command, capture_output=True, text=True, check=True, **more).stdout.strip()

        def start(self, eventually):
            self.ready.unlink(missing_ok=True)
            with (self.folder / "log").open("a", encoding="utf-8") as log:
                self.process = subprocess.Popen(
                    [
                        *(sys.executable, "-c", "from balancer.cli import main; main()", "serve"),
                        *("--config", str(self.config), "--port", str(self.port)),
                    ],
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    start_new_session=True,
                )
            eventually(lambda: self.ready.exists() or self.process.poll() is not None)
            url = json.loads(self.ready.read_text(encoding="utf-8"))["url"]
            (self.folder / "url").write_text(url, encoding="utf-8")
            self.port = int(url.rpartition(":")[2])

        def end(self, number=signal.SIGTERM):
            os.killpg(self.process.pid, number)
            self.process.wait(60)

        def log(self):
            return (self.folder / "log").read_text(encoding="utf-8")

        def client(self, name):
            return Balancer(f"http://127.0.0.1:{self.port}", name=name, token=self.token)

    @pytest.fixture
    def site(tmp_path, monkeypatch, real_slurm, kit):
        """`site(count=8, hooks="...", **settings)`: a real Slurm and a service for it; all ended with the test."""
        assert real_slurm.is_installed(), "apt-get install slurmctld slurmd slurm-client"
        with ExitStack() as stack:

            def make(*, count, hooks="", **settings):
                slurm = real_slurm.RealSlurm(tmp_path / "slurm", monkeypatch, hooks=hooks, count=count)
                stack.callback(slurm.close, kit.eventually)
                slurm.start()
                kit.eventually(lambda: states(slurm) == {"idle"})
                service = Service(tmp_path, slurm.names, **settings)
                stack.callback(
                    lambda: service.process is None or (service.process.poll() is None and service.end())
                )
                return slurm, service

            yield make

    def states(slurm):
        return {status.state for status in slurm.driver.get_status_of_all_nodes().values()}

    def granted(client):
        return {node.name for node in client.nodes() if node.state == "OD_ALLOC"}

    def in_thread(stack, action):
        """The list in which the result, or the exception, will be."""
        found = []

        def run():
            try:
                found.append(action())
            except NotObtainable as error:
                found.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        stack.callback(thread.join)
        return found

    def test_after_an_outage_of_the_controller_and_a_restart_nodes_are_only_with_those_who_answer(site, kit):
        """Half of those who asked never come back; power saving is on all the while."""
        power = "SuspendTime=5\nSuspendTimeout=3\nSuspendProgram=/bin/true\nResumeProgram=/bin/true\n"
        slurm, service = site(count=8, hooks=f"{power}SuspendExcNodes=n0[1-8]\n")
        service.start(kit.eventually)
        with ExitStack() as stack:
            look = stack.enter_context(service.client("look"))
            kit.eventually(lambda: look.status()["nodes"].get("OA_IDLE") == 8)
            slurm.stop_controller(kit.eventually)
            for number in range(4):
                stack.enter_context(service.client(f"dead-{number}")).request_nodes(1, respond_async=True)
            clients = [stack.enter_context(service.client(f"living-{number}")) for number in range(4)]
            answers = [in_thread(stack, lambda each=each: each.request_nodes(1)) for each in clients]
            kit.eventually(lambda: len(look.requests(state="waiting")) == 8)
            service.end(signal.SIGKILL)
            service.start(kit.eventually)
            slurm.start_controller()
            kit.eventually(lambda: all(answers))
            kept = {node for (request,) in answers for node in request.nodes}
            assert len(kept) == 4
            kit.eventually(lambda: granted(look) == kept)
            found = slurm.driver.get_status_of_nodes(kept)
            assert {status.state for status in found.values()} == {"offline"}
            for client, (request,) in zip(clients, answers, strict=True):
                client.release_nodes(request.nodes)
            kit.eventually(lambda: look.status()["nodes"].get("OA_IDLE") == 8)
        kit.eventually(lambda: states(slurm) == {"idle"})
        assert "power saving leaves lent nodes alone" in service.log()

    def test_people_may_resume_drain_and_break_nodes_and_hooks_report_jobs_with_tokens_on(
        site, kit, tmp_path
    ):
        hooks = ""
        for name, key in (("slurm-prolog", "PrologSlurmctld"), ("slurm-epilog", "EpilogSlurmctld")):
            path = tmp_path / name
            path.write_text(HOOK.format(folder=tmp_path, python=sys.executable, name=name), encoding="utf-8")
            path.chmod(0o755)
            hooks += f"{key}={path}\n"
        slurm, service = site(count=4, hooks=hooks, auth=True, reserve=2, wait_s=30, reconcile_period_s=3)
        where = ("--config", str(service.config))
        service.token = service.run("token", "create", *where, "--role", "operator", "--name", "op")
        keys = service.run("hook-key", *where, "n0[1-4]")
        (tmp_path / "hook.key").write_text(keys + "\n", encoding="utf-8")
        service.start(kit.eventually)
        with service.client(None) as client:
            kit.eventually(lambda: client.status()["nodes"].get("OD_RESERVE") == 2)
            request = client.request_nodes(1)
            (lent,) = request.nodes
            # Resumed by hand while it is lent: marked again, and no job starts there.
            slurm.scontrol("update", f"nodename={lent}", "state=resume")
            kit.eventually(lambda: slurm.driver.get_status_of_nodes([lent])[lent].is_ours)
            slurm.start_job(lent)
            assert "JobState=PENDING" in slurm.scontrol("show", "job", slurm.jobs[lent])
            slurm.end_job(lent)
            # A reserve node that is drained as broken leaves the reserve and is not granted.
            kit.eventually(lambda: client.status()["nodes"].get("OD_RESERVE") == 2)
            broken = next(node.name for node in client.nodes() if node.state == "OD_RESERVE")
            slurm.scontrol("update", f"nodename={broken}", "state=undrain")
            slurm.scontrol("update", f"nodename={broken}", "state=drain", "reason=broken disk")
            kit.eventually(lambda: client.node(broken).state == "DOWN")
            other = client.request_nodes(1)
            assert broken not in other.nodes
            for each in (request, other):
                client.release_nodes(each.nodes)
            # With tokens on hooks are believed: they are signed.
            kit.eventually(lambda: client.status()["nodes"].get("OA_IDLE"))
            free = next(node.name for node in client.nodes() if node.state == "OA_IDLE")
            slurm.start_job(free)
            kit.eventually(lambda: client.node(free).jobs == (slurm.jobs[free],))
            slurm.end_job(free)
            kit.eventually(lambda: client.node(free).jobs == ())
            slurm.scontrol("update", f"nodename={broken}", "state=resume")
            kit.eventually(lambda: not granted(client) and client.node(broken).state != "DOWN")
        calls = [json.loads(line) for line in service.log().splitlines() if '"/v1/update_nodes"' in line]
        assert [(call["status"], call["caller"]) for call in calls] == [(200, f"hook:{free}")] * 2
