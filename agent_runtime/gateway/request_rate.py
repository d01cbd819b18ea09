"""How many HTTP requests each client may send: who floods a gateway slows down itself alone."""

from __future__ import annotations

import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable

from starlette.types import Scope

from agent_runtime.gateway.access import token_digest
from agent_runtime.gateway.token_bucket import TokenBucket

MAX_CLIENTS = 10_000
"""Of more than so many the one that was seen longest ago begins anew."""

_IPV6_SITE_BITS = 64


class RequestRate:
    """Allows each client a rate, and twice as much at once after a pause.

    A client is a token; where it showed none, an address.

    Args:
        now: Seconds that only grow.
    """

    def __init__(self, per_second: float, now: Callable[[], float] = time.monotonic) -> None:
        self._rate = per_second
        self._now = now
        self._buckets: OrderedDict[bytes | str, TokenBucket] = OrderedDict()

    def pause(self, scope: Scope) -> int:
        """Count a request; tell how many whole seconds its client has to wait first, 0 for none."""
        client = token_digest(scope) or _address(scope)
        bucket = self._buckets.get(client)
        if bucket is None:
            if len(self._buckets) == MAX_CLIENTS:
                self._buckets.popitem(last=False)
            bucket = self._buckets[client] = TokenBucket(self._rate, self._now)
        self._buckets.move_to_end(client)
        return 0 if bucket.take() else math.ceil(1 / self._rate)


def _address(scope: Scope) -> str:
    host = (scope.get("client") or ("",))[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return str(host)
    if address.version == 4:
        return host
    # One site has as many addresses as it likes.
    return str(ipaddress.ip_network((int(address), _IPV6_SITE_BITS), strict=False))
