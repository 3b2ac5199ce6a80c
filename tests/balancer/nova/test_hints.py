"""Hints: a datagram says look now; who sends one never waits, and what is lost is only late."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from balancer.nova import notify
from balancer.nova.hints import HintReceiver, HintSender, parse_address
from balancer.nova.notify import HintDriver, is_telling


def test_a_crowd_of_hints_is_one():
    with HintReceiver("127.0.0.1:0") as receiver, HintSender(receiver.address) as sender:
        assert [sender.send() for _ in range(5)] == [True] * 5
        assert receiver.wait(30)
        assert not receiver.wait(0.01)


def test_a_hint_to_nobody_is_lost_and_harms_nobody():
    with HintReceiver("127.0.0.1:0") as receiver:
        address = receiver.address
    with HintSender(address) as sender:
        for _ in range(5):
            sender.send()


@pytest.mark.parametrize("address", ["8092", ":8092", "localhost", "localhost:http", "localhost:70000"])
def test_a_wrong_address_is_told(address):
    with pytest.raises(ValueError, match="give host:port"):
        parse_address(address)


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ("instance.delete.end", True),
        ("compute.instance.delete.end", True),
        ("instance.create.error", True),
        ("compute_task.build_instances.error", True),
        ("instance.update", False),
        ("compute.instance.exists", False),
        ("instance.delete.start", False),
    ],
)
def test_which_notifications_tell_something(event, expected):
    assert is_telling(event) is expected


def test_the_driver_sends_a_hint_for_what_tells_something(monkeypatch):
    sent = []
    monkeypatch.setattr(
        notify, "HintSender", lambda address: SimpleNamespace(send=lambda: sent.append(address))
    )
    monkeypatch.setitem(
        __import__("sys").modules, "balancer.nova.options", SimpleNamespace(hint_address=lambda conf: conf)
    )
    driver = HintDriver("agent:1", ["notifications"], None)
    for event in ("instance.update", "instance.delete.end"):
        driver.notify({}, {"event_type": event, "payload": {}}, "INFO", -1)
    assert sent == ["agent:1"]
    HintDriver(None, [], None).notify({}, {"event_type": "instance.delete.end"}, "INFO", -1)
    assert sent == ["agent:1"]
