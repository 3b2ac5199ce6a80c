"""The images of the fleet, as `scripts/fleet-images` makes them."""

import subprocess

import pytest

from balancer.version import VERSION

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.needs("fleet-images")]

_BRING = "from emulator.live.containers.entry import bring_kernels; bring_kernels()"
_COUNT = "find /run/fleet/kernels -name '*.nbc' | wc -l"


@pytest.mark.parametrize("image", ["batch", "controller"])
def test_a_container_finds_all_loops_compiled_and_compiles_none_anew(image):
    script = f'python -c "{_BRING}" && {_COUNT} && python -m emulator.simulation.warm && {_COUNT}'
    shell = f"docker run --rm --network none --user 1000 --entrypoint sh balancer-emulator/{image}:{VERSION} -c".split()
    said = subprocess.run([*shell, script], capture_output=True, text=True, timeout=250, check=True)
    before, after = said.stdout.split()
    assert int(before) > 0
    assert after == before
