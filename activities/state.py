"""State mutations: the commit of batches, and single mutations of workflow steps."""

from __future__ import annotations

import asyncio
import logging

from temporalio import activity
from temporalio.api.common.v1 import Payload
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from agent_runtime.call import (
    COMMIT_ACTIVITY,
    DRAINING,
    STEP_ACTIVITY,
    StepMutation,
    StepReceipt,
)
from agent_runtime.clock import now_milliseconds
from agent_runtime.errors import AgentRuntimeError, InternalError, InvalidRequestError
from agent_runtime.hosting.host import AgentHost
from agent_runtime.identity import agent_ref
from agent_runtime.json_value import to_json
from agent_runtime.mutation import (
    AgentBatch,
    Mutation,
    MutationKind,
    check_key,
    decode_batches,
    encode_outcomes,
)
from agent_runtime.storage.protocol import Transaction

logger = logging.getLogger("agent_runtime")


class StateActivities:
    """Activities that change state in the storage of one host."""

    def __init__(self, host: AgentHost) -> None:
        self._host = host
        self._is_draining = False

    def drain(self) -> None:
        """Refuse local attempts from now on, so that workflow tasks end and the worker can stop."""
        self._is_draining = True

    @activity.defn(name=COMMIT_ACTIVITY)
    async def commit(self, batches: RawValue, answer_ids: list[str]) -> RawValue:
        """Commit batches of mutations of any agents and return one outcome per mutation.

        Outcomes are also kept under `answer_ids`, if there are any: all under a single one, else
        one for each batch.

        Idempotency: each mutation's key is stored with its effect in one transaction; a repeat
        returns the first receipt.
        """
        if self._is_draining and activity.info().is_local:
            raise ApplicationError(
                "the worker is stopping",
                type=DRAINING,
                non_retryable=True,
                category=ApplicationErrorCategory.BENIGN,  # no traceback in the log for it
            )
        try:
            decoded = decode_batches(batches.payload.data)
            groups = await asyncio.gather(*(self._host.commit_batch(batch) for batch in decoded))
            text = encode_outcomes(groups)
            if len(answer_ids) == 1:
                await self._keep_answers({answer_ids[0]: text.decode()})
            elif answer_ids:
                answers = {
                    answer_id: encode_outcomes([outcomes]).decode()
                    for answer_id, outcomes in zip(answer_ids, groups, strict=True)
                }
                await self._keep_answers(answers)
        except ApplicationError:
            raise
        except Exception as error:
            # Unknown errors are bugs: said once and final, never an endless retry.
            logger.exception("commit failed")
            raise InternalError(f"commit failed: {type(error).__name__}") from error
        return RawValue(Payload(metadata={"encoding": b"json/plain"}, data=text))

    async def _keep_answers(self, answers: dict[str, str]) -> None:
        now = now_milliseconds()

        async def unit(tx: Transaction) -> None:
            for answer_id, text in answers.items():
                await tx.add_answer(answer_id, text, now)

        await self._host.storage.write(unit)

    @activity.defn(name=STEP_ACTIVITY)
    async def step(self, step: StepMutation) -> StepReceipt:
        """Apply one mutation asked for by a user's workflow (state-and-sync 16.2).

        Idempotency: the key is the run id and the activity id, the same for every attempt and
        replay of the step, other for every other step.
        """
        info = activity.info()
        key = step.key or f"{info.workflow_run_id}/{info.activity_id}"
        try:
            kind = MutationKind(step.kind)
        except ValueError:
            raise InvalidRequestError(f"{step.kind!r} is no kind of mutation") from None
        check_key(key)
        to_json(step.value, what="the state")
        mutation = Mutation(key, kind, step.value, step.expected_version)
        batch = AgentBatch(agent_ref(step.agent, step.name), [mutation])
        [outcome] = await self._host.commit_batch(batch)
        if isinstance(outcome, AgentRuntimeError):
            raise outcome
        return StepReceipt(outcome.version, outcome.applied, outcome.duplicate)
