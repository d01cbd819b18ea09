"""What a session's own token counter is given (contract 9.2)."""

from __future__ import annotations

from agent_runtime.compaction.compact_context import TokenCountInput
from agent_runtime.json_value import Json
from agent_runtime.session.context_block import ContextBlock
from agent_runtime.session.maybe_await import maybe_await
from agent_runtime.session.session_setup import SessionParts


async def count_input(parts: SessionParts, leaf_id: str | None) -> TokenCountInput:
    """Return the visible history, the prompt's text and the blocks, which are loaded first."""
    blocks = await parts.blocks.get_context_blocks()
    return TokenCountInput(
        await maybe_await(parts.provider.get_history(leaf_id)),
        await parts.prompt.text_for_estimate(),
        [_block_json(block) for block in blocks],
    )


def _block_json(block: ContextBlock) -> dict[str, Json]:
    return {
        "label": block.label,
        "description": block.description,
        "content": block.content,
        "tokens": block.tokens,
        "maxTokens": block.max_tokens,
        "writable": block.is_writable,
        "isSkill": block.is_skill,
        "isSearchable": block.is_searchable,
    }
