"""Whatever comes at the wrong moment ends with a real Nova as with the small manager, and all agree again after it.

`tests/emulator/live/ondemand/test_unfriendly.py` holds the shared cases against the small manager.
"""

from __future__ import annotations

import pytest

from nova_kit import bad_moments
from nova_kit.site import running_site
from nova_kit.storm import differences
from nova_kit.unfriendly import CASES, EXPECTED, clear
from polling import until

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.nightly,
    pytest.mark.needs("nova"),
    pytest.mark.timeout(1200),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
W_S = 40


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nova")
    with running_site(folder, "--orphans", "remove", wait_s=W_S, patience_s=20) as running:
        yield running


def agrees(site):
    """No node is granted without a server, and nobody has an allocation where it is not."""
    until(lambda: not differences(site), f"{differences(site)}\n{site.nova.log()}", 60)


def test_shared_cases(site, subtests):
    for name, seen in CASES.items():
        with subtests.test(name):
            try:
                assert seen(site) == EXPECTED[name]
                agrees(site)
            finally:
                clear(site)


def test_bad_moments(site, subtests):
    for each in bad_moments.CASES:
        with subtests.test(each.__name__.replace("_", " ")):
            try:
                each(site)
                agrees(site)
            finally:
                clear(site)
