"""Names of agents, and what becomes of them in URLs, workflow ids and files."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.errors import InvalidAgentError
from agent_runtime.identity import (
    AgentRef,
    agent_ref,
    file_stem,
    handlers_workflow_id,
    kebab_case,
    workflow_id,
)

HOSTILE_NAMES = [
    "../../evil",
    "/abs/path",
    "a/b",
    "CON",
    "room-1",
    "Room-1",
    "x" * 300,
    "ключ",
    "..",
    ".",
    " ",
    "a b",
    "a%20b",
    "C:\\x",
    "new\nline",
    "🦊" * 128,
]
MAX_ID_BYTES = 1_000
"""What the Temporal server takes as a workflow id."""

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
keys = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=200)


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_any_text_is_a_name(name: str) -> None:
    """Paths, reserved words and other scripts are names, taken literally."""
    assert agent_ref("Room", name) == AgentRef("Room", name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "at least one character"),
        ("\0", "NUL"),
        ("a\0b", "NUL"),
        ("\ud800", "surrogates"),
        ("x" * 513, "513 bytes"),
        ("ж" * 257, "514 bytes"),
        (None, "must be a text"),
        (7, "must be a text"),
    ],
)
def test_what_cannot_be_a_name_is_refused(name: object, reason: str) -> None:
    """Empty, unstorable and overlong names say what is wrong."""
    with pytest.raises(InvalidAgentError, match=reason):
        agent_ref("Room", name)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "class_name", ["", "1st", "a-b", "a/b", "a.b", "é", "x" * 101, "A\n", None, 3]
)
def test_what_cannot_be_a_class_name_is_refused(class_name: object) -> None:
    """Only Python class names in ASCII are class names."""
    with pytest.raises(InvalidAgentError, match="no agent class name"):
        agent_ref(class_name, "a")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("CounterAgent", "counter-agent"),
        ("counterAgent", "counter-agent"),
        ("counter-agent", "counter-agent"),
        ("LOUD_AGENT", "loud-agent"),
        ("TestOAuthAgent", "test-o-auth-agent"),
        ("AIAgent", "a-i-agent"),
        ("My_Agent", "my--agent"),
        ("Agent_", "agent"),
        ("ABC", "abc"),
        ("123", "123"),
        ("A", "a"),
        ("_A", "-a"),
        ("A1", "a1"),
    ],
)
def test_kebab_case(name: str, expected: str) -> None:
    """The URL form is the one that clients compute (state-and-sync 1.3)."""
    assert kebab_case(name) == expected


def test_file_stems_are_told_apart_without_case() -> None:
    """No two names share a file, on disks that ignore case too."""
    refs = [AgentRef("Room", name) for name in [*HOSTILE_NAMES, *map(str.upper, HOSTILE_NAMES)]]
    refs += [AgentRef("ROOM", "a"), AgentRef("Room", "a"), AgentRef("Rooma", "-")]
    distinct = set(refs)

    assert len({file_stem(ref).lower() for ref in distinct}) == len(distinct)


@given(names)
def test_file_stems_are_safe(name: str) -> None:
    """Whatever the name, the file's name is short, plain and no path."""
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]*-[0-9a-f]{24}", file_stem(AgentRef("Room", name)))
    assert len(file_stem(AgentRef("Room", name))) <= 65


def test_the_longest_names_fit_into_workflow_ids() -> None:
    """Every allowed class, name and key makes an id that the server takes."""
    ref = agent_ref("C" * 100, "🦊" * 128)
    for identity in (
        workflow_id("q" * 100, ref),
        handlers_workflow_id("q" * 100, ref),
    ):
        assert len(identity.encode()) <= MAX_ID_BYTES


def test_a_ref_is_shown_as_an_address() -> None:
    """Messages and listings show class and name."""
    assert str(AgentRef("Room", "a/b")) == "Room/a/b"
