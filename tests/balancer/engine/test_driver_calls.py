"""What a call of the driver came to: counted, remembered and asked for; a driver may fail in any way."""

from __future__ import annotations

import pytest
import structlog

from balancer.drivers.base import NodeStatus, RefusedError, UnclearError
from balancer.ledger.errors import LedgerError
from balancer.service.driver_calls import DriverCalls


class Driver:
    """Notes what it is told; `error` is raised by whatever comes next."""

    name = "fake"

    def __init__(self):
        self.told = []
        self.error = None
        self.states = {"n1": NodeStatus("idle")}

    def _do(self, *call):
        self.told.append(call)
        if self.error is not None:
            raise self.error

    def reclaim_nodes(self, nodes, *, why=""):
        self._do("reclaim", nodes, why)

    def restore_nodes(self, nodes):
        self._do("restore", nodes)

    def get_status_of_nodes(self, nodes):
        self._do("status", nodes)
        return self.states

    def get_status_of_all_nodes(self):
        self._do("status of all")
        return self.states


class Tidy(Driver):
    def tidy(self):
        self._do("tidy")


class Counted:
    def __init__(self):
        self.done = []

    def command_done(self, command, outcome, took_s):
        assert 0 <= took_s < 60
        self.done.append((command, outcome))


class Writer:
    """Whether this process may command."""

    error = None

    def check(self):
        if self.error is not None:
            raise self.error


@pytest.fixture
def made():
    def make(driver):
        counted, writer = Counted(), Writer()
        calls = DriverCalls(driver, observer=counted, check_writer=writer.check, signature=lambda: "ledger 7")
        return calls, counted, writer

    return make


def test_commands_and_looks_go_to_the_driver_and_are_counted(made):
    driver = Driver()
    calls, counted, _ = made(driver)
    assert (calls.last_command_error, calls.last_read_error) == ("", "")
    calls.reclaim(["n1"])
    calls.restore(["n2"])
    assert calls.look(["n1"]) == driver.states
    assert calls.look_at_all() == (driver.states, None)
    assert driver.told == [
        ("reclaim", ["n1"], "ledger 7"),
        ("restore", ["n2"]),
        ("status", ["n1"]),
        ("status of all",),
    ]
    assert counted.done == [("reclaim", "ok"), ("restore", "ok"), ("status", "ok"), ("status", "ok")]
    assert (calls.name, calls.last_command_error, calls.last_read_error, calls.refused) == (
        "fake",
        "",
        "",
        None,
    )
    assert calls.site_checks(["n1"]) == ()


def test_what_failed_last_is_remembered_until_it_succeeds_for_looks_and_commands_apart(made):
    driver = Driver()
    calls, counted, _ = made(driver)
    driver.error = UnclearError("no answer in 30 s")
    states, error = calls.look_at_all()
    assert (states, error) == ({}, driver.error)
    assert (calls.last_read_error, calls.last_command_error) == ("no answer in 30 s", "")
    driver.error = RefusedError("not an operator")
    calls.reclaim(["n1"])
    assert (calls.last_read_error, calls.last_command_error) == ("no answer in 30 s", "not an operator")
    driver.error = None
    calls.look(["n1"])
    assert (calls.last_read_error, calls.last_command_error) == ("", "not an operator")
    calls.restore(["n1"])
    assert (calls.last_read_error, calls.last_command_error) == ("", "")
    outcomes = [UnclearError("").outcome, RefusedError("").outcome, "ok", "ok"]
    assert counted.done == list(zip(("status", "reclaim", "status", "restore"), outcomes, strict=True))


def test_a_bug_of_the_driver_is_a_call_whose_outcome_is_unclear(made):
    driver = Driver()
    calls, counted, _ = made(driver)
    driver.error = KeyError("n1")
    with structlog.testing.capture_logs() as lines:
        calls.restore(["n1"])
    assert lines == [
        {
            "event": "batch command failed",
            "log_level": "warning",
            "command": "restore",
            "outcome": UnclearError("").outcome,
            "error": "the driver fake raised KeyError('n1')",
        }
    ]
    assert calls.last_command_error == "the driver fake raised KeyError('n1')"
    assert counted.done == [("restore", UnclearError("").outcome)]


def test_who_may_not_command_any_more_gives_no_command_and_still_reads(made):
    driver = Driver()
    calls, counted, writer = made(driver)
    writer.error = LedgerError("another Balancer has taken over")
    with structlog.testing.capture_logs() as lines:
        calls.reclaim(["n1"])
    assert lines == [
        {
            "event": "command not given",
            "log_level": "error",
            "command": "reclaim",
            "nodes": ["n1"],
            "error": "another Balancer has taken over",
        }
    ]
    with structlog.testing.capture_logs() as lines:
        calls.restore(["n2"])
    assert [line["nodes"] for line in lines] == [["n2"]]
    with structlog.testing.capture_logs() as lines:
        assert calls.look(["n1"]) == driver.states
    assert lines == [], "what went well is not told"
    assert (driver.told, counted.done) == ([("status", ["n1"])], [("status", "ok")])


def test_five_refusals_in_a_row_are_said_once_and_slow_the_looks_down_to_a_minute(made):
    driver = Driver()
    calls, _, _ = made(driver)
    driver.error = RefusedError("not an operator")
    with structlog.testing.capture_logs() as lines:
        for _ in range(4):
            calls.reclaim(["n1"])
        assert (calls.refused, calls.poll_s(1.0)) == (None, 1.0)
        calls.reclaim(["n1"])
        assert (calls.refused, calls.poll_s(1.0)) == ("not an operator", 1.0)
        polls = []
        for _ in range(7):
            calls.reclaim(["n1"])
            polls.append(calls.poll_s(1.0))
    assert polls == [2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
    assert calls.poll_s(90.0) == 90.0
    said = [line for line in lines if line["event"] == "the batch system refuses our commands"]
    assert said == [
        {
            "event": "the batch system refuses our commands",
            "log_level": "error",
            "command": "reclaim",
            "error": "not an operator",
        }
    ]
    driver.error = UnclearError("no answer")
    calls.reclaim(["n1"])
    assert (calls.refused, calls.poll_s(1.0)) == (None, 1.0)
    driver.error = RefusedError("not an operator")
    for _ in range(4):
        calls.reclaim(["n1"])
    assert calls.refused is None, "they are counted anew"


def test_what_belongs_to_marks_is_looked_after_now_and_then_by_who_may(made):
    driver = Tidy()
    calls, counted, writer = made(driver)
    calls.tidy()
    calls.tidy()
    assert (driver.told, counted.done) == ([("tidy",)], []), "once in 5 s"
    with structlog.testing.capture_logs() as lines:
        made(Driver())[0].tidy()
    assert lines == [], "a driver that keeps nothing"
    calls, _, writer = made(Tidy())
    writer.error = LedgerError("another Balancer has taken over")
    with structlog.testing.capture_logs() as lines:
        calls.tidy()
    words = "what belongs to our marks could not be looked after"
    assert [(line["event"], line["error"]) for line in lines] == [(words, "another Balancer has taken over")]
    broken = Tidy()
    broken.error = KeyError("n1")
    with structlog.testing.capture_logs() as lines:
        made(broken)[0].tidy()
    assert [(line["event"], line["log_level"]) for line in lines] == [(words, "error")]


class Checked(Driver):
    def check_site(self, nodes):
        return [f"{node} is well" for node in nodes]


def test_a_driver_that_can_check_the_site_is_asked_about_the_nodes(made):
    assert made(Checked())[0].site_checks(["n1", "n2"]) == ["n1 is well", "n2 is well"]
