"""Versions as entity tags (RFC 9110, 8.8 and 13) and idempotency keys as header values."""

from __future__ import annotations

import re

from starlette.datastructures import Headers

from agent_runtime.client.handle import AgentHandle
from agent_runtime.errors import InvalidRequestError, VersionConflictError
from agent_runtime.mutation import check_key

_TAG = re.compile(r'"(\d{1,18})"')
_ANY_TAG = re.compile(r'(?:W/)?"([^"]*)"')
_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\])*)"')


def etag(version: int) -> str:
    """Return a version's entity tag."""
    return f'"{version}"'


def is_known(headers: Headers, version: int) -> bool:
    """Tell whether a reader has this version already, by `If-None-Match`."""
    if_none_match = _joined(headers, "if-none-match")
    if if_none_match is None:
        return False
    return if_none_match.strip() == "*" or str(version) in _ANY_TAG.findall(if_none_match)


async def expected_version(agent: AgentHandle, headers: Headers) -> int | None:
    """Return the version that a change may replace, by `If-Match`; None for any.

    Raises:
        VersionConflictError: `*` and there is no state, or the tag is none of ours.
        InvalidRequestError: More than one tag, or none.
    """
    if_match = _joined(headers, "if-match")
    if if_match is None:
        return None
    if found := _TAG.fullmatch(if_match.strip()):
        return int(found[1])
    snapshot = await agent.get_state()
    if if_match.strip() == "*":
        if snapshot.is_set:
            return None
        raise VersionConflictError(f"{agent.ref} has no state yet", expected="*", actual=0)
    tags = _ANY_TAG.findall(if_match)
    if len(tags) != 1:
        raise InvalidRequestError('If-Match takes one entity tag, as in If-Match: "7", or *')
    raise VersionConflictError(
        f"expected version {tags[0]}, the present one is {snapshot.version}",
        expected=tags[0],
        actual=snapshot.version,
    )


def idempotency_key(headers: Headers) -> str | None:
    """Return the key of an `Idempotency-Key` header, which may be quoted or bare.

    Raises:
        InvalidRequestError: There are several, or it is no key or no closed quote.
    """
    given = headers.getlist("idempotency-key")
    if not given:
        return None
    if len(given) > 1:
        raise InvalidRequestError("a request has one Idempotency-Key")
    key = header = given[0]
    if header.startswith('"'):
        found = _QUOTED.fullmatch(header)
        if found is None:
            raise InvalidRequestError("Idempotency-Key is no quoted text; see RFC 9651, 3.3.3")
        key = re.sub(r"\\(.)", r"\1", found[1])
    check_key(key)
    return key


def _joined(headers: Headers, name: str) -> str | None:
    """Return a header that holds a list, which may come in parts (RFC 9110, 5.3)."""
    return ", ".join(headers.getlist(name)) if name in headers else None
