"""Keys of entries: the golden values, and that different titles get different keys."""

from __future__ import annotations

import string

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from agent_runtime.session.entry_key import entry_key

titles = st.text(min_size=1).filter(lambda title: bool(title.strip()))


@pytest.mark.parametrize(
    ("content", "title", "key"),
    [
        ("Talk like a pirate", "Pirate style", "pirate-style"),
        ("no key", None, "no-key-1nprufp"),
        ("用户喜欢咖啡", None, "entry-2mzjev"),
        ("anything", "用户", "entry-1in002o"),
        ("z", "  ", "z-1yrlrxp"),
        ("q", None, "q-1vpq5b0"),
        ("x", None, "x-1y7mkjr"),
        ("", None, "entry-ztntfp"),
        ("😀 hi", None, "hi-yqqsyz"),
        ("just content, no desc", None, "just-content-no-desc-wob9yi"),
    ],
)
def test_golden_entry_keys(content: str, title: str | None, key: str) -> None:
    """As given in 26.2."""
    assert entry_key(content, title) == key


def test_golden_entry_key_of_a_long_title() -> None:
    """Cut to 60 characters, it gets a hash, as other titles may begin like it."""
    key = entry_key("anything", "A" * 59 + " b c")

    assert key.startswith("a" * 59 + "-")
    assert key != "a" * 59
    assert key != entry_key("anything", "A" * 59 + " b d")


def test_r21_titles_that_differ_in_signs_only() -> None:
    """`C` and `C++` are two entries, and a plain title keeps its slug."""
    assert entry_key("", "C") == "c"
    assert entry_key("", "C++").startswith("c-")
    assert entry_key("", "Pirate style") == "pirate-style"


@given(title=titles, one=st.text(), other=st.text())
def test_the_same_title_is_the_same_key(title: str, one: str, other: str) -> None:
    """Whatever is written under it."""
    assert entry_key(one, title) == entry_key(other, title)


@given(content=st.text(), title=st.none() | st.text())
def test_a_key_is_a_plain_name(content: str, title: str | None) -> None:
    """It is never empty, and made of a few characters that no store treats in its own way."""
    key = entry_key(content, title)

    assert 0 < len(key) <= 68
    assert set(key) <= set(string.ascii_lowercase + string.digits + "-")
    assert key.strip("-") == key


@given(one=titles, other=titles)
def test_lossy_titles_do_not_share_a_key(one: str, other: str) -> None:
    """Two titles share one only if they differ in case, spaces and hyphens."""
    plain = set(string.ascii_letters + string.digits + " -")
    assume(one != other and not set(one) <= plain)

    assert entry_key("", one) != entry_key("", other)


def test_half_a_surrogate_pair_has_a_key() -> None:
    """Models write broken text now and then."""
    assert entry_key("a\ud800b").startswith("a-b-")
    assert entry_key("", "x" * 59 + "😀").startswith("x" * 59 + "-")
