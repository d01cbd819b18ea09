"""A state's history as clients see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from agent_runtime.errors import InvalidRequestError
from agent_runtime.hosting.state_reader import StateHistoryEntry, read_version
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import Json
from agent_runtime.registry import AgentDefinition
from agent_runtime.state import UNSET, Unset
from agent_runtime.storage.protocol import Storage


async def show_history(
    storage: Storage,
    definition: AgentDefinition,
    ref: AgentRef,
    entries: Sequence[StateHistoryEntry],
) -> Sequence[StateHistoryEntry]:
    """Return entries, newest first and one version after the other, as clients see them.

    Where the class defines a view each entry holds the whole view of its version, since the keys
    that changed are those of the state; None where retention has dropped what it is made of.

    Raises:
        ClientViewError: A view cannot be made.
    """
    if definition.view is None or not entries:
        return entries
    state = await _state_at(storage, ref, entries[-1].version)
    shown: list[StateHistoryEntry] = []
    for entry in reversed(entries):
        if entry is not entries[-1]:
            state = _next_state(state, entry)
        view = None if state is UNSET else definition.view.show(ref, state)
        shown.append(replace(entry, value=view, is_full=True))
    return shown[::-1]


async def _state_at(storage: Storage, ref: AgentRef, version: int) -> Json | Unset:
    try:
        return (await read_version(storage, ref, version)).value
    except InvalidRequestError:
        return UNSET


def _next_state(state: Json | Unset, entry: StateHistoryEntry) -> Json | Unset:
    if entry.is_full:
        return UNSET if entry.value is None else entry.value
    if not isinstance(state, dict) or entry.value is None:
        return UNSET
    return {**state, **entry.value}
