"""The calls of the API: described to the framework, which writes the OpenAPI document, and answered here.

For pages and files the framework does it all. A call of the API needs little of that, and what it did for each one took
most of a call's processor time: proxies to find the request, objects around headers that are read once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Literal

from apiflask import APIBlueprint
from flask import redirect
from flask import request as framework_request
from pydantic import ValidationError
from werkzeug.wsgi import ClosingIterator

from balancer.api import bodies, context, problems
from balancer.api.access import UNKNOWN
from balancer.api.call import Call, current, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from flask import Flask, Response
    from pydantic import BaseModel
    from werkzeug.wrappers import Response as BaseResponse

    from balancer.api.context import Service

Method = Literal["GET", "POST", "DELETE"]

_STATUS_LINES = {status.value: f"{status.value} {status.phrase}" for status in HTTPStatus}


@dataclass(frozen=True, slots=True)
class Operation:
    """What answers one method of one route. `answer`: None: the function makes a Reply itself."""

    method: Method
    route: str
    act: Callable[..., Any]
    body: type[BaseModel] | None = None
    query: type[BaseModel] | None = None
    answer: type[BaseModel] | None = None


@dataclass(slots=True)
class Reply:
    """An answer as it goes out."""

    status: int
    content_type: str
    chunks: Iterable[bytes]
    headers: Mapping[str, str] = field(default_factory=dict)


def text(content: str | bytes, status: int = 200, content_type: str = "text/plain") -> Reply:
    return Reply(status, content_type, [content.encode() if isinstance(content, str) else content])


class Operations(APIBlueprint):
    """A blueprint whose calls are answered by `Front`."""

    def __init__(self, name: str, *, tag: str) -> None:
        super().__init__(name, __name__, tag=tag)
        self.operations: list[Operation] = []

    def call(
        self,
        method: Method,
        route: str,
        *,
        body: type[BaseModel] | None = None,
        query: type[BaseModel] | None = None,
        answer: type[BaseModel] | None = None,
        says: str | None = None,
        responses: Any = None,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """The function is given `json_data` and `query_data` as described, and the parts of the path by name.

        It gives a Reply, or what `answer` describes, perhaps with status and headers. `says`: what an answer means.
        """

        def declare(act: Callable[..., Any]) -> Callable[..., Any]:
            self.operations.append(Operation(method, route, act, body, query, answer))
            described = act
            if responses is not None:
                described = self.doc(responses=responses)(described)
            if answer is not None:
                described = self.output(answer, description=says)(described)
            if query is not None:
                described = self.input(query, location="query")(described)
            if body is not None:
                described = self.input(body)(described)
            self.route(route, methods=[method])(described)
            return act

        return declare


class Routes:
    """From a path to its operation, as the framework would find it."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        self._exact: dict[tuple[str, str], Operation] = {}
        self._by_length: dict[tuple[str, int], list[tuple[list[str], Operation]]] = {}
        for each in operations:
            parts = each.route.split("/")
            if "<" in each.route:
                self._by_length.setdefault((each.method, len(parts)), []).append((parts, each))
            else:
                self._exact[each.method, each.route] = each

    def find(self, method: str, path: str) -> tuple[Operation | None, dict[str, str]]:
        """With the named parts of the path. HEAD is a GET."""
        method = "GET" if method == "HEAD" else method
        exact = self._exact.get((method, path))
        if exact is not None:
            return exact, {}
        given = path.split("/")
        for parts, operation in self._by_length.get((method, len(given)), ()):
            named = _named(parts, given)
            if named is not None:
                return operation, named
        return None, {}


class Front:
    """A WSGI application: answers what is an operation, and leaves the rest to the framework."""

    def __init__(self, app: Flask, state: Service, operations: Iterable[Operation]) -> None:
        self._framework = app.wsgi_app
        self._service = state
        self._routes = Routes(operations)
        _install(app)

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        call = context.begin(environ, self._service)
        token = serving.set(call)
        try:
            operation, arguments = self._routes.find(call.method, call.path)
            if operation is None:
                chunks: Iterable[bytes] = self._framework(environ, start)
                return chunks
            call.route = operation.route
            return _send(call, _answer(call, operation, arguments), start)
        finally:
            serving.reset(token)
            context.forget()


def _named(parts: list[str], given: list[str]) -> dict[str, str] | None:
    """The parts of a path that have a name in the route; None: it is another route."""
    named: dict[str, str] = {}
    for part, value in zip(parts, given, strict=True):
        if part[:1] == "<" and value:
            named[part[1:-1]] = value
        elif part != value:
            return None
    return named


def _answer(call: Call, operation: Operation, arguments: dict[str, Any]) -> Reply:
    try:
        context.check(call)
        if operation.query is not None:
            given = {name: values[0] for name, values in call.parameters.items()}
            arguments["query_data"] = _checked(operation.query, given)
        if operation.body is not None:
            arguments["json_data"] = read_body(operation.body)
        made = operation.act(**arguments)
        return made if operation.answer is None or isinstance(made, Reply) else _reply(operation.answer, made)
    except Exception as error:  # noqa: BLE001 - each has its own status and code
        problem = problems.of(error)
        return Reply(problem.status, problems.MEDIA_TYPE, [problem.text()], problem.headers)


def read_body(model: type[BaseModel]) -> Any:
    """What the call says, as the model describes it. Raises Problem."""
    said = bodies.read(current().body())
    return _checked(model, {} if said is None else said)


def _checked(model: type[BaseModel], given: Any) -> BaseModel:
    try:
        return model.model_validate(given)
    except ValidationError as error:
        raise problems.of_input(error) from error


def _reply(model: type[BaseModel], made: Any) -> Reply:
    value, status, headers = made, 200, {}
    if isinstance(made, tuple):
        value, status, headers = made
    # Checked as well: a document that promises what is not so helps nobody.
    content = model.__pydantic_serializer__.to_json(model.model_validate(value))
    return Reply(status, "application/json", [content], headers)


def _send(call: Call, reply: Reply, start: Callable[..., Any]) -> Iterable[bytes]:
    headers = context.headers_of(call) | {"Cache-Control": "no-store", "Content-Type": reply.content_type}
    headers |= reply.headers
    if isinstance(reply.chunks, list):
        headers["Content-Length"] = str(sum(map(len, reply.chunks)))
    context.end(call, reply.status)
    start(_STATUS_LINES[reply.status], list(headers.items()))
    chunks = reply.chunks if call.method != "HEAD" else []
    return ClosingIterator(chunks, call.on_close) if call.on_close else chunks


def _install(app: Flask) -> None:
    """The same around what the framework answers."""

    @app.before_request
    def check() -> BaseResponse | None:
        call = current()
        call.use(framework_request)
        call.route = framework_request.url_rule.rule if framework_request.url_rule is not None else None
        try:
            context.check(call)
        except problems.Problem as problem:
            is_page = call.route == "/" and call.prefers("text/html", "application/json")
            if problem.status == UNKNOWN and is_page:
                return redirect("/login", 303)
            raise
        return None

    @app.after_request
    def end(response: Response) -> Response:
        call = current()
        response.headers.update(context.headers_of(call))
        response.headers.setdefault("Cache-Control", "no-store")
        context.end(call, response.status_code)
        return response
