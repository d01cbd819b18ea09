"""Session ids as segments of paths."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.errors import InvalidRequestError, NotSerializableError
from agent_runtime.session.session_segment import path_segment, session_id_of, session_segment

IDS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=120)


@given(IDS)
def test_every_id_comes_back_from_its_segment(session_id: str) -> None:
    """The default one too, and those that look like its spelling."""
    assert session_id_of(unquote(session_segment(session_id))) == session_id


@given(IDS, IDS)
def test_two_ids_never_share_a_segment(one: str, other: str) -> None:
    """None means two sessions."""
    assert (session_segment(one) == session_segment(other)) == (one == other)


@given(IDS)
def test_a_segment_stays_one(text: str) -> None:
    """No slash, no query, no way up; only an empty text makes an empty one."""
    segment = path_segment(text)

    assert not set("/?#") & set(segment)
    assert segment not in (".", "..")
    assert unquote(segment) == text


@pytest.mark.parametrize(
    "segment", ["", "~", "~x", "~defaults", "a\0", "ü" * 257, "~~" + "x" * 512]
)
def test_other_segments_are_refused(segment: str) -> None:
    """Empty, a lone tilde, a NUL, more than 512 bytes."""
    with pytest.raises(InvalidRequestError):
        session_id_of(segment)


def test_half_a_character_and_what_is_no_text_have_no_segment() -> None:
    """Typed errors, as the storage's own."""
    with pytest.raises(NotSerializableError):
        path_segment("a\ud83d")
    with pytest.raises(InvalidRequestError):
        session_segment(5)  # type: ignore[arg-type]
