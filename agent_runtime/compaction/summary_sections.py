"""The four sections of a summary as lists of lines: read out of a text and written again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from agent_runtime.compaction.sentences import clipped
from agent_runtime.compaction.summary_prompt import SUMMARY_SECTIONS

NOTHING = "(none)"

_BULLETS = "-*•"
_SHORTEST_CUT = 40


@dataclass
class SummarySections:
    """Lines of each section, without bullets."""

    topic: list[str] = field(default_factory=list)
    key_points: list[str] = field(default_factory=list)
    current_state: list[str] = field(default_factory=list)
    open_items: list[str] = field(default_factory=list)

    def by_heading(self) -> Mapping[str, list[str]]:
        """Return the sections under their headings, in order."""
        lists = (self.topic, self.key_points, self.current_state, self.open_items)
        return dict(zip(SUMMARY_SECTIONS, lists, strict=True))

    def render(self) -> str:
        """Return the summary's text; an empty section says so."""
        return "\n\n".join(
            f"## {heading}\n" + "\n".join(f"- {line}" for line in lines or [NOTHING])
            for heading, lines in self.by_heading().items()
        )


def read_sections(summaries: Iterable[str]) -> SummarySections:
    """Read summaries by anybody, in order; what stands under no known heading is a key point."""
    sections = SummarySections()
    by_heading = sections.by_heading()
    for summary in summaries:
        current = sections.key_points
        for line in summary.splitlines():
            if line.startswith("#"):
                current = by_heading.get(line.strip("# \t:"), sections.key_points)
                continue
            content = clipped(line.strip().lstrip(_BULLETS))
            if content and content != NOTHING and content not in current:
                current.append(content)
    return sections


def lines_within(lines: Sequence[str], budget: float, cost: Callable[[str], float]) -> list[str]:
    """Return the first lines that fit a budget; the last of them may be cut, one there always is.

    Blank lines and repetitions are left out.
    """
    kept: list[str] = []
    for line in dict.fromkeys(filter(str.strip, lines)):
        while cost(line) > budget and len(line) > _SHORTEST_CUT:
            line = clipped(line, max(_SHORTEST_CUT, len(line) * 9 // 10))
        if cost(line) > budget and kept:
            break
        kept.append(line)
        budget -= cost(line)
    return kept
