"""The configuration and what the command line gives over it: names, numbers, times and what is said of wrong ones."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from balancer.config import Config, ConfigError, read_config
from balancer.console import serve
from command_line import balance
from emulator.config.scenario_parts import EnergyPart

OLD_NAMES = {"idle_reserve_s": "idle_hold_s", "quarantine_s": "hold_s"}


@pytest.mark.parametrize(("name", "old"), OLD_NAMES.items())
def test_an_old_name_means_what_the_new_one_does(name, old):
    assert read_config(None, {"nodes": "n1", old: 7}) == read_config(None, {"nodes": "n1", name: 7})


@pytest.mark.parametrize(("name", "old"), OLD_NAMES.items())
def test_both_names_at_once_are_refused(name, old):
    with pytest.raises(ConfigError, match=f"{old}: there is no such key"):
        read_config(None, {"nodes": "n1", old: 7, name: 7})


def test_a_key_that_there_is_not_is_named_with_the_one_that_was_meant(tmp_path):
    file = tmp_path / "balancer.yaml"
    file.write_text("nodes: n[1-4]\nreserv: 1\n")
    with pytest.raises(ConfigError) as caught:
        read_config(file, {})
    assert str(caught.value) == f"{file}: reserv: there is no such key; did you mean 'reserve'?"


@pytest.mark.parametrize("written", ["idle_reserve_s", "idle_hold_s"])
@pytest.mark.parametrize("option", ["--idle-reserve-s", "--idle-hold-s"])
def test_the_option_goes_over_the_file_by_whichever_names(written, option, tmp_path, monkeypatch):
    file = tmp_path / "balancer.yaml"
    file.write_text(f"nodes: n1\n{written}: 1\n")
    served = []
    monkeypatch.setattr(serve, "serve", lambda config, _: served.append(config.idle_reserve_s))
    balance("serve", "--config", file, option, "7", catch_exceptions=False)
    assert served == [7.0]


def test_each_wrong_key_is_told_with_the_file_if_it_stands_there(tmp_path):
    file = tmp_path / "balancer.yaml"
    file.write_text("nodes: n1\nreserve: -1\n")
    with pytest.raises(ConfigError) as error:
        read_config(file, {"wait_s": -2.0})
    assert str(error.value).splitlines() == [
        f"{file}: reserve: must be at least 0, not -1",
        "wait_s: must be at least 0, not -2.0",
    ]


SECONDS = sorted(name for name in Config.model_fields if name.endswith("_s") and name != "rate_per_s")


@pytest.mark.parametrize("name", SECONDS)
def test_no_time_is_so_long_that_its_end_cannot_be_stored(name):
    with pytest.raises(ConfigError, match=f"{name}: must be at most 3200000000"):
        read_config(None, {"nodes": "n1", name: 3.3e9})


@pytest.mark.parametrize("name", [*SECONDS, "reserve", "rate_per_s", "max_waiting_requests", "port"])
@pytest.mark.parametrize("value", [True, False])
def test_a_truth_value_is_no_number(name, value):
    with pytest.raises(ConfigError, match=f"{name}: must be a (whole )?number, not {value}"):
        read_config(None, {"nodes": "n1", name: value})


def test_a_truth_value_is_one_where_it_is_wanted():
    assert read_config(None, {"nodes": "n1", "auth": False, "insecure_bind": True}).auth is False


def test_a_scenarios_part_takes_no_truth_value_for_a_number():
    with pytest.raises(ValidationError, match="must be a number, not True"):
        EnergyPart.model_validate({"busy_w": True, "idle_w": 1})


@pytest.mark.parametrize("option", ["--driver", "--algorithm", "--clock"])
def test_an_option_without_a_name_is_a_wrong_call(option):
    ended = balance("serve", "--nodes", "n1", option, "")
    assert (ended.exit_code, "no name is given" in ended.output) == (2, True)


@pytest.mark.parametrize(
    "command",
    [
        ["request", "1", "--wait-s"],
        ["request", "1", "--lease-s"],
        ["request", "1", "--patience-s"],
        ["renew", "r1", "--lease-s"],
        ["reserve", "1", "--in-s"],
        ["token", "create", "--role", "operator", "--expires-s"],
        ["nova", "agent", "--period-s"],
    ],
)
@pytest.mark.parametrize("seconds", ["nan", "inf", "1e300"])
def test_a_time_that_is_none_is_a_wrong_call(command, seconds):
    ended = balance(*command, seconds)
    assert (ended.exit_code, f"Invalid value for '{command[-1]}'" in ended.output) == (2, True)


@pytest.mark.parametrize("url", ["head", "ftp://head", "http://", "http://[::1", "http://head:99999"])
@pytest.mark.parametrize("command", [["status"], ["ledger", "adopt"], ["predictor", "backtest", "peak"]])
def test_an_address_that_is_none_is_a_wrong_call(command, url, monkeypatch):
    monkeypatch.setenv("BALANCER_URL", url)
    ended = balance(*command)
    assert (ended.exit_code, "is no address of a service" in ended.output) == (2, True)
