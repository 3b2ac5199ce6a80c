"""Whatever comes at the wrong moment ends with the small manager as it does with a real Nova.

`tests/balancer/nova/test_unfriendly_nova.py` holds the same cases against the real one.
"""

from __future__ import annotations

import pytest

from nova_kit.site import site_with_the_manager
from nova_kit.unfriendly import CASES, EXPECTED, clear

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]
W_S = 20


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with site_with_the_manager(tmp_path_factory.mktemp("manager"), wait_s=W_S) as running:
        yield running


@pytest.mark.parametrize("name", CASES)
def test_what_the_manager_does_when(name, site):
    try:
        assert CASES[name](site) == EXPECTED[name]
    finally:
        clear(site)


def test_every_case_has_an_expected_end():
    assert CASES.keys() == EXPECTED.keys()
