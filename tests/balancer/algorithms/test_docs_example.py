"""The example of docs/balancer/algorithms.md runs."""

import re

import pytest

from balancer.lifecycle.events import NodesRequested, Reclaim, Reject
from balancer.lifecycle.lifecycle import Lifecycle
from balancer.lifecycle.states import NodeState
from balancer.plugins import ALGORITHMS, PluginError, made
from balancer.policy_settings import Settings


@pytest.fixture
def keep_some(request):
    page = (request.config.rootpath / "docs/balancer/algorithms.md").read_text()
    (source,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {}
    exec(compile("from __future__ import annotations\n" + source, "algorithms.md", "exec"), names)  # noqa: S102
    return names["KeepSome"]


def test_the_example_lends_nodes_while_enough_are_left_for_batch(keep_some):
    algorithm = made(ALGORITHMS, "keep_some", keep_some, {"keep": 2})
    lifecycle = Lifecycle(["a", "b", "c", "d", "e"], algorithm, Settings(), initial=NodeState.OA_IDLE)

    assert lifecycle.handle(NodesRequested(at_us=0, request_id="r", count=3)) == [
        Reclaim(event_id="event-1", nodes=("a", "b", "c"))
    ]
    assert lifecycle.handle(NodesRequested(at_us=0, request_id="s", count=1)) == [
        Reject(event_id="event-2", request_id="s", reason="1 nodes are not available at once")
    ]
    lifecycle.validate()


def test_the_examples_parameters_are_checked(keep_some):
    with pytest.raises(PluginError, match="no parameter 'keeps'; did you mean 'keep'"):
        made(ALGORITHMS, "keep_some", keep_some, {"keeps": 2})
