"""The pieces that the OpenAPI document is put together from."""

from __future__ import annotations

from agent_runtime.json_value import Json

ANY: Json = {}  # any JSON value: agents decide what their state is


def object_of(required: list[str], **properties: Json) -> Json:
    """Return the schema of an object."""
    return {"type": "object", "required": required, "properties": properties}


def ref(place: str, name: str) -> Json:
    """Return a reference to a component."""
    return {"$ref": f"#/components/{place}/{name}"}


def body_of(schema: Json) -> Json:
    """Return a JSON body that must be there."""
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def answer_of(description: str, schema: Json, *, headers: Json = None) -> Json:
    """Return a JSON answer."""
    answer = {
        "description": description,
        "content": {"application/json": {"schema": schema}},
    }
    return answer if headers is None else {**answer, "headers": headers}


def problems(*statuses: str) -> Json:
    """Return the problems that an operation can answer with."""
    return {status: ref("responses", "Problem") for status in (*statuses, "default")}


def query(name: str, description: str, schema: Json) -> Json:
    """Return a parameter of the query."""
    return {"name": name, "in": "query", "description": description, "schema": schema}


def path(name: str, description: str, **schema: Json) -> Json:
    """Return a segment of the path."""
    fields = {"name": name, "in": "path", "required": True, "description": description}
    return {**fields, "schema": {"type": "string", **schema}}


def header(name: str, description: str, schema: Json) -> Json:
    """Return a header."""
    return {"name": name, "in": "header", "description": description, "schema": schema}


INTEGER: Json = {"type": "integer"}
TEXT: Json = {"type": "string"}
BOOLEAN: Json = {"type": "boolean"}
AGENT = [ref("parameters", "agent"), ref("parameters", "name")]
LIMIT = query(
    "limit",
    "At most so many.",
    {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100},
)
