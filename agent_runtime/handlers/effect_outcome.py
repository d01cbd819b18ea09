"""What came of an effect, as text in the journal: its result, or the error that the handler saw.

A repeat has to see the same error as the first run: what the handler did next depended on it.
"""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Mapping

from agent_runtime.errors import (
    MAX_TEXT,
    AgentDestroyedError,
    AgentRuntimeError,
    HandlerDivergedError,
    HandlerError,
    StorageError,
    describe,
    from_record,
    repeats_handler,
    text_of,
)
from agent_runtime.json_value import Json, from_json, pack

logger = logging.getLogger("agent_runtime")

_ERROR = "!"
"""No JSON text begins with it."""

_MAX_INTEGER = 2**63 - 1


def is_answer(error: Exception) -> bool:
    """Tell whether an error is the effect's own answer, to be given to a repeat too.

    It is not if the runtime or the database failed, which ends or repeats the handler: another try
    may do better. A model's error is one, since the handler decides how long to go on.
    """
    if isinstance(error, (StorageError, AgentDestroyedError, HandlerDivergedError)):
        return False
    return not repeats_handler(error)


def error_text(error: Exception) -> str:
    """Return an error as it is recorded: its class, what it says, and its plain attributes."""
    if isinstance(error, AgentRuntimeError):
        return _ERROR + pack(error.to_record()).decode()
    text = _cut(text_of(error))
    is_plain = all(map(_is_plain, error.args))
    record: dict[str, Json] = {
        "module": type(error).__module__,
        "class": type(error).__qualname__,
        "args": [_cut(arg) for arg in error.args] if is_plain else [text],
        "fields": {name: _cut(each) for name, each in vars(error).items() if _is_plain(each)},
        "text": text,
    }
    return _ERROR + pack(record).decode()


def outcome_of(text: str | None) -> Json:
    """Return a recorded result, or raise the recorded error.

    An error of another library is of its class again, with its arguments and plain attributes; if
    this process does not know the class it is a HandlerError that names it.
    """
    raise_error(text)
    return from_json(text or "null")


def raise_error(text: str | None) -> None:
    """Raise the error if one is recorded."""
    if text is None or not text.startswith(_ERROR):
        return
    record = from_json(text.removeprefix(_ERROR))
    raise from_record(record) if "type" in record else _foreign_error(record)


def _foreign_error(record: Mapping[str, Json]) -> Exception:
    found: object = sys.modules.get(record["module"])
    for name in record["class"].split("."):
        found = getattr(found, name, None)
    if isinstance(found, type) and issubclass(found, Exception):
        try:
            # Without its `__init__`, which may take other arguments than it has passed on.
            error = found.__new__(found, *record["args"])
        except Exception as refusal:
            logger.warning("%s cannot be made again: %s", record["class"], describe(refusal))
        else:
            error.args = tuple(record["args"])
            vars(error).update(record["fields"])
            return error
    what, text = record["class"], record["text"]
    return HandlerError(f"{what}: {text}", error_type=what, error=text)


def _is_plain(value: object) -> bool:
    if isinstance(value, int):
        return abs(value) <= _MAX_INTEGER
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, str)


def _cut(value: Json) -> Json:
    if not isinstance(value, str):
        return value
    return value.encode("utf-8", "replace").decode()[:MAX_TEXT]
