"""What the runtime asks of a database about sessions (contract 3, 19, 20.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from agent_runtime.identity import AgentRef
from agent_runtime.storage.visible_path import PathPart


@dataclass(frozen=True, slots=True)
class SessionRef:
    """A session's address: its agent and its id, `""` for the agent's default session."""

    agent: AgentRef
    session_id: str


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A checked message on its way into a session.

    Args:
        content: Its JSON text.
        tokens: Its token estimate.
        text: What search is to find it by; empty for nothing.
        created_at: Milliseconds since 1970; by default the time of the append.
    """

    id: str
    role: str
    content: str
    tokens: int
    text: str
    created_at: int | None = None


@dataclass(frozen=True, slots=True)
class Appended:
    """What became of one message of an append."""

    is_inserted: bool
    parent_id: str | None


@dataclass(frozen=True, slots=True)
class OverlayRow:
    """A stored overlay; times are milliseconds since 1970."""

    id: str
    summary: str
    from_id: str
    to_id: str
    created_at: int


VisibleRow: TypeAlias = str | OverlayRow
"""One item of a visible history: a message's JSON text, or the overlay whose summary stands there.

Of the overlay its endpoints are left out.
"""


@dataclass(frozen=True, slots=True)
class SizeRow:
    """The stored size of one message."""

    id: str
    role: str
    bytes: int


@dataclass(frozen=True, slots=True)
class TreeRow:
    """A message as exports and tree views show it; `parent_seq` is None for a root."""

    seq: int
    parent_seq: int | None
    id: str
    role: str
    depth: int
    bytes: int
    tokens: int
    created_at: int
    content: str


@dataclass(frozen=True, slots=True)
class RecentRows:
    """The end of a path that fits a budget."""

    rows: list[VisibleRow]
    is_truncated: bool
    total_bytes: int


@dataclass(frozen=True, slots=True)
class PageRows:
    """The end of a visible history that fits; `earlier_leaf` ends the part above, None if none."""

    rows: list[VisibleRow]
    earlier_leaf: str | None


@dataclass(frozen=True, slots=True)
class HitRow:
    """A message that a search found."""

    id: str
    role: str
    content: str
    created_at: int
    session_id: str


@dataclass(frozen=True, slots=True)
class ContextRow:
    """A context block's stored content; `version` counts its writes."""

    content: str
    version: int


@dataclass(frozen=True, slots=True)
class PromptRow:
    """A frozen prompt and the fingerprint of what it was rendered from."""

    prompt: str
    fingerprint: str | None


@dataclass(frozen=True, slots=True)
class Namespace:
    """Whose searchable entries: those of one label in a session, or of a name that is shared."""

    agent: AgentRef
    name: str
    label: str


@dataclass(frozen=True, slots=True)
class EntryRow:
    """A searchable entry of a block."""

    label: str
    key: str
    content: str


@dataclass(frozen=True, slots=True)
class RecordRow:
    """An entry of the registry of sessions (contract 19.2); times are milliseconds since 1970."""

    id: str
    name: str
    parent_session_id: str | None
    model: str | None
    source: str | None
    input_tokens: int
    output_tokens: int
    estimated_cost: float
    end_reason: str | None
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True)
class ChunkRow:
    """A part of a compaction job: JSON text of what to summarize, and the summary once made."""

    request: str
    summary: str | None


@dataclass(frozen=True, slots=True)
class AttemptsRow:
    """Automatic compactions in a row that did not help, and the estimate to try again at."""

    failures: int = 0
    next_estimate: float = 0.0


@dataclass(frozen=True, slots=True)
class UsageRow:
    """What one call of a language model has cost.

    Args:
        key: Unique within the agent; a second row with it is the same call.
        created_at: Milliseconds since 1970.
    """

    key: str
    purpose: str
    model: str
    input_tokens: int
    output_tokens: int
    cost: float
    created_at: int


MAX_DAY = 2**62
DAY_MILLISECONDS = 24 * 60 * 60 * 1000


@dataclass(frozen=True, slots=True)
class DayUsageRow:
    """What the calls of a model have cost a session on one day.

    Args:
        day: Days since 1970, in UTC.
        purpose: As `UsageRow` has it; calls for others are counted apart.
    """

    session_id: str
    day: int
    model: str
    purpose: str
    calls: int
    input_tokens: int
    output_tokens: int
    cost: float


class MessageWrites(Protocol):
    """Changes of message trees within a unit of work."""

    async def append(
        self,
        ref: SessionRef,
        messages: Sequence[NewMessage],
        parent_id: str | None,
        *,
        is_auto_parent: bool,
        is_strict: bool = False,
    ) -> list[Appended]:
        """Append messages, each below the one before it, leaving out ids that are there.

        Args:
            parent_id: Parent of the first; an unknown one means a new root, or an error if
                `is_strict`.
            is_auto_parent: The first goes below the latest leaf instead.

        Raises:
            UnknownMessageError: `is_strict` and the parent does not exist.
        """

    async def visible_parts(
        self, ref: SessionRef, leaf_id: str, size: int
    ) -> list[PathPart | OverlayRow]:
        """Return what is seen of a path, in parts of so many messages; nothing if it is unknown.

        The session is kept from other writers.
        """

    async def copy_part(self, part: PathPart, target: SessionRef, ids: Sequence[str]) -> bool:
        """Append copies of a part's messages below another session's latest leaf.

        False, and nothing is done, if a message's text must be read to be given another id.
        """

    async def part_contents(self, part: PathPart) -> list[str]:
        """Return the messages of a part as JSON text."""

    async def update(self, ref: SessionRef, message: NewMessage) -> bool:
        """Replace a message's content; False if there is none of its id."""

    async def delete(self, ref: SessionRef, message_ids: Sequence[str]) -> list[str]:
        """Remove messages, hand their children to their parents, and return which were there."""

    async def clear(self, ref: SessionRef) -> None:
        """Remove all messages and overlays of a session."""

    async def add_overlay(self, ref: SessionRef, overlay: OverlayRow, tokens: int) -> OverlayRow:
        """Store an overlay, or return the one that has its id."""


class ContextWrites(Protocol):
    """Changes of context blocks, prompts and searchable entries within a unit of work."""

    async def put_context(
        self, ref: SessionRef, label: str, content: str, *, expected_version: int | None = None
    ) -> bool:
        """Replace a block's content; False if another version than the expected one is there."""

    async def put_prompt(self, ref: SessionRef, prompt: PromptRow) -> None:
        """Keep a frozen prompt."""

    async def put_entry(self, namespace: Namespace, key: str, content: str) -> None:
        """Add or replace a searchable entry."""


class RegistryWrites(Protocol):
    """Changes of the registry of sessions within a unit of work."""

    async def create_record(self, agent: AgentRef, record: RecordRow) -> RecordRow:
        """Register a session, or return the record that has its id."""

    async def update_record(
        self,
        agent: AgentRef,
        session_id: str,
        *,
        name: str | None = None,
        end_reason: str | None = None,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cost: float = 0.0,
    ) -> bool:
        """Add usage, set what is given and note the time; False if it is not registered."""

    async def touch_record(self, ref: SessionRef) -> None:
        """Note the time in a session's record, if it is registered."""

    async def delete_session(self, ref: SessionRef) -> None:
        """Remove every row of a session: record, messages, overlays, blocks, prompt, entries."""

    async def recall_operation(self, agent: AgentRef, key: str, fingerprint: str) -> str | None:
        """Return the result recorded under an operation's key, or None and take the key.

        Raises:
            IdempotencyConflictError: The key was used for another operation.
        """

    async def record_operation(self, agent: AgentRef, key: str, result: str) -> None:
        """Note an operation's result, not an empty one, under the key that was taken for it."""


class JobWrites(Protocol):
    """What compaction jobs keep, and what models have cost, within a unit of work."""

    async def put_chunks(
        self, agent: AgentRef, job: str, stage: int, requests: Sequence[str]
    ) -> None:
        """Keep what a stage of a job is to summarize, leaving what is there."""

    async def put_summary(
        self, agent: AgentRef, job: str, stage: int, position: int, summary: str
    ) -> bool:
        """Keep a chunk's summary; False if it has one, or the job has gone."""

    async def delete_job(self, agent: AgentRef, job: str) -> None:
        """Forget a job's chunks, and what its summarizer did in steps."""

    async def delete_jobs(self, agent: AgentRef, prefix: str, *, keep: str) -> None:
        """Forget what the jobs whose names begin with `prefix` kept, but for one.

        Args:
            prefix: Ends with "/".
        """

    async def put_attempts(self, ref: SessionRef, attempts: AttemptsRow) -> None:
        """Keep how the session's automatic compactions went, if there is such a session."""

    async def add_usage(self, ref: SessionRef, usage: UsageRow) -> None:
        """Note a model's call once.

        It is added to the sums of its day, and to the session's record if that is registered.
        """


class SessionWrites(Protocol):
    """All changes of sessions within a unit of work."""

    @property
    def messages(self) -> MessageWrites:
        """Message trees and overlays."""

    @property
    def context(self) -> ContextWrites:
        """Context blocks, prompts, searchable entries."""

    @property
    def registry(self) -> RegistryWrites:
        """The registry, and results of operations by key."""

    @property
    def jobs(self) -> JobWrites:
        """Compaction jobs and the cost of models."""

    @property
    def reads(self) -> SessionReads:
        """What is stored, as this unit of work has left it so far."""


class SessionReads(Protocol):
    """Reading sessions; a leaf of None means the latest one."""

    async def history(self, ref: SessionRef, leaf_id: str | None) -> list[VisibleRow]:
        """Return the path to a message with overlays applied; empty if it is unknown."""

    async def recent(
        self, ref: SessionRef, leaf_id: str | None, max_bytes: int, min_messages: int
    ) -> RecentRows:
        """Return the end of a path that fits `max_bytes`, at least `min_messages` rows of it."""

    async def page(self, ref: SessionRef, leaf_id: str | None, max_bytes: int) -> PageRows:
        """Return the end of the visible history that fits `max_bytes`, one item at least."""

    async def sizes(self, ref: SessionRef, leaf_id: str | None) -> list[SizeRow]:
        """Return the raw path's sizes, root first."""

    async def visible_tokens(self, ref: SessionRef, leaf_id: str | None) -> int:
        """Return the token estimate of the visible history, without reading it."""

    async def message(self, ref: SessionRef, message_id: str) -> str | None:
        """Return a message's JSON text."""

    async def latest(self, ref: SessionRef) -> str | None:
        """Return the latest leaf's JSON text."""

    async def length(self, ref: SessionRef, leaf_id: str | None) -> int:
        """Return how many raw messages a path has."""

    async def is_on_path(self, ref: SessionRef, message_id: str, leaf_id: str) -> bool:
        """Tell whether a message is on the path to another; False if one is unknown."""

    async def children(self, ref: SessionRef, message_id: str) -> list[str]:
        """Return the JSON texts of a message's children, oldest first."""

    async def overlays(self, ref: SessionRef) -> list[OverlayRow]:
        """Return all overlays, oldest first."""

    async def tree(self, ref: SessionRef, after: int, limit: int) -> list[TreeRow]:
        """Return messages of all branches with a higher `seq`, oldest first."""

    async def search(
        self, agent: AgentRef, session_ids: Sequence[str], query: str, limit: int
    ) -> list[HitRow]:
        """Return messages of the given sessions that hold every word, best first."""

    async def context(self, ref: SessionRef, label: str) -> ContextRow | None:
        """Return a block's stored content."""

    async def context_labels(self, ref: SessionRef) -> list[str]:
        """Return the labels of the session's stored blocks."""

    async def prompt(self, ref: SessionRef) -> PromptRow | None:
        """Return the frozen prompt."""

    async def count_entries(self, namespace: Namespace) -> int:
        """Return how many searchable entries there are."""

    async def search_entries(
        self, namespace: Namespace, query: str, limit: int
    ) -> list[tuple[str, str]]:
        """Return key and content of the entries that hold every word, best first."""

    async def entries(self, agent: AgentRef, name: str) -> list[EntryRow]:
        """Return the searchable entries under a namespace's name, by label and key."""

    async def record(self, ref: SessionRef) -> RecordRow | None:
        """Return a session's entry of the registry."""

    async def records(self, agent: AgentRef, *, limit: int, offset: int = 0) -> list[RecordRow]:
        """Return registered sessions, the last changed one first."""

    async def registered_ids(self, agent: AgentRef) -> list[str]:
        """Return the ids of all registered sessions."""

    async def session_ids(self, agent: AgentRef) -> list[str]:
        """Return the ids of all sessions that hold anything, registered or not."""

    async def chunk(self, agent: AgentRef, job: str, stage: int, position: int) -> ChunkRow | None:
        """Return a chunk of a compaction job."""

    async def count_chunks(self, agent: AgentRef, job: str, stage: int) -> int:
        """Return how many chunks a stage has; 0 if it was not begun."""

    async def summaries(self, agent: AgentRef, job: str, stage: int) -> list[str | None]:
        """Return the summaries of a stage's chunks in order."""

    async def attempts(self, ref: SessionRef) -> AttemptsRow:
        """Return how the session's automatic compactions went."""

    async def usage(self, ref: SessionRef) -> list[UsageRow]:
        """Return what models have cost for a session, oldest first.

        Calls are kept one by one as long as receipts are, see `Retention`; their sums are in
        `usage_of_days`.
        """

    async def usage_of_days(
        self,
        agent: AgentRef,
        *,
        session_id: str | None = None,
        since: int = 0,
        until: int = MAX_DAY,
        limit: int,
        offset: int = 0,
    ) -> list[DayUsageRow]:
        """Return what models have cost by day, session, model and purpose, in this order.

        Args:
            session_id: Of this session alone.
            since: The first day, in days since 1970.
            until: The last day.
        """
