"""What users need to test agents, the models they ask and the storages that keep them."""

from __future__ import annotations

from agent_runtime.testing.model_script import Answer, RawAnswer, Refusal, ScriptStep, Silence
from agent_runtime.testing.scripted_model import ScriptedAnswer, ScriptedModel
from agent_runtime.testing.scripted_model_server import ReceivedRequest, ScriptedModelServer

__all__ = [
    "Answer",
    "RawAnswer",
    "ReceivedRequest",
    "Refusal",
    "ScriptStep",
    "ScriptedAnswer",
    "ScriptedModel",
    "ScriptedModelServer",
    "Silence",
]
