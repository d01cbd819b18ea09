"""Conversations as JSON for programs of any language: keys as the messages' own, in camelCase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, TypeVar

from agent_runtime.json_value import Json

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T", bound="DataclassInstance")

_SHORT = {
    "is_inserted": "inserted",
    "is_truncated": "truncated",
    "is_writable": "writable",
    "is_available": "available",
    "is_updated": "updated",
}
"""Names of the reference that are not the Python name in another case."""


def to_wire(value: DataclassInstance) -> dict[str, Json]:
    """Return a value's fields under their names in JSON."""
    return {wire_name(field.name): getattr(value, field.name) for field in fields(value)}


def all_to_wire(values: Sequence[DataclassInstance]) -> list[Json]:
    """Return each value as `to_wire` does."""
    return [to_wire(value) for value in values]


def from_wire(cls: type[T], value: Mapping[str, Json]) -> T:
    """Read what `to_wire` returned; what a newer program has added is left out."""
    return cls(**fields_of(cls, value))


def fields_of(cls: type[T], value: Mapping[str, Json]) -> dict[str, Json]:
    """Return the fields that `from_wire` makes its object of."""
    return {
        field.name: value[wire_name(field.name)]
        for field in fields(cls)
        if wire_name(field.name) in value
    }


def wire_name(name: str) -> str:
    """Return a field's name in JSON."""
    first, *rest = name.split("_")
    return _SHORT.get(name) or first + "".join(word.capitalize() for word in rest)
