"""Whatever happens at once to a real Nova and its neighbours: in the end all agree, and nothing has leaked."""

import pytest

from gates import GATE
from nova_kit.site import running_site
from nova_kit.storm import Storm, differences
from polling import until

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.nightly,
    pytest.mark.needs("nova"),
    pytest.mark.timeout(900 + 2 * GATE.nova_storm_s),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def test_after_a_storm_nova_placement_and_the_balancer_agree_and_nothing_is_leaked(tmp_path):
    with running_site(tmp_path, "--orphans", "remove", wait_s=20) as site:
        storm = Storm(site, seed=46)
        storm.blow(GATE.nova_storm_s)
        storm.calm()
        print(dict(storm.done), dict(storm.refused), f"{len(storm.ran)} servers ran", sep="\n")
        assert storm.ran, "nothing ran, so that nothing could leak"
        until(lambda: not differences(site), f"{differences(site)}\n{site.nova.log()}", 60)
        site.delete()
        until(lambda: site.is_home() and not differences(site), f"all are home: {differences(site)}", 60)
