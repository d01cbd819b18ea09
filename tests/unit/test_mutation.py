"""Mutations and outcomes as they travel: nothing is lost, and nothing else is taken for one."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_runtime.errors import (
    AgentRuntimeError,
    ConflictError,
    InvalidRequestError,
    NotSerializableError,
    StateRejectedError,
    VersionConflictError,
)
from agent_runtime.identity import AgentRef
from agent_runtime.json_value import MAX_DEPTH
from agent_runtime.mutation import (
    AgentBatch,
    Mutation,
    MutationKind,
    Outcome,
    Receipt,
    decode_batches,
    decode_outcomes,
    encode_batch,
    encode_mutation,
    encode_outcomes,
)
from tests.support.json_values import json_values, texts

ROOM = AgentRef("Room", "a")
keys = st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1, max_size=20)
versions = st.integers(0, 2**53)
mutations = st.builds(
    Mutation, keys, st.sampled_from(["set", "merge"]).map(MutationKind), json_values,
    st.none() | versions, st.just("server") | texts,
) | st.builds(Mutation, keys, st.sampled_from(["reset", "init"]).map(MutationKind))  # fmt: skip
receipts = st.builds(Receipt, versions, st.booleans(), st.booleans())
refusals = st.sampled_from(
    [StateRejectedError("no"), VersionConflictError("late", expected=1, actual=2)]
)


def _same(first: Outcome, second: Outcome) -> bool:
    if isinstance(first, AgentRuntimeError) and isinstance(second, AgentRuntimeError):
        return first.to_record() == second.to_record() and type(first) is type(second)
    return first == second


@given(st.lists(mutations, max_size=5), texts.filter(lambda name: name and "\0" not in name))
def test_batches_travel(sent: list[Mutation], name: str) -> None:
    """What is decoded is what was encoded, in order."""
    ref = AgentRef("Room", name)

    received = decode_batches(encode_batch(ref, [encode_mutation(one) for one in sent]))

    assert received == [AgentBatch(ref, sent)]


@given(st.lists(mutations, max_size=3))
def test_fingerprints_survive_travelling(sent: list[Mutation]) -> None:
    """A repeat is recognised after its way through JSON."""
    [batch] = decode_batches(encode_batch(ROOM, [encode_mutation(one) for one in sent]))

    assert [m.fingerprint() for m in batch.mutations] == [m.fingerprint() for m in sent]


@given(st.lists(st.lists(receipts | refusals, max_size=6), max_size=3))
def test_outcomes_travel(sent: list[list[Outcome]]) -> None:
    """Each group's outcomes come back in order, receipts and typed errors alike."""
    received = decode_outcomes(encode_outcomes(sent))

    assert [len(group) for group in received] == [len(group) for group in sent]
    for got, given_ in zip(received, sent, strict=True):
        assert all(map(_same, got, given_))


@pytest.mark.parametrize(
    "change",
    [
        {"kind": MutationKind.MERGE},
        {"value": {"n": 2}},
        {"expected_version": 4},
        {"value": {"n": True}},
    ],
)
def test_a_fingerprint_covers_kind_value_and_version(change: dict[str, Any]) -> None:
    """Another payload under the same key is another mutation."""
    fields: dict[str, Any] = {"key": "k", "kind": MutationKind.SET, "value": {"n": 1}}

    assert Mutation(**fields).fingerprint() != Mutation(**{**fields, **change}).fingerprint()


@pytest.mark.parametrize("key", ["", "x" * 201, "a\0", "a\nb", "a\x1f0", "\ud800", None, 7, b"k"])
def test_what_cannot_be_a_key_is_refused(key: Any) -> None:
    """Keys are 1 to 200 printable characters."""
    with pytest.raises(InvalidRequestError, match="idempotency key"):
        encode_mutation(Mutation(key, MutationKind.RESET))


@pytest.mark.parametrize("version", ["4", 4.0, True, -1, [4]])
def test_what_cannot_be_a_version_is_refused_at_its_caller(version: Any) -> None:
    """A wrong `expected_version` fails its own caller, not the batch that it would travel in."""
    with pytest.raises(InvalidRequestError, match="expected_version"):
        encode_mutation(Mutation("k", MutationKind.SET, 1, version))


def test_a_state_of_the_deepest_kind_travels() -> None:
    """The limit of depth is that of the value, not of what is packed around it."""
    value: Any = []
    for _ in range(MAX_DEPTH - 1):
        value = [value]
    sent = Mutation("k", MutationKind.SET, value)

    assert decode_batches(encode_batch(ROOM, [encode_mutation(sent)]))[0].mutations == [sent]
    with pytest.raises(NotSerializableError, match="the state is not JSON"):
        encode_mutation(Mutation("k", MutationKind.SET, [value]))


def test_a_value_that_is_not_json_is_named_by_its_place() -> None:
    """The place in the message is that in the caller's value."""
    with pytest.raises(NotSerializableError, match=r"the state is not JSON: nan at \.a\[0\] has"):
        encode_mutation(Mutation("k", MutationKind.SET, {"a": [math.nan]}))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"not json",
        b"7",
        b"null",
        b'"text"',
        b"[7]",
        b"[null]",
        b"[[]]",
        b'{"agent":"Room"}',
        b"[{}]",
        b'[{"agent":"Room","name":"a"}]',
        b'[{"agent":"Room","name":"a","mutations":7}]',
        b'[{"agent":"Room","name":"","mutations":[]}]',
        b'[{"agent":"a b","name":"a","mutations":[]}]',
        b'[{"agent":7,"name":"a","mutations":[]}]',
        b'[{"agent":"Room","name":"a","mutations":[7]}]',
        b'[{"agent":"Room","name":"a","mutations":["text"]}]',
        b'[{"agent":"Room","name":"a","mutations":[[]]}]',
    ],
)
def test_junk_is_no_batch(text: bytes) -> None:
    """Text that is no list of batches is refused as such."""
    with pytest.raises(InvalidRequestError):
        decode_batches(text)


@pytest.mark.parametrize(
    "fields",
    [
        "{}",
        '{"key":"k"}',
        '{"kind":"set","value":1}',
        '{"key":"k","kind":"explode"}',
        '{"key":"k","kind":["set"],"value":1}',
        '{"key":"k","kind":"update"}',
        '{"key":"","kind":"reset"}',
        '{"key":7,"kind":"reset"}',
        '{"key":"k","kind":"set"}',
        '{"key":"k","kind":"merge"}',
        '{"key":"k","kind":"reset","expected_version":"4"}',
        '{"key":"k","kind":"reset","expected_version":4.5}',
        '{"key":"k","kind":"reset","expected_version":true}',
        '{"key":"k","kind":"reset","source":7}',
        '{"key":"k","kind":"reset","source":["x"]}',
    ],
)
def test_junk_is_no_mutation(fields: str) -> None:
    """A mutation with a field missing or of another type is refused."""
    text = f'[{{"agent":"Room","name":"a","mutations":[{fields}]}}]'

    with pytest.raises(InvalidRequestError):
        decode_batches(text.encode())


@given(st.binary(max_size=40) | texts.map(str.encode))
def test_random_bytes_are_never_another_error(text: bytes) -> None:
    """Whatever arrives is a batch or is refused."""
    try:
        decode_batches(text)
    except InvalidRequestError:
        return
    assert text.strip() == b"[]"


def test_a_conflict_is_caught_by_its_family() -> None:
    """A decoded refusal is of the class that was encoded, so that `except` finds it."""
    [[outcome]] = decode_outcomes(encode_outcomes([[VersionConflictError("x", actual=1)]]))

    assert isinstance(outcome, ConflictError)
    assert dict(outcome.details_map) == {"actual": 1}
