"""One Session object per session id, as many as are in use and a few more."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from weakref import WeakValueDictionary

from agent_runtime.session.session import Session


class SessionCache:
    """Keeps the sessions used last; one that somebody still holds is never made twice.

    Two objects for one session would be correct, since all that lasts is in the store, but could
    compact it at the same time.

    Args:
        make: Makes the object for a session id.
        limit: How many are kept that nobody else holds.
    """

    def __init__(self, make: Callable[[str], Session], limit: int) -> None:
        self._make = make
        self._limit = limit
        self._recent: OrderedDict[str, Session] = OrderedDict()
        self._live: WeakValueDictionary[str, Session] = WeakValueDictionary()

    def get(self, session_id: str) -> Session:
        """Return the session's object, made if there is none."""
        session = self._live.get(session_id)
        if session is None:
            session = self._live[session_id] = self._make(session_id)
        self._recent[session_id] = session
        self._recent.move_to_end(session_id)
        if len(self._recent) > self._limit:
            self._recent.popitem(last=False)
        return session

    def forget(self, session_id: str) -> None:
        """Drop a session's object; the next one is made anew."""
        self._recent.pop(session_id, None)
        self._live.pop(session_id, None)

    def __iter__(self) -> Iterator[Session]:
        return iter([*self._live.values()])
