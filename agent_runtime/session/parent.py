"""The three things that a message's parent can be: left out, none, or a message (contract 3)."""

from __future__ import annotations

from enum import Enum
from typing import Final, Literal, TypeAlias


class _Parent(Enum):
    AUTO = "auto"


AUTO: Final = _Parent.AUTO
"""As a parent: the latest leaf, or none if the session is empty."""

Parent: TypeAlias = str | Literal[_Parent.AUTO] | None
"""A message's id, None for a new root, or `AUTO`."""


def parent_value(parent_id: Parent) -> dict[str, bool] | str | None:
    """Return a parent as it travels in JSON."""
    return {"auto": True} if parent_id is AUTO else parent_id
