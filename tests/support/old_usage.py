"""Calls of models as releases kept them that had no sums of days."""

from __future__ import annotations

from agent_runtime.storage.session_protocol import DayUsageRow

STEPS_BEFORE = 6

OLD_USAGE = [
    "INSERT INTO agents (class_name, name, created_at) VALUES ('Room', 'a', 1)",
    """INSERT INTO model_usage (agent_id, usage_key, session_id, purpose, model, input_tokens,
        output_tokens, cost, created_at)
    VALUES (1, 'a', 'chat', 'turn', 'm', 10, 1, 0.5, 0),
        (1, 'b', 'chat', 'turn', 'm', 20, 2, 0.25, 86399999),
        (1, 'c', 'chat', 'turn', 'm', 40, 4, 0.0, 86400000)""",
]

SUMMED = [
    DayUsageRow("chat", 0, "m", "turn", 2, 30, 3, 0.75),
    DayUsageRow("chat", 1, "m", "turn", 1, 40, 4, 0.0),
]
