"""What asking a model came to, as it is kept in a handler's journal."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from agent_runtime.errors import AgentRuntimeError, from_record
from agent_runtime.json_value import Json
from agent_runtime.llm.chat_model import ChatResponse, SignedReasoning, ToolCall, Usage


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """An answer or, after all attempts, the last error; and what all attempts cost."""

    outcome: ChatResponse | AgentRuntimeError
    usage: Usage
    cost: float

    def to_record(self) -> Json:
        """Return it as JSON."""
        if isinstance(self.outcome, AgentRuntimeError):
            outcome = {"error": self.outcome.to_record()}
        else:
            outcome = {"response": asdict(self.outcome)}
        return {**outcome, "usage": asdict(self.usage), "cost": self.cost}


def answer_of(record: Json) -> ModelAnswer:
    """Read what `to_record` wrote."""
    usage, cost = Usage(**record["usage"]), record["cost"]
    if "error" in record:
        return ModelAnswer(from_record(record["error"]), usage, cost)
    fields = record["response"]
    calls = tuple(ToolCall(**call) for call in fields["tool_calls"])
    thoughts = tuple(SignedReasoning(**each) for each in fields.get("signed_reasoning", ()))
    typed = {"tool_calls": calls, "usage": Usage(**fields["usage"]), "signed_reasoning": thoughts}
    response = ChatResponse(**{**fields, **typed})
    return ModelAnswer(response, usage, cost)
