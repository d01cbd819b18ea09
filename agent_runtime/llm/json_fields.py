"""Reading answers of strangers: a field of another type than expected counts as absent."""

from __future__ import annotations

from agent_runtime.json_value import Json


def object_in(value: Json, name: str) -> dict[str, Json]:
    """Return the object in a field, empty if there is none."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def objects_in(value: Json, name: str) -> list[dict[str, Json]]:
    """Return the objects of the list in a field."""
    found = value.get(name) if isinstance(value, dict) else None
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def text_in(value: Json, name: str) -> str:
    """Return the text in a field, empty if there is none."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def count_in(value: Json, name: str) -> int:
    """Return the number in a field, 0 if there is none."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, int) and found > 0 else 0
