"""The summarizing of one of an agent's conversations, over a gateway's HTTP API."""

from __future__ import annotations

from agent_runtime.call import CompactionOutcome, CompactionProgress
from agent_runtime.gateway_client.gateway_http import GatewayHttp
from agent_runtime.json_value import Json
from agent_runtime.session.session_json import from_wire

_WAIT_SECONDS = 20


class GatewayCompaction:
    """See `CompactionWatch`; a gateway that is lost is asked again.

    Args:
        place: The session's path.
    """

    def __init__(self, http: GatewayHttp, place: str) -> None:
        self._http = http
        self._path = f"{place}/compact"

    async def progress(self, leaf_id: str | None = None) -> CompactionProgress | None:
        """See `CompactionWatch.progress`."""
        found = (await self._watch(leaf_id, 0))["progress"]
        return None if found is None else from_wire(CompactionProgress, found)

    async def cancel(self, leaf_id: str | None = None) -> bool:
        """See `CompactionWatch.cancel`.

        Raises:
            ReadonlyConnectionError: The token may only read.
        """
        answer = await self._http.change("DELETE", self._path, query=_leaf(leaf_id))
        return bool(answer["cancelled"])

    async def last_outcome(self, leaf_id: str | None = None) -> CompactionOutcome | None:
        """See `CompactionWatch.last_outcome`."""
        while (found := await self._watch(leaf_id, _WAIT_SECONDS))["progress"] is not None:
            pass
        outcome = found["outcome"]
        return None if outcome is None else from_wire(CompactionOutcome, outcome)

    async def _watch(self, leaf_id: str | None, seconds: int) -> Json:
        return await self._http.get(self._path, [*_leaf(leaf_id), ("wait", str(seconds))])


def _leaf(leaf_id: str | None) -> list[tuple[str, str]]:
    return [] if leaf_id is None else [("leaf", leaf_id)]
