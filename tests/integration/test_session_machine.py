"""Random changes of two sessions on a real file, against a model of links from child to parent."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from agent_runtime.storage.session_protocol import SessionRef, VisibleRow
from agent_runtime.storage.sqlite import SqliteStorage
from agent_runtime.testing.session_bench import AUTO, CHAT, SessionBench, message, message_id
from agent_runtime.testing.storage_bench import OTHER, StorageBench
from tests.support.session_model import ModelMessage, ModelOverlay, ModelSession
from tests.support.session_tree_check import check_session_tree

T = TypeVar("T")

REFS = [CHAT, SessionRef(OTHER, "chat")]
WORDS = ["red", "green", "blue", ""]
refs = st.sampled_from([CHAT, CHAT, CHAT, REFS[1]])
# Few names, so that appends repeat ids and other steps mostly name what is there.
names = st.sampled_from([f"m{number}" for number in range(24)])
texts = st.builds("{} {}".format, st.sampled_from(WORDS), st.text("aя", max_size=5))
parents = st.none() | names | names | names | st.just("nope")


class SessionMachine(RuleBasedStateMachine):
    """Two sessions in one file, and beside them what they should hold."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.models = {ref: ModelSession() for ref in REFS}
        self.overlays = 0

    def teardown(self) -> None:
        """Close everything."""
        self.run(self.storage.close())
        self.loop.close()
        self.folder.cleanup()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Await on the machine's own loop."""
        return self.loop.run_until_complete(work)

    def session(self, ref: SessionRef) -> SessionBench:
        """Return the stored session."""

        async def reopened() -> SqliteStorage:
            return self.storage

        return SessionBench(StorageBench(reopened, self.storage), ref)

    @initialize()
    def open(self) -> None:
        """Open the file."""
        self.storage = self.run(SqliteStorage.open(self.folder.name))

    @rule()
    def reopen(self) -> None:
        """A restart changes nothing."""
        self.run(self.storage.close())
        self.open()

    @rule(ref=refs, ids=st.lists(names, min_size=1, max_size=5), text=texts)
    def append(self, ref: SessionRef, ids: list[str], text: str) -> None:
        """Append below the latest leaf."""
        self._append(ref, ids, text, AUTO)

    @rule(ref=refs, ids=st.lists(names, min_size=1, max_size=3), text=texts, parent=parents)
    def branch(self, ref: SessionRef, ids: list[str], text: str, parent: str | None) -> None:
        """Append below a message, an unknown one or none."""
        self._append(ref, ids, text, parent)

    @rule(ref=refs, id=names, text=texts)
    def update(self, ref: SessionRef, id: str, text: str) -> None:
        """Replace a message, if it is there."""
        new = message(id, text, tokens=len(text))
        is_known = id in self.models[ref].messages
        assert self.run(self.session(ref).update(new)) == is_known
        if is_known:
            known = self.models[ref].messages[id]
            known.content, known.tokens = new.content, new.tokens

    @rule(ref=refs, ids=st.lists(names, max_size=6))
    def delete(self, ref: SessionRef, ids: list[str]) -> None:
        """Remove some messages."""
        gone = self.run(self.session(ref).delete(*ids))
        assert set(gone) == self.models[ref].delete(ids)
        assert len(gone) == len(set(gone))

    @rule(ref=refs, first=names, last=names, tokens=st.integers(0, 50))
    def overlay(self, ref: SessionRef, first: str, last: str, tokens: int) -> None:
        """Put a summary over any two messages, on one path or not, or unknown."""
        self._overlay(ref, first, last, tokens)

    @rule(ref=refs, data=st.data())
    def overlay_on_path(self, ref: SessionRef, data: st.DataObject) -> None:
        """Put a summary over a range of a path, sometimes one that begins as another does."""
        model = self.models[ref]
        if not model.messages:
            return
        path = model.path(data.draw(st.sampled_from(list(model.messages))))
        starts = [each.first for each in model.overlays if each.first in path]
        first = data.draw(st.sampled_from(starts + path))
        last = data.draw(st.sampled_from(path[path.index(first) :]))
        self._overlay(ref, first, last, 7)

    @rule(ref=refs, is_whole=st.booleans(), chance=st.integers(0, 3))
    def clear(self, ref: SessionRef, is_whole: bool, chance: int) -> None:
        """Once in a while remove all messages, or the session."""
        if chance == 0:
            chat = self.session(ref)
            self.run(chat.delete_session() if is_whole else chat.clear())
            self.models[ref] = ModelSession()

    @invariant()
    def labels_agree_with_links(self) -> None:
        """All that is stored beside the parent links follows from them."""
        for ref in REFS:
            self.run(check_session_tree(self.storage, ref))

    @invariant()
    def reads_are_equal(self) -> None:
        """Every read of some paths is the model's."""
        for ref, model in self.models.items():
            leaves: list[str | None] = [None, "nope", *list(model.messages)[::5]]
            for leaf in leaves:
                self.run(self._compare_path(ref, model, leaf))
            self.run(self._compare_rest(ref, model))

    def _append(self, ref: SessionRef, ids: list[str], text: str, parent: str | None) -> None:
        model = self.models[ref]
        rows = [message(id, f"{text} {id}", tokens=len(text) + len(id)) for id in ids]
        known = model.leaf if parent == AUTO else parent
        expected = model.append(
            [(row.id, ModelMessage(known, row.content, row.tokens)) for row in rows]
        )
        results = self.run(self.session(ref).append(*rows, parent=parent))
        assert [(each.is_inserted, each.parent_id) for each in results] == expected

    def _overlay(self, ref: SessionRef, first: str, last: str, tokens: int) -> None:
        self.overlays += 1
        name = f"o{self.overlays}"
        self.models[ref].overlays.append(ModelOverlay(name, first, last, tokens))
        self.run(self.session(ref).overlay(name, first, last, tokens=tokens))

    async def _compare_path(self, ref: SessionRef, model: ModelSession, leaf: str | None) -> None:
        reads = self.storage.sessions
        path = model.path(leaf)
        shown = model.visible(leaf)
        assert _shown(await reads.history(ref, leaf)) == _expected(model, shown)
        assert await reads.length(ref, leaf) == len(path)
        sizes = [(row.id, row.bytes) for row in await reads.sizes(ref, leaf)]
        assert sizes == [(id, model.size(id)) for id in path]
        tokens = sum(
            model.messages[each].tokens if isinstance(each, str) else each.tokens for each in shown
        )
        assert await reads.visible_tokens(ref, leaf) == tokens
        for budget, floor in ((0, 1), (150, 2), (400, 1), (10_000, 3)):
            first = model.window(leaf, budget, floor)
            recent = await reads.recent(ref, leaf, budget, floor)
            assert _shown(recent.rows) == _expected(model, model.visible(leaf, first))
            assert recent.is_truncated == (first > 0)
            assert recent.total_bytes == sum(size for _, size in sizes)

    async def _compare_rest(self, ref: SessionRef, model: ModelSession) -> None:
        reads = self.storage.sessions
        latest = await reads.latest(ref)
        assert (message_id(latest) if latest else None) == model.leaf
        for id in ["nope", *list(model.messages)[::7]]:
            children = [model.messages[each].content for each in model.children(id)]
            assert await reads.children(ref, id) == children
        stored = [(row.id, row.from_id, row.to_id) for row in await reads.overlays(ref)]
        assert stored == [(each.id, each.first, each.last) for each in model.overlays]
        for word in WORDS[:3]:
            hits = await reads.search(ref.agent, [ref.session_id], word, 1_000)
            found = {id for id, each in model.messages.items() if word in each.content}
            assert {hit.id for hit in hits} == found


def _shown(rows: list[VisibleRow]) -> list[str]:
    return [row if isinstance(row, str) else row.id for row in rows]


def _expected(model: ModelSession, shown: list[str | ModelOverlay]) -> list[str]:
    return [model.messages[each].content if isinstance(each, str) else each.id for each in shown]


TestSessionMachine = SessionMachine.TestCase
TestSessionMachine.settings = settings(
    max_examples=20,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
