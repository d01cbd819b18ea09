"""What committing mutations must do, in a few lines of plain Python."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from agent_runtime.mutation import Mutation, MutationKind

ABSENT = object()
"""The state of an agent whose state was never set."""

INITIAL = {"count": 0}
REFUSED = "refuse me"
"""The validator of the modelled agent refuses states that hold this under `bad`."""


@dataclass
class ModelAgent:
    """One agent: every state it ever had, and what each key stands for."""

    has_rules: bool
    states: list[Any] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    receipts: dict[str, tuple[int, tuple[Any, ...]]] = field(default_factory=dict)

    @property
    def version(self) -> int:
        """The number of mutations ever applied."""
        return len(self.states)

    @property
    def state(self) -> Any:
        """The present state, or ABSENT."""
        return self.states[-1] if self.states else ABSENT

    def apply(self, mutation: Mutation) -> tuple[Any, ...]:
        """Apply one mutation; ("receipt", version, applied, duplicate) or (error type,)."""
        payload = _payload(mutation)
        needs_key = mutation.kind is not MutationKind.INIT
        if needs_key and mutation.key in self.receipts:
            version, known = self.receipts[mutation.key]
            if payload != known:
                return ("IdempotencyConflictError",)
            return ("receipt", version, False, True)
        expected = mutation.expected_version
        if expected is not None and expected != self.version:
            return ("VersionConflictError",)
        before = (list(self.states), list(self.kinds))
        refusal = self._change(mutation)
        if refusal is not None:
            self.states, self.kinds = before
            return (refusal,)
        is_applied = len(self.states) > len(before[0])
        if is_applied and needs_key:
            self.receipts[mutation.key] = (self.version, payload)
        return ("receipt", self.version, is_applied, False)

    def _change(self, mutation: Mutation) -> str | None:
        kind, value = mutation.kind, mutation.value
        is_reading = kind in (MutationKind.MERGE, MutationKind.INIT)
        if is_reading and self.state is ABSENT and self.has_rules:
            self._push(copy.deepcopy(INITIAL), "init")
        if kind is MutationKind.INIT:
            return None
        if kind is MutationKind.RESET:
            value = copy.deepcopy(INITIAL) if self.has_rules else {}
        if kind is MutationKind.MERGE:
            if not isinstance(value, dict):
                return "StateRejectedError"
            present = self.state
            if present is not ABSENT and present is not None and not isinstance(present, dict):
                return "StateRejectedError"
            value = {**(present if isinstance(present, dict) else {}), **value}
        if self.has_rules and isinstance(value, dict) and value.get("bad") == REFUSED:
            return "StateRejectedError"
        self._push(value, kind.value)
        return None

    def _push(self, value: Any, kind: str) -> None:
        self.states.append(value)
        self.kinds.append(kind)


def _payload(mutation: Mutation) -> tuple[Any, ...]:
    return (mutation.kind, repr(_ordered(mutation.value)), mutation.expected_version)


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _ordered(item) for key, item in sorted(value.items())}
    return [_ordered(item) for item in value] if isinstance(value, list) else value
