"""The API against its own description, with made-up calls (T19): Schemathesis finds what nobody thought of."""

from __future__ import annotations

import hypothesis
import pytest
import schemathesis
from hypothesis import HealthCheck
from schemathesis import GenerationMode
from schemathesis.checks import CHECKS, load_all_checks

from balancer.api.service import Access
from balancer.auth.gate import Gate
from balancer.auth.hook_keys import HookKeyFile
from balancer.auth.identity import Role
from balancer.auth.rates import Rates
from balancer.auth.tokens import TokenFile
from balancer.http.app import create_app
from gates import GATE

load_all_checks()

# Names of nodes that are not there, more nodes than there are, an end before its start: 400, and no schema can say so.
NOT_IN_A_SCHEMA = [CHECKS.get_one("positive_data_acceptance")]
MUST_REFUSE = CHECKS.get_one("negative_data_rejection")
EXAMPLES = GATE.fuzz_examples
STEPS = 12

SETTINGS = hypothesis.settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def operator(tmp_path):
    """The file of tokens, and the header of one that may do everything."""
    tokens = TokenFile(tmp_path / "tokens")
    _, text = tokens.create(Role.OPERATOR, "fuzz", now_us=0)
    return tokens, {"Authorization": f"Bearer {text}"}


class Service:
    """A service in its first state, as a WSGI application; `renew` makes another one of it."""

    def __init__(self, world, folder, tokens):
        self._world, self._folder, self._tokens = world, folder, tokens
        self._made = 0
        self.world = None
        self.renew()

    def renew(self):
        if self.world is not None:
            self.world.close()
        self._made += 1
        folder = self._folder / str(self._made)
        folder.mkdir()
        self.world = self._world(nodes=6, reserve=2, folder=folder)
        self.world.settled()
        gate = Gate(self._tokens, HookKeyFile(folder / "keys"), skew_s=60, failures=Rates(0, 1))
        # Jobs never end here, so nothing may block: calls that would wait are told to poll.
        self._app = create_app(self.world.engine, max_waiting=0, access=Access(gate))

    def __call__(self, environ, start_response):
        return self._app(environ, start_response)


@pytest.fixture
def service(world, tmp_path, operator):
    return Service(world, tmp_path, operator[0])


@pytest.fixture
def schema(service):
    return schemathesis.openapi.from_wsgi("/openapi.json", service)


def _looks_right(value):
    """Whether a list or mapping in a query arrives as something else: empty ones leave no trace, one item is itself."""
    return value in ([], {}) or (isinstance(value, list) and len(value) == 1)


@pytest.mark.slow
@pytest.mark.parametrize("mode", GenerationMode)
def test_every_operation_answers_as_described(schema, operator, mode):
    for result in schema.get_all_operations():
        operation = result.ok()
        if mode is GenerationMode.NEGATIVE and not (operation.body or list(operation.iter_parameters())):
            continue  # there is nothing to get wrong

        @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
        @SETTINGS
        def check(case):
            may_be_right = any(map(_looks_right, (case.query or {}).values()))
            excluded = [*NOT_IN_A_SCHEMA, MUST_REFUSE] if may_be_right else NOT_IN_A_SCHEMA
            case.call_and_validate(headers=operator[1], excluded_checks=excluded)

        check()


@pytest.mark.slow
@pytest.mark.timeout(900)  # a minute of processor time, on a machine that may be busy
def test_chains_of_linked_calls_answer_as_described(schema, service, operator):
    """What one chain did must not be there for the next one: it would be told from it as flaky."""
    machine = schema.as_state_machine()

    class Linked(machine):
        def setup(self):
            service.renew()

        def get_call_kwargs(self, case):
            return {"headers": operator[1]}

        def after_call(self, response, case):
            super().after_call(response, case)
            service.world.settled()  # links lead from what a node is to what may be done with it

        def validate_response(self, response, case, additional_checks=None, **kwargs):
            case.validate_response(
                response,
                additional_checks=additional_checks,
                # In a chain it does not know the token that is given for an invented one.
                excluded_checks=[*NOT_IN_A_SCHEMA, CHECKS.get_one("ignored_auth")],
                transport_kwargs=kwargs,
            )

    Linked.run(settings=SETTINGS)
