"""Lists of ids: one text is not taken for its letters."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from agent_runtime.errors import InvalidRequestError
from agent_runtime.session.id_list import id_list


@pytest.mark.parametrize("ids", [["a", "b"], ("a", "b"), {"a": 1, "b": 2}.keys()])
def test_any_collection_of_ids_will_do(ids: Iterable[str]) -> None:
    """They keep their order."""
    assert id_list(ids, "ids") == ["a", "b"]


def test_a_text_is_refused() -> None:
    """The error says what to write."""
    with pytest.raises(InvalidRequestError, match=r"write \['m3'\]"):
        id_list("m3", "message_ids")


def test_what_is_no_text_is_refused() -> None:
    """Nothing is left out silently."""
    with pytest.raises(InvalidRequestError, match="each a text"):
        id_list(["a", 1], "message_ids")  # type: ignore[list-item]
