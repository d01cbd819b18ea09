"""The tools by which a model reads and writes its context (contract 14)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from agent_runtime.errors import ContextBlockError
from agent_runtime.json_value import Json
from agent_runtime.session.context_block import ContextBlock
from agent_runtime.session.context_blocks import ContextBlocks
from agent_runtime.session.entry_key import entry_key
from agent_runtime.session.prompt_text import one_line, usage_percent
from agent_runtime.session.session_provider import SearchHit
from agent_runtime.session.skill_parts import LOAD_TOOL, UNLOAD_TOOL, not_found_text
from agent_runtime.session.skills import LoadedSkills
from agent_runtime.session.tool import Tool

NO_RESULTS = "No results found."
SESSION_SEARCH_LIMIT = 10


async def session_tools(blocks: ContextBlocks, skills: LoadedSkills) -> dict[str, Tool]:
    """Return the tools that a session's blocks call for, by name; none for read-only blocks.

    The labels a model may choose from are those of now; what it then asks for is looked up as it is
    at that time.
    """
    present = await blocks.get_context_blocks()
    tools: list[Tool] = []
    writable = [block for block in present if block.is_writable]
    skill_labels = [block.label for block in present if block.is_skill]
    search_labels = [block.label for block in present if block.is_searchable]
    if writable:
        tools.append(_set_context(blocks, writable))
    if skill_labels:
        tools.append(_load_context(blocks, skills, skill_labels))
        tools.append(_unload_context(blocks, skills, skill_labels))
    if search_labels:
        tools.append(_search_context(blocks, search_labels))
    return {tool.name: tool for tool in tools}


def session_search_tool(
    search: Callable[[str, int], Awaitable[Sequence[SearchHit]]],
) -> Tool:
    """Return the tool that searches all conversations.

    Args:
        search: Given the query and a limit, returns the hits, best first.
    """

    async def run(arguments: Mapping[str, Json]) -> str:
        hits = await search(_text_of(arguments, "query"), SESSION_SEARCH_LIMIT)
        return hits_text(hits) or NO_RESULTS

    return Tool(
        name="session_search",
        description="Search the messages of all conversations for words.",
        parameters=_parameters(query=_text("The words that a message must all contain.")),
        run=run,
    )


def hits_text(hits: Iterable[SearchHit]) -> str | None:
    """Return what a search found as a model reads it, None for nothing."""
    return "\n---\n".join(f"[{hit.role}] {hit.content}" for hit in hits) or None


def _set_context(blocks: ContextBlocks, writable: Sequence[ContextBlock]) -> Tool:
    keyed = [block.label for block in writable if block.is_keyed]
    properties = {
        "label": _choice([block.label for block in writable], "The block to write to."),
        "content": _text("What to write."),
        "action": _choice(
            ["replace", "append"],
            "For blocks of plain text: put the content in place of the old one (replace, if not "
            "given) or add it at the end (append).",
        ),
    }
    if keyed:
        properties["metadata"] = {
            "type": "object",
            "description": f"For entries of the keyed blocks {_quoted(keyed)}.",
            "properties": {
                "title": _text("Names the entry; the same title updates the same entry."),
                "description": _text("Says in one line what the entry is about."),
            },
        }

    async def run(arguments: Mapping[str, Json]) -> str:
        block = await _block_of(blocks, arguments)
        if block is None:
            raise ContextBlockError(f'block "{arguments.get("label")}" not found')
        content = _text_of(arguments, "content")
        if block.is_keyed:
            return await _write_entry(blocks, block, content, arguments.get("metadata"))
        if arguments.get("action") == "append":
            return _usage(await blocks.append_context_block(block.label, content))
        return _usage(await blocks.replace_context_block(block.label, content))

    return Tool(
        name="set_context",
        description=_set_context_description(writable, has_keyed=bool(keyed)),
        parameters=_parameters(("label", "content"), **properties),
        run=run,
    )


def _set_context_description(writable: Sequence[ContextBlock], *, has_keyed: bool) -> str:
    lines = ["Write to a block of your context. The blocks you may write to:"]
    for block in writable:
        kind = "writable"
        if block.is_skill:
            kind = "skill collection, keyed entries"
        elif block.is_searchable:
            kind = "searchable, keyed entries"
        description = one_line(block.description or "no description")
        lines.append(f'- "{one_line(block.label)}" ({kind}): {description}')
    if has_keyed:
        lines.append(
            "Give an entry of a keyed block a name by metadata: { title, description }. "
            "Writing the same title again updates the entry."
        )
    return "\n".join(lines)


async def _write_entry(
    blocks: ContextBlocks, block: ContextBlock, content: str, metadata: Json
) -> str:
    title = _optional_text(metadata, "title")
    key = entry_key(content, title)
    if block.is_skill:
        description = _optional_text(metadata, "description") or title or None
        await blocks.set_skill(block.label, key, content, description)
    else:
        await blocks.set_search_entry(block.label, key, content)
    return f'Indexed "{key}" in {block.label}.'


def _usage(block: ContextBlock) -> str:
    if block.max_tokens:
        percent = usage_percent(block.tokens, block.max_tokens)
        usage = f"{percent}% ({block.tokens}/{block.max_tokens} tokens)"
    else:
        usage = f"{block.tokens} tokens"
    return f"Written to {block.label}. Usage: {usage}"


def _load_context(blocks: ContextBlocks, skills: LoadedSkills, labels: Sequence[str]) -> Tool:
    async def run(arguments: Mapping[str, Json]) -> str:
        label = await _skill_label(blocks, arguments)
        key = _text_of(arguments, "key")
        text = await blocks.load_skill(label, key)
        if text is None:
            return not_found_text(key)
        skills.mark_loaded(label, key)
        return text

    return Tool(
        name=LOAD_TOOL,
        description=(
            f"Load a document of {_quoted(labels)} into the conversation by its key. The keys are "
            "listed in the system prompt. Unload it when it is no longer needed."
        ),
        parameters=_skill_parameters(labels),
        run=run,
    )


def _unload_context(blocks: ContextBlocks, skills: LoadedSkills, labels: Sequence[str]) -> Tool:
    async def run(arguments: Mapping[str, Json]) -> str:
        label = await _skill_label(blocks, arguments)
        key = _text_of(arguments, "key")
        if not await skills.unload_skill(label, key):
            return f'Skill "{key}" is not currently loaded in "{label}".'
        return f'Unloaded "{key}" from {label}. Context reclaimed.'

    loaded = ", ".join(skills.list_loaded())
    return Tool(
        name=UNLOAD_TOOL,
        description=(
            "Take a loaded document out of the conversation, to make room; it can be loaded again. "
            + (f"Currently loaded: {loaded}." if loaded else "Currently none is loaded.")
        ),
        parameters=_skill_parameters(labels),
        run=run,
    )


def _search_context(blocks: ContextBlocks, labels: Sequence[str]) -> Tool:
    async def run(arguments: Mapping[str, Json]) -> str:
        block = await _block_of(blocks, arguments)
        if block is None or not block.is_searchable:
            present = await blocks.get_context_blocks()
            searchable = ", ".join(block.label for block in present if block.is_searchable)
            raise ContextBlockError(
                f'"{arguments.get("label")}" is not searchable. Searchable blocks: {searchable}'
            )
        found = await blocks.search_block(block.label, _text_of(arguments, "query"))
        return NO_RESULTS if found is None else found

    return Tool(
        name="search_context",
        description=(
            f"Search the entries of {_quoted(labels)} for words. No other block can be searched."
        ),
        parameters=_parameters(
            label=_choice(labels, "The block to search."),
            query=_text("The words that an entry must all contain."),
        ),
        run=run,
    )


async def _block_of(blocks: ContextBlocks, arguments: Mapping[str, Json]) -> ContextBlock | None:
    label = arguments.get("label")
    return await blocks.get_context_block(label) if isinstance(label, str) else None


async def _skill_label(blocks: ContextBlocks, arguments: Mapping[str, Json]) -> str:
    block = await _block_of(blocks, arguments)
    if block is not None and block.is_skill:
        return block.label
    present = await blocks.get_context_blocks()
    skills = ", ".join(block.label for block in present if block.is_skill)
    raise ContextBlockError(
        f'"{arguments.get("label")}" is not a skill block. Skill blocks: {skills}'
    )


def _text_of(arguments: Mapping[str, Json], name: str) -> str:
    value = arguments.get(name)
    if not isinstance(value, str):
        raise ContextBlockError(f"{name} must be a text")
    return value


def _skill_parameters(labels: Sequence[str]) -> dict[str, Json]:
    return _parameters(
        label=_choice(labels, "The block that holds the document."),
        key=_text("The document's key."),
    )


def _parameters(required: Sequence[str] | None = None, **properties: Json) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties if required is None else required),
    }


def _choice(values: Sequence[str], description: str) -> dict[str, Json]:
    return {"type": "string", "enum": list(values), "description": description}


def _text(description: str) -> dict[str, Json]:
    return {"type": "string", "description": description}


def _optional_text(metadata: Json, field: str) -> str | None:
    value = metadata.get(field) if isinstance(metadata, Mapping) else None
    return value if isinstance(value, str) else None


def _quoted(labels: Iterable[str]) -> str:
    return ", ".join(f'"{label}"' for label in labels)
