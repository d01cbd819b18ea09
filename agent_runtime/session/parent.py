"""The three things that a message's parent can be: left out, none, or a message (contract 3)."""

from __future__ import annotations

from enum import Enum
from typing import Final, Literal, TypeAlias

from agent_runtime.errors import InvalidRequestError


class _Parent(Enum):
    AUTO = "auto"


AUTO: Final = _Parent.AUTO
"""As a parent: the latest leaf, or none if the session is empty."""

Parent: TypeAlias = str | Literal[_Parent.AUTO] | None
"""A message's id, None for a new root, or `AUTO`."""


def parent_value(parent_id: Parent) -> dict[str, bool] | str | None:
    """Return a parent as it travels in JSON.

    Raises:
        InvalidRequestError: It is none of the three; taken for an unknown id it would start a root.
    """
    if parent_id is AUTO:
        return {"auto": True}
    if parent_id is None or isinstance(parent_id, str):
        return parent_id
    raise InvalidRequestError("a parent is a message's id, None for a new root, or left out")
