"""Compacting a session: by hand, and by itself when it has grown past a threshold (contract 9)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic

from agent_runtime.compaction.compact_context import (
    CompactContext,
    CompactFunction,
    CompactResult,
)
from agent_runtime.errors import (
    InvalidCompactionError,
    SessionSetupError,
)
from agent_runtime.json_value import Json
from agent_runtime.session.attempt_spacing import AttemptSpacing
from agent_runtime.session.compaction_flight import CompactionFlight, flight_of
from agent_runtime.session.compaction_jobs import (
    CompactionBasis,
    CompactionJobs,
    CompactionMode,
)
from agent_runtime.session.compaction_range import InvalidRange
from agent_runtime.session.compaction_storing import store_summary
from agent_runtime.session.maybe_await import maybe_await
from agent_runtime.session.session_events import HistoryCompacted, SessionEvents
from agent_runtime.session.session_setup import SessionParts
from agent_runtime.session.session_status import SessionStatus, frame_text
from agent_runtime.session.stored_session import StoredSessionProvider

logger = logging.getLogger("agent_runtime")

_MUCH_LESS = 0.9
_JOB_NEWS_SECONDS = 30.0
"""After so long without news of a job that was started, ask whether it still runs."""
_NEXT_START_SECONDS = 1.0
"""After so long ask again for a job that was not begun."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """How a compaction ended.

    Args:
        result: What was stored; None if nothing was.
        after: The estimate afterwards, if anybody wants to know.
        refusal: Why the function's result was not stored.
        error: What was raised.
        is_functions_own: The compaction function raised it, not what was around.
        is_needless: The history had become short enough by itself.
    """

    result: CompactResult | None = None
    after: int | None = None
    refusal: InvalidCompactionError | None = None
    error: Exception | None = None
    is_functions_own: bool = False
    is_needless: bool = False


class SessionCompactor(SessionStatus):
    """The compaction of one session: what to call, when, and what to store of it.

    One runs at a time, of all the session's objects in this process. Appends meanwhile start no
    other; a second `compact` waits for its turn.

    Args:
        parts: Gives the session's parts, made at its first use.
    """

    def __init__(self, parts: Callable[[], SessionParts], events: SessionEvents) -> None:
        super().__init__(parts, events)
        self._spacing = AttemptSpacing()
        self._known_flight: CompactionFlight | None = None
        self._last_estimate: int | None = None
        self._may_be_spaced = True
        self._job_started_at: float | None = None
        self.jobs: CompactionJobs | None = None
        self.mode: CompactionMode | None = None

    async def compact(self, leaf_id: str | None = None) -> CompactResult | None:
        """Compact now.

        Returns:
            What was stored, None if nothing was.

        Raises:
            SessionSetupError: There is no compaction function, or it called this itself.
            StorageError: The summary could not be stored.
        """
        function = self._registered_function()
        self._flight.check_may_wait()
        if self.jobs is not None:
            return await self.jobs.run(self._session_id(), leaf_id)
        async with self._flight.turn():
            attempt = await self._attempt(function, leaf_id)
            if attempt.error is not None:
                await self._events.error(frame_text(attempt.error))
            if attempt.result is None:
                await self.show_status(leaf_id=leaf_id)
        if attempt.error is not None and not attempt.is_functions_own:
            raise attempt.error
        if attempt.result is not None:
            self._note_success(attempt)
            await self._events.emit(HistoryCompacted())
        return attempt.result

    async def recall(self, recorded: Json) -> CompactResult | None:
        """Return a compaction's result, None if it stored nothing or its summary has gone."""
        if recorded is None:
            return None
        overlay_id, _ = recorded
        for each in await maybe_await(self._parts().provider.get_compactions()):
            if each.id == overlay_id:
                return CompactResult(each.from_message_id, each.to_message_id, each.summary)
        return None

    async def after_append(self, estimate: int | None) -> bool:
        """Compact if the history has passed the threshold; tells whether it was.

        Nothing that fails here reaches the caller, whose message is stored.
        """
        function = self.function
        if function is None or self.threshold is None or estimate is None:
            return False
        await self._rearm_if_shorter(estimate)
        if estimate <= self.threshold or self._flight.is_under_way:
            return False
        if self._runs_in_background:
            await self._start_job(estimate)
            return False
        if not self._spacing.allows(estimate):
            return False
        async with self._flight.turn():
            attempt = await self._attempt(function, None, above=self.threshold)
        if attempt.is_needless:
            await self.show_status()
            return False
        if attempt.result is not None:
            self._note_success(attempt, estimate)
            await self._events.emit(HistoryCompacted())
            return True
        self._spacing.note_failure(estimate)
        self._last_estimate = estimate
        await self._tell_of(attempt, estimate)
        return False

    async def forget_failures(self) -> None:
        """Begin anew, as when the history that could not be shortened has gone."""
        self._spacing.note_success()
        if self.jobs is not None:
            await self._store_spacing(AttemptSpacing())

    async def begin_job(self, leaf_id: str | None) -> CompactionBasis | None:
        """Show that a job compacts the session, and return what it works on; None if that is none.

        Raises:
            SessionSetupError: There is no compaction function.
        """
        function = self._registered_function()
        provider = self._parts().provider
        before = await self.show_status("compacting", leaf_id)
        # The overlays first: one that is added now is new to the job, whether it is seen or not.
        overlays = list(await maybe_await(provider.get_compactions()))
        if leaf_id is None:
            latest = await maybe_await(provider.get_latest_leaf())
            leaf_id = latest["id"] if latest is not None else ""
        history = list(await maybe_await(provider.get_history(leaf_id))) if leaf_id else []
        if not history:
            self._job_started_at = None
            await self.show_status()
            return None
        return CompactionBasis(function, history, leaf_id, [each.id for each in overlays], before)

    async def commit_job(
        self, result: CompactResult, leaf_id: str, overlay_ids: Sequence[str]
    ) -> CompactResult | InvalidRange:
        """Store a job's summary over its range, if that is still on one path.

        Args:
            overlay_ids: Of the summaries that the job knew of. What another one says that would be
                taken in is not in this one.
        """
        parts = self._parts()
        history = list(await maybe_await(parts.provider.get_history(leaf_id)))
        present = await maybe_await(parts.provider.get_compactions())
        known = [each for each in present if each.id in overlay_ids]
        return await store_summary(parts.provider, history, known, result)

    async def finish_job(self, tokens_before: int | None) -> None:
        """Show that a job has stored its summary; harmless if repeated."""
        try:
            await self._parts().prompt.refresh_system_prompt()
        except Exception as error:
            await self._handle(error)
        after = await self.show_status(tokens_before=tokens_before)
        spacing = AttemptSpacing()
        if self.threshold is not None and after is not None and after > self.threshold:
            spacing = await self._stored_spacing()
            spacing.note_failure(max(after, tokens_before or 0))
        await self._store_spacing(spacing)
        self._last_estimate = after
        self._has_warned = False
        self._job_started_at = None
        await self._events.emit(HistoryCompacted())

    async def end_job(
        self,
        *,
        error: Exception | None = None,
        refusal: str | None = None,
        is_automatic: bool,
        is_cancelled: bool = False,
    ) -> None:
        """Show that a job has ended and stored nothing; space out the next automatic one.

        Args:
            error: What has failed.
            refusal: Why the summary was not stored; with neither there was nothing to do.
        """
        self._job_started_at = None
        if refusal is not None:
            logger.warning("a summary was not stored: %s", refusal)
        if is_automatic:
            self._last_estimate = estimate = await self._sure_estimate()
            spacing = await self._stored_spacing()
            spacing.note_failure(estimate)
            await self._store_spacing(spacing)
            if error is not None:
                await self._tell_handler(error)
            else:
                if refusal is not None and self.error_handler is not None:
                    await self._tell_handler(
                        InvalidCompactionError(f"{refusal}; nothing was stored")
                    )
                if self.threshold is None or estimate > self.threshold:
                    await self._warn_once(estimate)
        if error is not None and not is_cancelled:
            await self._events.error(frame_text(error))
        await self.show_status()

    def _registered_function(self) -> CompactFunction:
        if self.function is None:
            raise SessionSetupError(
                "No compaction function registered. Call on_compaction() first."
            )
        return self.function

    @property
    def _runs_in_background(self) -> bool:
        return self.jobs is not None and self.mode != "inline"

    async def _start_job(self, estimate: int) -> None:
        now = monotonic()
        started = self._job_started_at
        is_running = started is not None and now - started < _JOB_NEWS_SECONDS
        if self.jobs is None or is_running or not (await self._stored_spacing()).allows(estimate):
            return
        self._job_started_at = now
        self._may_be_spaced = True
        if not await self.jobs.start(self._session_id()) and self._job_started_at == now:
            # The job of before may have stored its summary already and be about to end.
            self._job_started_at = now - _JOB_NEWS_SECONDS + _NEXT_START_SECONDS

    async def _rearm_if_shorter(self, estimate: int) -> None:
        """Forget attempts that did not help if the session is much shorter than after the last.

        Only much: else a failing compaction were tried again whenever a message is replaced.
        """
        last = self.threshold if self._last_estimate is None else self._last_estimate * _MUCH_LESS
        if last is None or estimate > last:
            return
        self._spacing.note_success()
        self._has_warned = False
        if self._runs_in_background and self._may_be_spaced:
            if (await self._stored_spacing()).failures:
                await self._store_spacing(AttemptSpacing())
            self._may_be_spaced = False

    @property
    def _flight(self) -> CompactionFlight:
        if self._known_flight is None:
            self._known_flight = flight_of(self._parts().provider)
        return self._known_flight

    def _session_id(self) -> str:
        provider = self._parts().provider
        return provider.session_id if isinstance(provider, StoredSessionProvider) else ""

    async def _stored_spacing(self) -> AttemptSpacing:
        provider = self._parts().provider
        if not isinstance(provider, StoredSessionProvider):
            return self._spacing
        failures, next_estimate = await provider.get_attempts()
        return AttemptSpacing(failures, next_estimate)

    async def _store_spacing(self, spacing: AttemptSpacing) -> None:
        provider = self._parts().provider
        if isinstance(provider, StoredSessionProvider):
            await provider.set_attempts(spacing.failures, spacing.next_estimate)

    async def _attempt(
        self, function: CompactFunction, leaf_id: str | None, *, above: int | None = None
    ) -> _Attempt:
        """Compact and, if something was stored, show it; else it is the caller's to show idle.

        Args:
            above: Only if the estimate is still more than that.
        """
        parts = self._parts()
        before = await self.show_status("compacting", leaf_id)
        if above is not None and before is not None and before <= above:
            # Another compaction has ended since the estimate that this one was begun for.
            return _Attempt(is_needless=True)
        try:
            history = list(await maybe_await(parts.provider.get_history(leaf_id)))
            overlays = list(await maybe_await(parts.provider.get_compactions()))
            context = CompactContext(token_counter=self.token_counter)
            try:
                result = await maybe_await(function(list(history), context))
            except Exception as error:
                return _Attempt(error=error, is_functions_own=True)
            if result is None:
                return _Attempt()
            stored = await store_summary(parts.provider, history, overlays, result)
        except Exception as error:
            return _Attempt(error=error)
        except BaseException:
            await self.show_status(leaf_id=leaf_id)
            raise
        if isinstance(stored, InvalidRange):
            logger.warning("a summary was not stored: %s", stored.reason)
            return _Attempt(refusal=InvalidCompactionError(f"{stored.reason}; nothing was stored"))
        try:
            await parts.prompt.refresh_system_prompt()
        except Exception as error:
            await self._handle(error)
        return _Attempt(stored, await self.show_status(leaf_id=leaf_id, tokens_before=before))

    def _note_success(self, attempt: _Attempt, estimate: int | None = None) -> None:
        self._has_warned = False
        self._last_estimate = attempt.after
        if self.threshold is None or attempt.after is None:
            return
        if attempt.after <= self.threshold:
            self._spacing.note_success()
        elif estimate is not None:
            self._spacing.note_failure(max(estimate, attempt.after))

    async def _tell_of(self, attempt: _Attempt, estimate: int) -> None:
        """Report an automatic attempt that stored nothing."""
        if attempt.error is not None:
            await self._handle(attempt.error)
        else:
            if attempt.refusal is not None and self.error_handler is not None:
                await self._tell_handler(attempt.refusal)
            await self._warn_once(estimate)
        await self.show_status()
