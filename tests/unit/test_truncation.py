"""Shortening old messages and rows (sessions 22.1, 22.2, 22.4, 26.8; cases 222-227, R33, H14)."""

from __future__ import annotations

import copy
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.compaction.json_text import json_text
from agent_runtime.errors import MessageTooLargeError
from agent_runtime.json_value import to_json
from agent_runtime.session.row_guard import ROW_LIMIT_BYTES, enforce_row_size_limit
from agent_runtime.session.truncation import truncate_older_messages, truncate_tool_output
from tests.support.histories import Message, chat, finished_call, text_message
from tests.support.json_values import json_values


def _output(message: Message) -> Any:
    return message["parts"][0]["output"]


@pytest.mark.parametrize(
    ("limit", "output"),
    [
        (100, "x" * 74 + "... [truncated 1000 chars]"),
        (26, "... [truncated 1000 chars]"),
        (10, "... [trunc"),
    ],
)
def test_golden_texts_are_cut_to_the_character(limit: int, output: str) -> None:
    """A text and its note together are exactly as long as allowed."""
    truncated = truncate_tool_output("x" * 1_000, limit)

    assert (truncated.output, truncated.is_truncated, truncated.original_length) == (
        output,
        True,
        1_000,
    )


def test_golden_objects_become_markers() -> None:
    """Where no field is a text, an object becomes a marker, with a note if that fits."""
    fields = {f"k{number}": number for number in range(100)}
    roomy, tight = truncate_tool_output(fields, 200), truncate_tool_output(fields, 30)

    assert roomy.original_length == 881
    assert roomy.output.keys() == {"__truncated", "__truncatedChars", "note"}
    assert len(json_text(roomy.output)) <= 200
    assert tight.output == {"__truncated": True, "__truncatedChars": 881}


@pytest.mark.parametrize("value", [None, 123_456_789, True])
def test_golden_plain_values_stay(value: object) -> None:
    """Numbers, booleans and null are unchanged, yet told to be too long."""
    truncated = truncate_tool_output(value, 2)

    assert (truncated.output, truncated.is_truncated) == (value, True)


def test_golden_long_texts_of_messages() -> None:
    """A text of 10,001 characters gets a note behind its first 10,000."""
    messages = [text_message("m", "x" * 10_001), *chat(4)]
    (shortened, *_) = truncate_older_messages(messages)

    assert len(shortened["parts"][0]["text"]) == 10_027


def test_what_fits_is_returned_itself() -> None:
    """A short value is the same object."""
    value = {"a": [1, 2, 3]}
    truncated = truncate_tool_output(value, 100)

    assert truncated.output is value
    assert (truncated.is_truncated, truncated.original_length) == (False, 13)


def test_few_messages_are_returned_themselves() -> None:
    """Nothing older than the recent ones: the same list."""
    messages = chat(4)

    assert truncate_older_messages(messages) is messages


def test_messages_that_are_short_keep_their_identity() -> None:
    """Older messages with nothing to shorten, and all recent ones, are the same objects."""
    messages = [*chat(3), *(finished_call(f"t{n}", f"c{n}", "x" * 2_000) for n in range(4))]
    shortened = truncate_older_messages(messages)

    assert all(new is old for new, old in zip(shortened, messages, strict=True))
    assert truncate_older_messages(messages, keep_recent=0)[-1] is not messages[-1]


def test_s222_small_fields_of_an_old_output_stay() -> None:
    """The object stays an object; its long text is cut; the input is untouched."""
    output = {"path": "src/app.ts", "content": "x" * 1_000, "totalLines": 1}
    messages = [finished_call("t", "c", output), *chat(2)]
    before = copy.deepcopy(messages)
    shortened = _output(truncate_older_messages(messages, 2, 100)[0])

    assert (shortened["path"], shortened["totalLines"]) == ("src/app.ts", 1)
    assert "[truncated" in shortened["content"]
    assert len(shortened["content"]) < 1_000
    assert messages == before


def test_s223_arrays_that_do_not_fit_become_markers() -> None:
    """Of seven long arrays the first is a list with one marker."""
    output = {name: list(range(1_000)) for name in "abcdefg"}
    shortened = _output(
        truncate_older_messages([finished_call("t", "c", output), *chat(2)], 2, 500)[0]
    )

    assert len(shortened["a"]) == 1
    assert shortened["a"][0]["__truncated"] is True
    assert shortened["a"][0]["__truncatedChars"] == 3_891
    assert len(json_text(shortened)) <= 500


def test_s224_recent_outputs_are_untouched() -> None:
    """An output within the recent window is the very same object."""
    recent = finished_call("t", "c", "x" * 1_000)
    shortened = truncate_older_messages([*chat(3), recent], 2, 100)

    assert shortened[-1] is recent


def test_s225_texts_stay_texts() -> None:
    """A long text stays a text that says how long it was."""
    messages = [finished_call("t", "c", "x" * 1_000), *chat(2)]
    shortened = _output(truncate_older_messages(messages, 2, 100)[0])

    assert isinstance(shortened, str)
    assert "[truncated" in shortened


def test_s226_the_row_guard_shortens_a_long_field() -> None:
    """A field of two million characters is cut, the small ones are kept."""
    output = {"path": "src/app.ts", "content": "x" * 2_000_000, "totalLines": 1}
    guarded = enforce_row_size_limit(finished_call("t", "c", output))

    assert (_output(guarded)["path"], _output(guarded)["totalLines"]) == ("src/app.ts", 1)
    assert "[truncated" in _output(guarded)["content"]
    assert guarded["metadata"] == {"compactedToolOutputs": ["c"]}


def test_s227_the_row_guard_shortens_an_object_of_many_fields() -> None:
    """An object of 140,000 numbers becomes a marker that tells its length."""
    output = {f"field{number}": number for number in range(140_000)}
    guarded = enforce_row_size_limit(finished_call("t", "c", output))

    assert len(to_json(guarded)) <= ROW_LIMIT_BYTES
    assert _output(guarded)["__truncated"] is True
    assert _output(guarded)["__truncatedChars"] > 1_800_000


def test_h14_the_row_guard_of_each_kind() -> None:
    """A small message is the same object, outputs and texts of two million are shortened."""
    small = text_message("m", "hello")
    tool = enforce_row_size_limit(finished_call("t", "c", "x" * 2_000_000))
    text = enforce_row_size_limit(text_message("m", "y" * 2_000_000))

    assert enforce_row_size_limit(small) is small
    assert "[truncated" in _output(tool)
    assert text["parts"][0]["text"].startswith("[Text truncated for storage (2000000 chars).")
    assert text["parts"][0]["text"].count("y") == 500
    assert text["metadata"] == {"compactedTextParts": [0]}


def test_the_row_guard_cuts_no_more_texts_than_needed() -> None:
    """Texts are cut oldest first until the message fits; metadata is added to."""
    message: Message = {
        "id": "m",
        "role": "user",
        "parts": [{"type": "text", "text": letter * 700_000} for letter in "abc"],
        "metadata": {"origin": "mail"},
    }
    guarded = enforce_row_size_limit(message)

    assert [len(part["text"]) > 1_000 for part in guarded["parts"]] == [False, True, True]
    assert guarded["metadata"] == {"origin": "mail", "compactedTextParts": [0]}
    assert len(message["parts"][0]["text"]) == 700_000


def test_the_row_guard_counts_bytes() -> None:
    """Characters of several bytes count as many."""
    message = text_message("m", "用" * 700_000)

    assert "Text truncated" in enforce_row_size_limit(message)["parts"][0]["text"]


def test_the_row_guard_refuses_what_it_cannot_shorten() -> None:
    """An inline file that is too large by itself is an error that says what to do (F25)."""
    part = {"type": "file", "url": "data:image/png;base64," + "A" * 2_000_000}

    with pytest.raises(MessageTooLargeError, match="store their URL") as caught:
        enforce_row_size_limit({"id": "m", "role": "user", "parts": [part]})
    assert caught.value.details_map["limit_bytes"] == ROW_LIMIT_BYTES


def test_arrays_keep_the_longest_prefix_with_its_marker() -> None:
    """One item more would not fit."""
    output = truncate_tool_output(list(range(1_000)), 200).output
    kept = len(output) - 1

    assert output == [*range(kept), {"__truncated": True, "__truncatedChars": 3_891}]
    assert len(json_text(output)) <= 200 < len(json_text([*range(kept + 1), output[-1]]))


def test_notes_tell_the_original_length() -> None:
    """A text that is shortened twice tells its first length (F26c)."""
    output = truncate_tool_output({"a": "x" * 5_000, "b": "y" * 4_000}, 100).output

    assert output == {
        "a": "... [truncated 5000 chars]"[:25],
        "b": "... [truncated 4000 chars]"[:25],
    }


def test_deep_values_end_in_a_line_of_text() -> None:
    """Containers of more than eight levels are replaced by a line that says so."""
    value: Any = "x" * 9_000
    for _ in range(50):
        value = [value, 1]
    output = truncate_tool_output(value, 6_000).output

    for _ in range(8):
        assert isinstance(output, list)
        output = output[0]
    assert isinstance(output, str)
    assert output.startswith("[nested deeper than 8 levels]... [truncated")


@given(json_values | st.lists(json_values), st.integers(1, 400))
def test_any_value_is_shortened_to_its_budget(value: Any, limit: int) -> None:
    """The result fits the budget or is the smallest marker; kinds and short values stay."""
    truncated = truncate_tool_output(value, limit)
    size = len(truncated.output if isinstance(truncated.output, str) else json_text(value))
    smallest = len('[{"__truncated":true,"__truncatedChars":100000}]')

    assert truncated.original_length == (
        len(value) if isinstance(value, str) else len(json_text(value))
    )
    assert type(truncated.output) is type(value)
    if not truncated.is_truncated:
        assert truncated.output is value and size <= limit
    elif isinstance(value, str):
        assert size == limit
    elif isinstance(value, (list, dict)):
        assert len(json_text(truncated.output)) <= max(limit, smallest)


@pytest.mark.parametrize(
    "value",
    [
        list(range(100_000)),
        {f"field{number}": "x" * 30 for number in range(10_000)},
        {f"field{number}": [number, "y" * 90] for number in range(10_000)},
        [{"a": "b" * 200, "c": list(range(20))}] * 20_000,
    ],
)
@pytest.mark.parametrize("limit", [500, 100_000])
def test_r33_large_values_are_shortened_in_linear_time(value: Any, limit: int) -> None:
    """Arrays and objects of many items take a second at the most."""
    started = time.process_time()
    output = truncate_tool_output(value, limit).output

    assert time.process_time() - started < 3
    assert len(json_text(output)) <= limit
