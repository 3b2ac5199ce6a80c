"""`scripts/docker-engine`, in a network of its own."""

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

pytestmark = [pytest.mark.live, pytest.mark.slow]

ROOT = Path(__file__).parents[4]
# What others have done before, and do meanwhile, stays.
_SCRIPT = """set -e
rules() { iptables-save | sed -n 's/^-[AP] .*/&/p; s/^\\(:FORWARD [A-Z]*\\).*/\\1/p'; ip -o link | cut -d: -f2; }
iptables -A FORWARD -s 10.9.0.0/16 -j ACCEPT
rules
echo ---
eval "$(scripts/docker-engine start)"
docker network create mine >/dev/null
rules
echo ---
scripts/docker-engine stop
rules
"""


@pytest.mark.needs("root", "engine-programs")
@pytest.mark.skipif(
    Path("/var/run/docker.sock").exists(),
    reason="there is an engine of the machine's own, which would be used",
)
def test_an_engine_that_is_stopped_leaves_no_rule_no_bridge_and_no_file_behind():
    with tempfile.TemporaryDirectory(prefix="engine") as folder:
        environ = {name: value for name, value in os.environ.items() if name != "DOCKER_HOST"}
        engine = Path(folder) / "e"
        said = subprocess.run(
            ["unshare", "-n", "bash", "-c", _SCRIPT],
            env=environ | {"BALANCER_ENGINE_DIR": str(engine)},
            cwd=ROOT, capture_output=True, text=True, timeout=120, check=True,
        ).stdout  # fmt: skip
        before, running, after = (part.split("\n") for part in said.strip().split("\n---\n"))
        assert "DOCKER" in "".join(running)
        assert any("br-" in line for line in running)
        assert after == before
        assert not engine.exists()
        assert str(engine) not in Path("/proc/mounts").read_text(encoding="utf-8")
