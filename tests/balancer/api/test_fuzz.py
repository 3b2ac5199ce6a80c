"""The API against its own description, with made-up calls (T19): Schemathesis finds what nobody thought of."""

from __future__ import annotations

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck
from schemathesis.checks import CHECKS, load_all_checks

from balancer.app import create_app

EXAMPLES = 100
STEPS = 12

load_all_checks()


@pytest.fixture
def schema(world):
    w = world(nodes=6, reserve=2)
    w.settled()
    # Nothing ends jobs here: a request that waits would wait for ever.
    w.engine.settings = w.engine.settings
    app = create_app(w.engine)
    return schemathesis.openapi.from_wsgi("/openapi.json", app)


def settings(examples: int, **more):
    return hypothesis.settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
        **more,
    )


@pytest.mark.slow
def test_every_operation_answers_as_described(schema):
    checks = (
        [CHECKS.get_one(name) for name in CHECKS.get_all_names()]
        if hasattr(CHECKS, "get_all_names")
        else None
    )
    for result in schema.get_all_operations():
        operation = result.ok()

        @hypothesis.given(case=operation.as_strategy())
        @settings(EXAMPLES)
        def check(case):
            case.call_and_validate()

        check()


@pytest.mark.slow
def test_chains_of_calls_answer_as_described(schema):
    schema.as_state_machine().run(settings=settings(EXAMPLES, stateful_step_count=STEPS))
