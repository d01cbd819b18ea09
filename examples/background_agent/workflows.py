"""The user's own Temporal workflow that drives the agent; it runs in Temporal's sandbox."""

from __future__ import annotations

from dataclasses import dataclass

from temporalio import workflow

from agent_runtime import AgentStep


@dataclass
class IndexJob:
    """What to index, and which agent does it."""

    agent: str
    folder: str
    max_files: int
    batch_size: int = 10


@workflow.defn
class IndexFolder:
    """Each step is applied exactly once, whichever process dies in between."""

    @workflow.run
    async def run(self, job: IndexJob) -> int:
        """Index the folder and return the number of files."""
        step = AgentStep("IndexAgent", job.agent)
        await step.reset_agent_state()
        await step.update_agent_state({"status": "scanning", "folder": job.folder})
        total: int = await step.call_agent("scan", job.folder, job.max_files)
        for first in range(1, total + 1, job.batch_size):
            last = min(first + job.batch_size - 1, total)
            await step.call_agent("index_files", first, last)
            await step.merge_agent_state({"progress": 100 * last // total})
        await step.merge_agent_state({"status": "done"})
        return total
