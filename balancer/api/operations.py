"""The calls of the API as views of the framework, which finds them and writes the OpenAPI document.

What a call gives and gets is checked by the model that describes it in the document.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Literal

from apiflask import APIBlueprint
from flask import Flask, Response, redirect
from pydantic import BaseModel, ValidationError
from werkzeug.wsgi import ClosingIterator

from balancer.api import bodies, context, problems
from balancer.api.access import UNKNOWN
from balancer.api.call import current, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from werkzeug.wrappers import Response as BaseResponse

    from balancer.api.service import Service

Method = Literal["GET", "POST", "DELETE"]


class Operations(APIBlueprint):
    """A blueprint whose views get and give what their models describe."""

    def __init__(self, name: str, *, tag: str) -> None:
        super().__init__(name, __name__, tag=tag)

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
        deprecated: bool = False,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """The function is given `json_data` and `query_data` as described, and the parts of the path by name.

        It gives a Response, or what `answer` describes, perhaps with status and headers. `says`: what an answer means.
        """

        def declare(act: Callable[..., Any]) -> Callable[..., Any]:
            described = act
            if responses is not None or deprecated:
                described = self.doc(responses=responses, deprecated=deprecated or None)(described)
            if answer is not None:
                described = self.output(answer, description=says)(described)
            if query is not None:
                described = self.input(query, location="query")(described)
            if body is not None:
                described = self.input(body)(described)

            # The framework's own checking, which `described` would do, has another shape of errors.
            @wraps(described)
            def view(**arguments: Any) -> Any:
                if query is not None:
                    parameters = {name: values[0] for name, values in current().parameters.items()}
                    arguments["query_data"] = _checked(query, parameters)
                if body is not None:
                    arguments["json_data"] = read_body(body)
                made = act(**arguments)
                return made if answer is None or isinstance(made, Response) else _response(answer, made)

            self.route(route, methods=[method])(view)
            return act

        return declare


class Front:
    """A WSGI application: says which call is served; the framework does the rest."""

    def __init__(self, app: Flask, state: Service) -> None:
        self._framework = app.wsgi_app
        self._service = state
        _install(app)

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        call = context.begin(environ, self._service)
        token = serving.set(call)
        try:
            chunks: Iterable[bytes] = self._framework(environ, start)
            # Not by the framework, which closes nothing after a HEAD.
            return ClosingIterator(chunks, call.on_close) if call.on_close else chunks
        finally:
            serving.reset(token)
            context.forget()


def read_body(model: type[BaseModel]) -> Any:
    """What the call says, as the model describes it. Raises Problem."""
    content = bodies.read(current().body())
    return _checked(model, {} if content is None else content)


def _checked(model: type[BaseModel], values: Any) -> BaseModel:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise problems.of_input(error) from error


def _response(model: type[BaseModel], made: Any) -> Response:
    value, status, headers = made if isinstance(made, tuple) else (made, 200, {})
    # Checked as well: a document that promises what is not so helps nobody.
    content = model.__pydantic_serializer__.to_json(model.model_validate(value))
    return Response(content, status, headers, content_type="application/json")


def _install(app: Flask) -> None:
    """What comes before and after every call."""

    @app.before_request
    def check() -> BaseResponse | None:
        call = current()
        try:
            context.check(call)
        except problems.Problem as problem:
            is_page = call.route == "/" and call.prefers("text/html")
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
