"""The API's document as a page shows it: calls by subject with what they take and give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_METHODS = ("get", "post", "delete")
_LIMITS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
}


def contents(spec: Mapping[str, Any]) -> dict[str, Any]:
    """`title`, `lead` (paragraphs), and `subjects`: name and calls of each tag, in the document's order."""
    calls: dict[str, list[dict[str, Any]]] = {tag["name"]: [] for tag in spec["tags"]}
    for path, item in spec["paths"].items():
        for method in _METHODS:
            if method in item:
                call = item[method]
                calls[call["tags"][0]].append(_call(spec, method.upper(), path, call))
    return {
        "title": spec["info"]["title"],
        "lead": _paragraphs(spec["info"].get("description", "")),
        "subjects": [{"name": name, "calls": found} for name, found in calls.items() if found],
    }


def _call(spec: Mapping[str, Any], method: str, path: str, call: Mapping[str, Any]) -> dict[str, Any]:
    body = call.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    return {
        "id": call["operationId"],
        "method": method,
        "path": path,
        "summary": call.get("summary", ""),
        "text": _paragraphs(call.get("description", "")),
        "is_public": call["security"] == [],
        "parameters": [_parameter(spec, each) for each in call.get("parameters", ())],
        "body": list(_fields(spec, body)) if body else [],
        "answers": [_answer(spec, status, each) for status, each in sorted(call["responses"].items())],
    }


def _paragraphs(text: str) -> list[str]:
    return [" ".join(part.replace("`", "").split()) for part in text.split("\n\n") if part.strip()]


def _parameter(spec: Mapping[str, Any], parameter: Mapping[str, Any]) -> dict[str, Any]:
    schema = parameter.get("schema", {})
    text = parameter.get("description") or schema.get("description", "")
    return _field(spec, parameter["name"], schema, bool(parameter.get("required"))) | {
        "where": parameter["in"],
        "text": text,
    }


def _answer(spec: Mapping[str, Any], status: str, answer: Mapping[str, Any]) -> dict[str, Any]:
    kinds = answer.get("content", {})
    schema = next((each.get("schema") for each in kinds.values()), None)
    is_problem = status[0] in "45"
    return {
        "status": status,
        "text": answer.get("description", ""),
        "kinds": sorted(kinds),
        "fields": list(_fields(spec, schema)) if schema and not is_problem else [],
    }


def _fields(spec: Mapping[str, Any], schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    schema = _resolved(spec, schema)
    required = schema.get("required", ())
    for name, each in schema.get("properties", {}).items():
        yield _field(spec, name, each, name in required)


def _field(
    spec: Mapping[str, Any], name: str, schema: Mapping[str, Any], is_required: bool
) -> dict[str, Any]:
    inner = _inner(spec, schema)
    return {
        "name": name,
        "type": _type(spec, schema),
        "is_required": is_required,
        "default": "" if schema.get("default") is None else str(schema["default"]),
        "text": schema.get("description", ""),
        "fields": list(_fields(spec, inner)) if inner else [],
    }


def _inner(spec: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The object that a field has, or its list's items are; None: neither."""
    for each in (schema, *schema.get("anyOf", ()), schema.get("items", {})):
        found = _resolved(spec, each)
        if "properties" in found:
            return found
    return None


def _resolved(spec: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in schema:
        schema = spec["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    return schema


def _type(spec: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """In words: `list of string`, `integer or null`, `"busy" or "idle"`, with its limits."""
    schema = _resolved(spec, schema)
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(spec, each) for each in schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(f'"{each}"' for each in schema["enum"])
    if "const" in schema:
        return f'"{schema["const"]}"'
    kind = schema.get("type", "any")
    if kind == "array":
        kind = f"list of {_type(spec, schema.get('items', {}))}"
    elif kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        kind = f"name → {_type(spec, schema['additionalProperties'])}"
    limits = [text.format(schema[key]) for key, text in _LIMITS.items() if key in schema]
    return ", ".join([kind, *limits])
