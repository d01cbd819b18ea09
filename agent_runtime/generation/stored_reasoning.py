"""Reasoning that its provider signed, as a part of a stored message and back.

The shape is that of the common TypeScript chat SDK, whose histories can so be gone on with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from agent_runtime.compaction.message_parts import PROVIDER_METADATA
from agent_runtime.json_value import Json
from agent_runtime.llm.chat_model import SignedReasoning
from agent_runtime.llm.json_fields import object_in, text_in

_PROVIDER = "anthropic"
_SIGNATURE, _HIDDEN = "signature", "redactedData"


def reasoning_part(thought: SignedReasoning) -> dict[str, Json]:
    """Return a piece of reasoning as a message's part."""
    signed = {_HIDDEN: thought.hidden} if thought.hidden else {_SIGNATURE: thought.signature}
    return {"type": "reasoning", "text": thought.text, PROVIDER_METADATA: {_PROVIDER: signed}}


def signed_reasoning(parts: Iterable[Mapping[str, Json]]) -> tuple[SignedReasoning, ...]:
    """Return the pieces in parts of reasoning, those without a signature left out."""
    found = []
    for part in parts:
        signed = object_in(object_in(part, PROVIDER_METADATA), _PROVIDER)
        signature, hidden = text_in(signed, _SIGNATURE), text_in(signed, _HIDDEN)
        if signature or hidden:
            found.append(SignedReasoning(text_in(part, "text"), signature, hidden))
    return tuple(found)
