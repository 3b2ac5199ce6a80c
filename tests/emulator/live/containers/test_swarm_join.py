"""What a host is told that joins a Swarm: the script, with a docker that writes down how it is called."""

import os
import subprocess

import pytest
import requests

from emulator.live.containers.swarm import JoinServer, JoinTicket

_DOCKER = """#!/bin/sh
echo "$*" >>"$CALLS"
case "$1 $2" in
    "image inspect") echo "$HAS" ;;
    "load --quiet") cat >"$CALLS.image" ;;
    "info --format") echo "${SWARM:-inactive}" ;;
esac
"""
_INVITATION = JoinTicket("10.0.0.1:2377", "SWMTKN", "nodes:1", "sha256:new", lambda: [b"layer ", b"layer"])


@pytest.fixture
def join(tmp_path):
    """Type the command on a host that has this image (its ID): the calls of docker, and the process's exit status."""
    docker = tmp_path / "docker"
    docker.write_text(_DOCKER)
    docker.chmod(0o755)
    calls = tmp_path / "calls"
    environ = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "CALLS": str(calls)}

    def run(has, **more):
        with JoinServer(("127.0.0.1", 0), _INVITATION) as server:
            server.over.set()
            done = subprocess.run(
                ["sh", "-c", server.command], env=environ | more | {"HAS": has}, check=True, timeout=60
            )
        return done.returncode, calls.read_text().splitlines()

    return run


@pytest.mark.needs("curl")
def test_a_host_gets_the_image_joins_and_leaves_when_the_run_is_over(join, tmp_path):
    status, calls = join("sha256:old")
    assert status == 0
    assert (tmp_path / "calls.image").read_bytes() == b"layer layer"
    words = [call for call in calls if call.startswith(("load", "swarm"))]
    assert words == ["load --quiet", "swarm join --token SWMTKN 10.0.0.1:2377", "swarm leave"]


@pytest.mark.needs("curl")
def test_a_host_that_has_the_image_is_sent_none(join, tmp_path):
    join("sha256:new")
    assert not (tmp_path / "calls.image").exists()


@pytest.mark.needs("curl")
def test_a_host_of_a_swarm_of_ones_own_gets_the_image_and_stays_where_it_is(join, tmp_path):
    status, calls = join("", SWARM="active")
    assert status == 0
    assert (tmp_path / "calls.image").read_bytes() == b"layer layer"
    assert [call for call in calls if call.startswith(("swarm", "network"))] == []


@pytest.mark.parametrize("path", ["", "secret", "secret/image", "{secret}/more"])
def test_who_does_not_know_the_secret_is_told_nothing(path):
    with JoinServer(("127.0.0.1", 0), _INVITATION) as server:
        url = server.command.split()[2]
        base, _, secret = url.rpartition("/")
        assert requests.get(f"{base}/{path.format(secret=secret)}", timeout=60).status_code == 404
