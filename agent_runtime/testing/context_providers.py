"""Context providers that keep their content in memory."""

from __future__ import annotations

from collections.abc import Mapping

from agent_runtime.session.context_provider import StoredPrompt


class InMemoryContextProvider:
    """A writable text; also a prompt store.

    Args:
        content: What it holds at first.
    """

    def __init__(self, content: str | None = None) -> None:
        self.content = content

    async def get(self) -> str | None:
        """Return the content."""
        return self.content

    async def set(self, content: str) -> None:
        """Replace the content."""
        self.content = content

    async def compare_and_set(self, expected: str | None, content: str) -> bool:
        """Replace the content if it is still the expected one."""
        if self.content != expected:
            return False
        self.content = content
        return True


class InMemoryPromptStore:
    """A prompt store that keeps the fingerprint of the configuration too."""

    def __init__(self, prompt: StoredPrompt | None = None) -> None:
        self.prompt = prompt

    async def get_prompt(self) -> StoredPrompt | None:
        """Return the stored prompt."""
        return self.prompt

    async def set_prompt(self, prompt: StoredPrompt) -> None:
        """Replace the stored prompt."""
        self.prompt = prompt


class InMemorySkillProvider:
    """A skill collection.

    Args:
        skills: By key the document and its description, None for none.
    """

    def __init__(self, skills: Mapping[str, tuple[str, str | None]] | None = None) -> None:
        self.skills = dict(skills or {})

    async def get(self) -> str | None:
        """Return the list of documents, a line each."""
        lines = [
            f"- {key}: {description}" if description else f"- {key}"
            for key, (_, description) in self.skills.items()
        ]
        return "\n".join(lines) or None

    async def load(self, key: str) -> str | None:
        """Return a document."""
        return self.skills[key][0] if key in self.skills else None

    async def set(self, key: str, content: str, description: str | None = None) -> None:
        """Store a document."""
        self.skills[key] = (content, description)


class InMemorySearchProvider:
    """A searchable collection: entries are found that hold every word of a query.

    Args:
        entries: By key the text.
    """

    def __init__(self, entries: Mapping[str, str] | None = None) -> None:
        self.entries = dict(entries or {})

    async def get(self) -> str | None:
        """Return how many entries there are, None for none."""
        return f"{len(self.entries)} entries indexed." if self.entries else None

    async def search(self, query: str) -> str | None:
        """Return the entries found, None for none."""
        words = query.lower().split()
        found = [
            f"[{key}]\n{content}"
            for key, content in self.entries.items()
            if words and all(word in content.lower() for word in words)
        ]
        return "\n\n".join(found) or None

    async def set(self, key: str, content: str) -> None:
        """Store an entry."""
        self.entries[key] = content
