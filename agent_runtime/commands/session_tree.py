"""A session's tree of messages, drawn for people.

The path to the head goes straight down; what branches off it hangs below the message that it
branches off from. So answers that were made again do not push the rest to the right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from rich.text import Text
from rich.tree import Tree

from agent_runtime.commands.output import printable
from agent_runtime.compaction.token_estimate import TOKENS_PER_MESSAGE, estimate_string_tokens
from agent_runtime.session.message import message_text
from agent_runtime.session.session_provider import Compaction
from agent_runtime.session.tree_node import TreeNode

_TEXT_LIMIT = 60


def draw_tree(
    title: str, nodes: Sequence[TreeNode], summaries: Sequence[Compaction], head: str | None
) -> Tree:
    """Return the drawing.

    Args:
        nodes: In the order they came in.
        summaries: Oldest first; the newest of those that begin at a message is shown there.
        head: Id of the latest leaf.
    """
    tree = Tree(Text(printable(title)))
    children: defaultdict[int | None, list[TreeNode]] = defaultdict(list)
    known = {node.seq for node in nodes}
    for each in nodes:
        children[each.parent_seq if each.parent_seq in known else None].append(each)
    newest = {one.from_message_id: one for one in summaries}
    active = _path_to(head, nodes)
    # Chains that are yet to be drawn: where, and their first message.
    waiting: list[tuple[Tree, TreeNode]] = []
    for root in reversed(children[None]):
        waiting.append((tree, root))
    while waiting:
        place, first = waiting.pop()
        branches: list[tuple[Tree, TreeNode]] = []
        node: TreeNode | None = first
        while node is not None:
            if node.id in newest:
                place.add(_summary_label(newest[node.id]))
            label = place.add(_label(node, is_head=node.id == head))
            following = children[node.seq]
            main = _main_child(following, active)
            for number, child in enumerate(one for one in following if one is not main):
                branches.append((label.add(Text(f"branch {number + 1}", "cyan")), child))
            node = main
        waiting += reversed(branches)
    tree.add(Text(_total(nodes, active, summaries), "dim"))
    return tree


def _path_to(head: str | None, nodes: Sequence[TreeNode]) -> Mapping[int, TreeNode]:
    by_seq = {node.seq: node for node in nodes}
    node = next((each for each in nodes if each.id == head), None)
    path: dict[int, TreeNode] = {}
    while node is not None:
        path[node.seq] = node
        node = by_seq.get(node.parent_seq) if node.parent_seq is not None else None
    return path


def _main_child(following: Sequence[TreeNode], active: Mapping[int, TreeNode]) -> TreeNode | None:
    for child in following:
        if child.seq in active:
            return child
    return following[-1] if following else None


def _label(node: TreeNode, *, is_head: bool) -> Text:
    text = Text(printable(node.id), "bold")
    text.append(f"  {printable(node.role)}  {node.tokens} tokens  {node.bytes} bytes", "dim")
    shown = "" if node.message is None else _short(message_text(node.message))
    if shown:
        text.append(f"  {shown}")
    if is_head:
        text.append("  <- head", "green")
    return text


def _summary_label(summary: Compaction) -> Text:
    tokens = TOKENS_PER_MESSAGE + estimate_string_tokens(summary.summary)
    text = Text("summary", "yellow")
    ends = f"{printable(summary.from_message_id)} to {printable(summary.to_message_id)}"
    text.append(f" of {ends}  {tokens} tokens", "dim")
    text.append(f"  {_short(summary.summary)}")
    return text


def _total(
    nodes: Sequence[TreeNode], active: Mapping[int, TreeNode], summaries: Sequence[Compaction]
) -> str:
    tokens = sum(node.tokens for node in active.values())
    return (
        f"{len(nodes)} messages, {len(active)} of them with {tokens} tokens on the path to the "
        f"head; {len(summaries)} summaries"
    )


def _short(text: str) -> str:
    line = printable(" ".join(text.split()))
    return line if len(line) <= _TEXT_LIMIT else f"{line[: _TEXT_LIMIT - 1]}…"
