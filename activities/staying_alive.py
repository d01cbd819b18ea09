"""What long activities do beside their work: show that they live, and leave a stopping worker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

_HEARTBEAT_SECONDS = 1.0


@asynccontextmanager
async def staying_alive() -> AsyncIterator[None]:
    """Send heartbeats; an activity that ends because its worker stops is repeated on another."""

    async def beat() -> None:
        while True:
            activity.heartbeat()
            await asyncio.sleep(_HEARTBEAT_SECONDS)

    beating = asyncio.create_task(beat())
    try:
        yield
    except asyncio.CancelledError:
        if not activity.is_worker_shutdown():
            raise
        raise ApplicationError(
            "the worker is stopping",
            type="WorkerStopping",
            category=ApplicationErrorCategory.BENIGN,
        ) from None
    finally:
        beating.cancel()
