"""Running `on_state_changed` for committed changes: every version once to its end, in order.

Hooks of successive versions are started in order and do not wait for each other (state-and-sync
7.3.5, 8). A crash repeats those that had not ended; their committed effects are not repeated.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from dataclasses import dataclass
from typing import Any

import orjson

from agent_runtime.agent import Agent
from agent_runtime.errors import AUTHOR_ERRORS, AgentRuntimeError, HandlerError, describe
from agent_runtime.host import AgentHost
from agent_runtime.identity import AgentRef
from agent_runtime.invocation import Invocation, run_within
from agent_runtime.json_value import Json
from agent_runtime.state import UNSET, Unset
from agent_runtime.state_change import rebuild
from agent_runtime.storage.protocol import HookRow

logger = logging.getLogger("agent_runtime")

MAX_RUNNING = 100


async def run_state_hooks(host: AgentHost, ref: AgentRef) -> int:
    """Run the agent's pending change hooks until none is left; return how many ran.

    An error of a hook goes to `on_error` and ends that hook.
    """
    count = 0
    running: dict[int, asyncio.Task[None]] = {}
    definition = host.registry.definition(ref.class_name)
    async with host.using(ref) as agent:
        agent_id = await host.agent_id(ref)
        try:
            while True:
                pending = await host.storage.read_hooks(agent_id, MAX_RUNNING)
                new = [row for row in pending if row.version not in running]
                if not pending:
                    return count
                for row in new[: MAX_RUNNING - len(running)]:
                    # All reading is done before the task is made: tasks start in order.
                    hook = await _prepare(host, agent, row)
                    running[row.version] = asyncio.create_task(
                        _run_hook(host, agent, hook, runs_hook=definition.has_hook)
                    )
                done, _ = await asyncio.wait(
                    running.values(), return_when=asyncio.FIRST_COMPLETED, timeout=1.0
                )
                ended = [version for version, task in running.items() if task in done]
                for version in ended:
                    await running.pop(version)
                if ended:
                    count += len(ended)
                    await host.storage.write(
                        lambda tx, versions=tuple(ended): tx.delete_hooks(agent_id, versions)  # type: ignore[misc]
                    )
        finally:
            for task in running.values():
                task.cancel()
            await asyncio.gather(*running.values(), return_exceptions=True)


@dataclass(frozen=True, slots=True)
class _Hook:
    invocation: Invocation
    state: Json | Unset
    source: str


async def _prepare(host: AgentHost, agent: Agent[Any], row: HookRow) -> _Hook:
    ref, key = agent._ref, f"state_changed/{row.version}"
    entries = await host.storage.read_version(ref, row.version)
    recorded = [
        *await host.storage.read_effects(ref, key),
        *await host.storage.sql_effects(ref, key),
    ]
    return _Hook(
        Invocation(host, agent, row.agent_id, key, recorded, hook_depth=row.depth, is_hook=True),
        rebuild([(entry.is_full, entry.value) for entry in entries]),
        entries[-1].source if entries else "server",
    )


async def _run_hook(host: AgentHost, agent: Agent[Any], hook: _Hook, *, runs_hook: bool) -> None:
    if not runs_hook:  # a deployment took the hook away
        return
    try:
        is_pruned = hook.state is UNSET
        state = agent.state if is_pruned else agent._schema.load(orjson.dumps(hook.state))
        await run_within(hook.invocation, lambda: agent.on_state_changed(state, hook.source))
    except asyncio.CancelledError:
        raise
    except AgentRuntimeError as error:
        if error.is_retryable:
            raise
        await report_error(host, agent, "on_state_changed", error)
    except AUTHOR_ERRORS as error:
        await report_error(host, agent, "on_state_changed", error)


async def report_error(host: AgentHost, agent: Agent[Any], hook: str, error: BaseException) -> None:
    """Give an error that no caller gets to the agent's `on_error`; log what that raises."""
    failure = HandlerError(f"{hook} failed: {describe(error)}", hook=hook)
    failure.__cause__ = error
    ref = agent._ref
    invocation = Invocation(host, agent, await host.agent_id(ref), f"error/{uuid.uuid4()}")
    try:
        await run_within(invocation, lambda: agent.on_error(failure))
    except AUTHOR_ERRORS:
        logger.exception("%s: on_error raised", ref)
