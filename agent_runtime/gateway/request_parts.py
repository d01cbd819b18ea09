"""What the routes of the HTTP API read of a request, and how they answer."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import date

from starlette.requests import Request
from starlette.responses import Response

from agent_runtime.client.handle import MAX_ARGUMENT_BYTES
from agent_runtime.errors import (
    InvalidRequestError,
    MessageTooLargeError,
    NotSerializableError,
)
from agent_runtime.gateway.preconditions import idempotency_key
from agent_runtime.json_value import Json, from_json, pack
from agent_runtime.session.model_usage import day_of

Params = dict[str, str]
"""The variable segments of a path, decoded, by name."""

Handler = Callable[[Request, Params], Awaitable[Response]]

DEFAULT_SEARCH = 20
MAX_SEARCH = 1000

_NUMBER = re.compile(r"[0-9]{1,18}")


class UnsupportedBody(Exception):
    """The body is of another kind than JSON."""


async def read_body(request: Request) -> Json:
    """Return a request's JSON body.

    Raises:
        UnsupportedBody: It says that it is something else.
        InvalidRequestError: It is no JSON text.
    """
    kind = request.headers.get("content-type", "application/json").partition(";")[0].strip()
    if kind.lower() != "application/json":
        # Merge patches (RFC 7396) remove keys by null, which is a value here: they are others.
        raise UnsupportedBody(kind)
    try:
        return from_json(await request.body())
    except NotSerializableError as error:
        raise InvalidRequestError(f"the body is {error.message}") from None


def query_number(
    request: Request, name: str, default: int, *, least: int = 0, most: int = 10**18
) -> int:
    """Return a number of the query.

    Raises:
        InvalidRequestError: It is none, or out of range.
    """
    text = request.query_params.get(name)
    if text is None:
        return default
    if not _NUMBER.fullmatch(text) or not least <= int(text) <= most:
        raise InvalidRequestError(f"{name} is a number from {least} to {most}, not {text!r:.80}")
    return int(text)


def query_day(request: Request, name: str) -> date | None:
    """Return a day of the query, None if it is not given.

    Raises:
        InvalidRequestError: It is none.
    """
    text = request.query_params.get(name)
    return None if text is None else day_of(text, name)


def query_flag(request: Request, name: str, default: bool) -> bool:
    """Return a truth of the query.

    Raises:
        InvalidRequestError: It is neither `true` nor `false`.
    """
    text = request.query_params.get(name, "true" if default else "false")
    if text not in ("true", "false"):
        raise InvalidRequestError(f"{name} is true or false, not {text!r:.80}")
    return text == "true"


def json_answer(value: Json, status: int = 200) -> Response:
    """Answer with a JSON value."""
    return Response(pack(value), status, media_type="application/json")


def search_terms(request: Request) -> tuple[str, int]:
    """Return what a search of the query asks for, and how much.

    Raises:
        InvalidRequestError: There is no `q`, or `limit` is out of range.
    """
    wanted = request.query_params.get("q")
    if wanted is None:
        raise InvalidRequestError("q is missing: the words to search for")
    return wanted, query_number(request, "limit", DEFAULT_SEARCH, least=1, most=MAX_SEARCH)


def request_key(request: Request) -> str | None:
    """Return a request's idempotency key.

    Raises:
        InvalidRequestError: The header holds none.
    """
    return idempotency_key(request.headers)


async def sized_body(request: Request) -> Json:
    """Return a JSON body that an agent can be given whole.

    Raises:
        MessageTooLargeError: It is longer.
        InvalidRequestError: It is no JSON text.
    """
    size = len(await request.body())
    if size > MAX_ARGUMENT_BYTES:
        raise MessageTooLargeError(
            f"the body has {size} bytes, at most {MAX_ARGUMENT_BYTES} are allowed; send fewer "
            "messages at once, or where the data is instead",
            size=size,
            limit=MAX_ARGUMENT_BYTES,
        )
    return await read_body(request)


async def body_fields(
    request: Request, required: Sequence[str], optional: Sequence[str] = ()
) -> Mapping[str, Json]:
    """Return the fields of a body that is an object; of no body, none.

    Raises:
        InvalidRequestError: It is none, lacks a required field, or has one that is not known.
    """
    if not required and not await request.body():
        return {}
    value = await sized_body(request)
    names = {*required, *optional}
    if not isinstance(value, dict) or not value.keys() <= names or not {*required} <= value.keys():
        raise InvalidRequestError(f"the body is an object with {_listed(required, optional)}")
    return value


def text_field(fields: Mapping[str, Json], name: str) -> str:
    """Return a field that is a text.

    Raises:
        InvalidRequestError: It is none.
    """
    value = fields[name]
    if not isinstance(value, str):
        raise InvalidRequestError(f"{name} is a text")
    return value


def _listed(required: Sequence[str], optional: Sequence[str]) -> str:
    texts = [*required, *(f"{name} (if wanted)" for name in optional)]
    return ", ".join(texts)
