"""Which agent a URL means (state-and-sync 1, 2)."""

from __future__ import annotations

from dataclasses import dataclass

from agent_runtime.errors import InvalidAgentError
from agent_runtime.identity import AgentRef, agent_ref, kebab_case
from agent_runtime.registry import AgentDefinition, AgentRegistry


@dataclass(frozen=True, slots=True)
class Route:
    """A matched URL; `definition` is None for an unknown class or an impossible name."""

    definition: AgentDefinition | None
    ref: AgentRef | None


class Router:
    """Matches `/{prefix}/{agent}/{name}` and all below it.

    Args:
        prefix: One or more path segments.
    """

    def __init__(self, registry: AgentRegistry, prefix: str = "agents") -> None:
        self._prefix = [segment for segment in prefix.split("/") if segment]
        self._by_segment = {kebab_case(one.class_name): one for one in registry}

    def match(self, raw_path: str) -> Route | None:
        """Return the route of a path that is not decoded; None if it is none of ours.

        Empty segments do not count; the name is taken as it stands.
        """
        segments = [segment for segment in raw_path.split("/") if segment]
        count = len(self._prefix)
        if segments[:count] != self._prefix or len(segments) < count + 2:
            return None
        definition = self._by_segment.get(segments[count])
        if definition is None:
            return Route(None, None)
        try:
            return Route(definition, agent_ref(definition.class_name, segments[count + 1]))
        except InvalidAgentError:
            return Route(None, None)
