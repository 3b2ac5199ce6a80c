"""What a role of a live run is told, where a slow machine must change nothing."""

import pytest

from emulator.live.containers import startup
from emulator.live.ondemand.config import OndemandConfig
from emulator.live.roles import RunSettings
from emulator.live.run_files import RunFiles
from emulator.live.run_requirements import requirements_of
from emulator.runs.preparation import prepare
from emulator.runs.scenario import from_mapping


def run_settings(**live):
    scenario = from_mapping(
        {
            "nodes": 3,
            "workload": {"generate": [{"daily_batch": {"days": 0.01}}]},
            "mechanism": {"balancer": {}},
            "live": live,
        }
    )
    prepared = prepare(scenario)
    return RunSettings(scenario, requirements_of(scenario, prepared), prepared.jobs, comes_back=False)


@pytest.mark.parametrize(("patience_s", "linger_s"), [(60, 10), (3, 1.5), (0, 10)])
def test_nodes_of_a_lease_go_back_together_however_slowly_its_servers_are_deleted(
    tmp_path, patience_s, linger_s
):
    """Half of a lease that goes back alone is granted to others at once: a decision that virtual time does not know.

    So it happened with 50 ms on a machine with too much to do (`balancer-keeps` of `test_live_equals_virtual.py`).
    """
    places = startup.container_places(RunFiles(tmp_path), ("n001", "n002", "n003"), "http://b", "http://o")
    told = run_settings(patience_s=patience_s).ondemand(places).config
    assert OndemandConfig.model_validate(told).release_linger_s == linger_s
