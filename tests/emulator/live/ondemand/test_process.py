"""The manager as a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import openstack
import pytest
import requests
from click.testing import CliRunner
from werkzeug.serving import make_server
from werkzeug.wrappers import Request, Response

from emulator.live.ondemand.__main__ import main
from polling import until

pytestmark = pytest.mark.live
ROOT = Path(__file__).parents[4]


def write(folder, settings):
    path = folder / "ondemand.yaml"
    path.write_text(json.dumps(settings))
    return path


def start(folder, **settings):
    path = write(folder, settings)
    return subprocess.Popen(
        [sys.executable, "-m", "emulator.live.ondemand", "--config", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )


def test_it_says_where_it_is_answers_there_and_ends_on_sigterm(tmp_path):
    ready = tmp_path / "ready"
    with start(tmp_path, pool=["n1"], ready_file=str(ready)) as process:
        process.stdout.readline()  # where it is: by then the file is there
        url = json.loads(ready.read_text())["url"]
        assert requests.get(f"{url}/identity/v3", timeout=60).json()["version"]["id"] == "v3.14"
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0


@contextmanager
def ending(process):
    """Whatever happens in the block, nobody waits for this process afterwards."""
    try:
        yield
    finally:
        process.kill()


class LostAnswers:
    """A Balancer that grants and whose answers are lost, until `hears`; `told` is what it did, each call once."""

    def __init__(self):
        self.hears = Event()
        self.asked, self.told, self.known = Event(), [], {}
        self.server = make_server("127.0.0.1", 0, self.answer, threaded=True)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    @Request.application
    def answer(self, request):
        key = request.headers["Idempotency-Key"]
        self.known.setdefault(key, (request.path, request.get_json()))
        if not self.hears.is_set():
            self.asked.set()
            return Response(status=503)
        if request.path == "/v1/release_nodes":
            self.told.append((key, *request.get_json()["nodes"]))
            return Response(json.dumps({"nodes": []}), content_type="application/json")
        granted = {"id": "r1", "state": "granted", "nodes": ["n1"], "decided_at": None, "confirmed": True}
        return Response(json.dumps(granted), content_type="application/json")

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def test_nodes_that_a_lost_answer_granted_go_back_though_the_manager_was_killed(tmp_path):
    balancer, ready, memory = LostAnswers(), tmp_path / "ready", tmp_path / "memory"
    settings = {"balancer_url": balancer.url, "ready_file": str(ready), "memory": str(memory)}
    try:
        with start(tmp_path, **settings) as killed, ending(killed):
            killed.stdout.readline()
            url = json.loads(ready.read_text())["url"]
            with openstack.connect(
                auth_url=f"{url}/identity/v3", username="demo", password="secret", project_name="demo",
                user_domain_id="default", project_domain_id="default", region_name="RegionOne",
                load_yaml_config=False, load_envvars=False,
            ) as cloud:  # fmt: skip
                made = cloud.compute.create_server(
                    name="lost", flavor_id="100", image_id=cloud.image.find_image("tiny").id, networks="none"
                )
                while cloud.compute.get_server(made.id).status != "ERROR":
                    assert killed.poll() is None
            killed.kill()
        assert balancer.told == []
        balancer.hears.set()
        with start(tmp_path, **settings) as process, ending(process):
            process.stdout.readline()
            until(lambda: balancer.told or process.poll() is not None)
            assert process.poll() is None
            process.send_signal(signal.SIGTERM)
            assert process.wait() == 0
        assert [nodes for _, *nodes in balancer.told] == [["n1"]]
        (asked,) = (key for key, (path, _) in balancer.known.items() if path == "/v1/request_nodes")
        assert balancer.told[0][0] == f"undo-{asked}"
    finally:
        balancer.close()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "give either pool (names of dedicated nodes) or balancer_url"),
        ({"pool": ["n1", "n1"]}, "pool: these nodes are listed twice: n1"),
        ({"pool": [], "boot_s": -1}, "boot_s: must be at least 0"),
        ({"pool": [], "clock": "/nowhere/clock"}, "/nowhere/clock"),
    ],
)
def test_bad_settings_are_named_and_end_it_with_status_2(tmp_path, settings, said):
    ended = CliRunner().invoke(main, ["--config", str(write(tmp_path, settings))])
    assert ended.exit_code == 2
    assert said in ended.stderr
