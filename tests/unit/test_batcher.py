"""What the client of an agent does about failures on the way to it."""

from __future__ import annotations

from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError

from agent_runtime.client.batcher import AgentBatcher, BatchSender, Contention
from agent_runtime.client.deadlines import Deadlines
from agent_runtime.errors import AgentRuntimeError
from agent_runtime.mutation import Outcome, Receipt


class Failing(BatchSender):
    """Sends to an agent whose first answer is a failure of the Update."""

    def __init__(self, type: str) -> None:
        self.sent: list[str] = []
        self._cause = ApplicationError("no Update", type=type, non_retryable=True)

    @property
    def can_read_answers(self) -> bool:
        """Nothing is stored."""
        return False

    async def commit_here(self, mutations: list[bytes]) -> list[Outcome] | None:
        """Leave it to others."""
        return None

    async def send(self, batch_id: str, mutations: list[bytes]) -> list[Outcome]:
        """Fail once."""
        self.sent.append(batch_id)
        if len(self.sent) == 1:
            raise WorkflowUpdateFailedError(self._cause)
        return [Receipt(1) for _ in mutations]

    async def send_one_way(self, batch_id: str, mutations: list[bytes]) -> None:
        """Answers could not be read."""
        raise AssertionError(batch_id)

    async def read_answer(self, batch_id: str) -> list[Outcome] | None:
        """Nothing is stored."""
        return None


async def submitted(sender: BatchSender) -> Outcome:
    """Return what becomes of a mutation."""
    deadlines = Deadlines(60, TimeoutError)
    return await AgentBatcher(sender, Contention(), lambda: None, deadlines).submit(b"{}")


async def test_an_update_that_a_dying_worker_left_is_sent_again() -> None:
    """The server calls it final, but the next worker does it; the batch is the same one."""
    sender = Failing("UnprocessedUpdate")

    assert await submitted(sender) == Receipt(1)
    assert len(sender.sent) == 2
    assert len(set(sender.sent)) == 1


async def test_a_final_failure_is_told() -> None:
    """It is not tried again."""
    sender = Failing("SomethingElse")
    outcome = await submitted(sender)

    assert isinstance(outcome, AgentRuntimeError)
    assert "SomethingElse: no Update" in str(outcome)
    assert len(sender.sent) == 1
