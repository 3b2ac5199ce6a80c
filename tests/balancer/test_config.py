"""Keys of the configuration that have a new name are read for one more version by the old one."""

from __future__ import annotations

import pytest

from balancer.config import ConfigError, read_config

OLD_NAMES = {"idle_reserve_s": "idle_hold_s", "quarantine_s": "hold_s"}


@pytest.mark.parametrize(("name", "old"), OLD_NAMES.items())
def test_an_old_name_means_what_the_new_one_does(name, old):
    assert read_config(None, {"nodes": "n1", old: 7}) == read_config(None, {"nodes": "n1", name: 7})


@pytest.mark.parametrize(("name", "old"), OLD_NAMES.items())
def test_both_names_at_once_are_refused(name, old):
    with pytest.raises(ConfigError, match=f"{old}: there is no such key"):
        read_config(None, {"nodes": "n1", old: 7, name: 7})
