"""Trees of messages as they are drawn."""

from __future__ import annotations

import io

from rich.console import Console

from agent_runtime.commands.session_tree import draw_tree
from agent_runtime.session.message import text_message
from agent_runtime.session.session_provider import Compaction
from agent_runtime.session.tree_node import TreeNode


def node(seq: int, parent_seq: int | None, text: str = "") -> TreeNode:
    """Return a message that is named after its number."""
    message = text_message("user", text, id=f"m{seq}")
    return TreeNode(seq, parent_seq, f"m{seq}", "user", 0, 10, 5, "then", message)


def drawn(nodes: list[TreeNode], head: str | None, *summaries: Compaction) -> list[str]:
    """Return the drawing's lines, without sizes and the line of totals."""
    output = io.StringIO()
    Console(file=output, width=200, color_system=None).print(draw_tree("t", nodes, summaries, head))
    return [
        line.replace("  user  5 tokens  10 bytes", "").rstrip()
        for line in output.getvalue().splitlines()
    ][1:-1]


def test_the_path_to_the_head_goes_straight_down() -> None:
    """Later branches hang beside it if the head is on an older one."""
    lines = drawn([node(1, None), node(2, 1), node(3, 1), node(4, 2)], "m4")

    assert lines == [
        "├── m1",
        "│   └── branch 1",
        "│       └── m3",
        "├── m2",
        "├── m4  <- head",
    ]


def test_several_roots_stand_side_by_side() -> None:
    """In the order they came."""
    assert drawn([node(1, None), node(2, None)], "m2") == ["├── m1", "├── m2  <- head"]


def test_a_summary_stands_before_its_range() -> None:
    """The newest one that begins there."""
    older = Compaction("a", "old", "m1", "m1", "then")
    newer = Compaction("b", "new", "m1", "m2", "then")

    lines = drawn([node(1, None), node(2, 1)], "m2", older, newer)

    assert lines == ["├── summary of m1 to m2  6 tokens  new", "├── m1", "├── m2  <- head"]


def test_a_long_conversation_is_drawn_without_depth() -> None:
    """Thousands of messages, each answered again, stay near the left edge."""
    nodes = [node(1, None)]
    for seq in range(2, 6001, 2):
        nodes += [node(seq, seq - 1), node(seq + 1, seq - 1)]

    lines = drawn(nodes, "m6001")

    assert len(lines) == 6001 + 3000
    assert max(map(len, lines)) < 40


def test_text_is_cut_and_cannot_steer() -> None:
    """Control characters are spelt out, markup is text."""
    [line] = drawn([node(1, None, "[bold]\x1b[2J\n" + "x" * 100)], None)

    assert line.startswith("├── m1  [bold]\\x1b[2J x")
    assert line.endswith("…")
