"""The frames of the wire (state-and-sync 5, 6, 11): one JSON value each, as text."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import orjson

from agent_runtime.json_value import Json
from agent_runtime.state import UNSET, Unset

READONLY = "Connection is readonly"
REJECTED = "State update rejected"

_HALF_CHARACTER = re.compile("[\\ud800-\\udfff]")
_NO_SERVERS: Json = {"prompts": [], "resources": [], "servers": {}, "tools": []}


@dataclass(frozen=True, slots=True)
class StateFrame:
    """A client replaces the state."""

    state: Json


@dataclass(frozen=True, slots=True)
class CallFrame:
    """A client calls a method."""

    id: str
    method: str
    args: list[Json]


def parse_frame(text: str) -> StateFrame | CallFrame | None:
    """Read a client's text frame; None for all that is the author's message hook's."""
    value = parse_object(text)
    if value is None:
        return None
    if value.get("type") == "cf_agent_state" and "state" in value:
        return StateFrame(value["state"])
    call_id, method, args = value.get("id"), value.get("method"), value.get("args")
    if value.get("type") != "rpc" or not isinstance(args, list):
        return None
    if not isinstance(call_id, str) or not isinstance(method, str):
        return None
    return CallFrame(call_id, method, args)


def parse_object(text: str) -> dict[str, Json] | None:
    """Read a client's text frame that is a JSON object; None for all others."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = _with_half_characters(text)
    return value if isinstance(value, dict) else None


def _with_half_characters(text: str) -> Json:
    # Browsers cut texts between the halves of a character and write them as escapes. As raw text a
    # WebSocket would carry the replacement character in their place.
    if "\\ud" not in text.lower():
        return None
    try:
        whole = json.dumps(json.loads(text), ensure_ascii=False)
        return orjson.loads(_HALF_CHARACTER.sub("\ufffd", whole))
    except (ValueError, RecursionError):
        return None


def identity_frame(name: str, agent: str, *, state_follows: bool, life: int | None = None) -> str:
    """Tell a client whom it has reached; a state frame comes next if one is announced.

    Args:
        life: For clients of ours: what tells this agent from a destroyed one of the same name.
    """
    frame: dict[str, Json] = {"type": "cf_agent_identity", "name": name, "agent": agent}
    if state_follows:
        frame["stateFollows"] = True
    if life is not None:
        frame["life"] = life
    return _text(frame)


def state_frame(state: Json | Unset) -> str:
    """Tell a client the whole state."""
    return _text({"state": None if state is UNSET else state, "type": "cf_agent_state"})


def state_frame_of_text(state: str) -> str:
    """Tell a client the whole state, given as JSON text that need not be read."""
    return f'{{"state":{state},"type":"cf_agent_state"}}'


def servers_frame() -> str:
    """Tell a client that there are no MCP servers."""
    return _text({"mcp": _NO_SERVERS, "type": "cf_agent_mcp_servers"})


def state_error_frame(reason: str) -> str:
    """Refuse a client's state."""
    return _text({"type": "cf_agent_state_error", "error": reason})


def result_frame(call_id: str, result: Json | Unset) -> str:
    """Answer a call; a method that returns nothing has no result."""
    frame: dict[str, Json] = {"type": "rpc", "id": call_id, "success": True, "done": True}
    if result is not UNSET:
        frame["result"] = result
    return _text(frame)


def error_frame(call_id: str, reason: str) -> str:
    """Answer a call that failed."""
    return _text({"type": "rpc", "id": call_id, "success": False, "error": reason})


def setup_error_frame() -> str:
    """Tell a client that its connection could not be set up; details are in the log."""
    return _text({"error": "Uncaught exception during session setup"})


def text_of_frame(frame: Json) -> str:
    """Write a frame that an agent made."""
    return _text(frame)


def _text(frame: Json) -> str:
    return orjson.dumps(frame).decode()
