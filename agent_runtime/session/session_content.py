"""What is stored of one session as a whole, and writing it where nothing is yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from agent_runtime.compaction.token_estimate import TOKENS_PER_MESSAGE, estimate_string_tokens
from agent_runtime.errors import InvalidImportError
from agent_runtime.storage.session_protocol import (
    EntryRow,
    Namespace,
    NewMessage,
    OverlayRow,
    PromptRow,
    RecordRow,
    SessionRef,
    SessionWrites,
)
from agent_runtime.storage.session_registry import session_namespace

_MESSAGES_PER_APPEND = 500


@dataclass(frozen=True, slots=True)
class PlacedMessage:
    """A message and the id of its parent, None for a root."""

    parent_id: str | None
    message: NewMessage


@dataclass(slots=True)
class SessionContent:
    """Everything that is stored of a session.

    Args:
        messages: In the order of their making, parents before children.
        overlays: Oldest first.
        contexts: Content by label.
        entries: Of the session's own searchable blocks.
    """

    record: RecordRow | None = None
    messages: list[PlacedMessage] = field(default_factory=list)
    overlays: list[OverlayRow] = field(default_factory=list)
    contexts: dict[str, str] = field(default_factory=dict)
    entries: list[EntryRow] = field(default_factory=list)
    prompt: PromptRow | None = None


async def refuse_filled(sessions: SessionWrites, ref: SessionRef) -> None:
    """Refuse a session that holds something: what is imported must not mix with it.

    Raises:
        InvalidImportError: It has messages, summaries, blocks or entries.
    """
    reads = sessions.reads
    if (
        await reads.tree(ref, 0, 1)
        or await reads.overlays(ref)
        or await reads.context_labels(ref)
        or await reads.entries(ref.agent, session_namespace(ref.session_id))
    ):
        raise InvalidImportError(
            f"session {ref.session_id!r} holds something already; import into another one",
            session_id=ref.session_id,
        )


async def write_content(sessions: SessionWrites, ref: SessionRef, content: SessionContent) -> None:
    """Store a session's content where nothing is; a record that is there already stays."""
    if content.record is not None:
        record = replace(content.record, id=ref.session_id)
        await sessions.registry.create_record(ref.agent, record)
    for chain in _chains(content.messages):
        messages = [each.message for each in chain]
        await sessions.messages.append(
            ref, messages, chain[0].parent_id, is_auto_parent=False, is_strict=True
        )
    for overlay in content.overlays:
        tokens = TOKENS_PER_MESSAGE + estimate_string_tokens(overlay.summary)
        await sessions.messages.add_overlay(ref, overlay, tokens)
    for label, text in content.contexts.items():
        await sessions.context.put_context(ref, label, text)
    for entry in content.entries:
        namespace = Namespace(ref.agent, session_namespace(ref.session_id), entry.label)
        await sessions.context.put_entry(namespace, entry.key, entry.content)
    if content.prompt is not None:
        await sessions.context.put_prompt(ref, content.prompt)


def _chains(messages: Sequence[PlacedMessage]) -> Iterator[list[PlacedMessage]]:
    """Part messages into runs in which each is the child of the one before it."""
    chain: list[PlacedMessage] = []
    for each in messages:
        is_next = bool(chain) and each.parent_id == chain[-1].message.id
        if chain and (not is_next or len(chain) == _MESSAGES_PER_APPEND):
            yield chain
            chain = []
        chain.append(each)
    if chain:
        yield chain
