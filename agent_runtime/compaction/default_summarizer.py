"""Who writes summaries where nobody was named."""

from __future__ import annotations

import logging

from agent_runtime.compaction.extractive import ExtractiveSummarizer
from agent_runtime.compaction.model_summarizer import ModelSummarizer
from agent_runtime.compaction.summarizer import Summarizer
from agent_runtime.llm.open_models import process_models

logger = logging.getLogger("agent_runtime")

_extractive = ExtractiveSummarizer()
_told: set[str] = set()


def default_summarizer() -> Summarizer:
    """Return the process's model as summarizer, or the extractive one if no model is configured.

    Which of them is said in the log, once for each.
    """
    opened = process_models.get_default()
    if opened is None:
        _tell(
            "",
            "no model is configured (AGENT_RUNTIME_MODEL): summaries are extracts of what was said",
        )
        return _extractive
    _tell(opened.model.name, f"summaries are written by model {opened.model.name}")
    return ModelSummarizer(opened.model, opened.config)


def _tell(choice: str, text: str) -> None:
    if choice not in _told:
        _told.add(choice)
        logger.info("%s", text)
