"""State mutations and their outcomes, as callers make them and as they travel.

A batch travels as one JSON text, `[{"agent", "name", "mutations": [...]}]`, and comes back as
`[{"versions": [...], "unchanged"?: [...], "duplicates"?: [...], "errors"?: {...}}]`; workflows
pass both on unread. A batch may hold groups for several agents.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from agent_runtime.errors import AgentRuntimeError, InvalidRequestError, from_record
from agent_runtime.identity import AgentRef, agent_ref
from agent_runtime.json_value import Json, fingerprint, from_json, pack, to_json

MAX_KEY_LENGTH = 200

FROM_CODE = "server"
"""The source of a change that no client sent."""

FROM_HTTP = "http"
"""The source of a client's change over HTTP, where the class tells clients from code."""

SESSION_EVENT = "session"
"""The event of a call that changes one of the agent's conversations."""


class MutationKind(StrEnum):
    """What a mutation does to the state (state-and-sync 7, 16.2)."""

    SET = "set"
    """Replace the state."""
    MERGE = "merge"
    """Replace the named top-level keys; null is a value, nothing is removed."""
    RESET = "reset"
    """Put `initial_state` back, or `{}` where the class has none."""
    UPDATE = "update"
    """Replace the state by what a function of the agent's code makes of it."""
    INIT = "init"
    """Store `initial_state` if no state was ever set; what reading does."""
    CALL = "call"
    """Put a handler call into the agent's inbox; the state stays as it is."""
    DESTROY = "destroy"
    """Destroy the agent with all that it has; the next contact meets a new one."""
    CANCEL = "cancel"
    """Ask the handler call with this key to stop; the state stays as it is."""


_VALUED = {MutationKind.SET, MutationKind.MERGE, MutationKind.CALL}


@dataclass(frozen=True, slots=True)
class Mutation:
    """One change asked for.

    Args:
        key: Idempotency key, 1 to 200 characters, unique within the agent.
        kind: What to do.
        value: The new state, the partial one of a merge, or what a call is given (`call_value`);
            unused by the other kinds.
        expected_version: Refuse unless the state has this version; None takes any.
        source: "server", "http", or the id of the client connection that sent the state.
    """

    key: str
    kind: MutationKind
    value: Json = None
    expected_version: int | None = None
    source: str = FROM_CODE

    def fingerprint(self) -> str:
        """Digest what the key stands for; the order of JSON keys does not count."""
        return fingerprint([self.kind, self.value, self.expected_version])


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof that a mutation is stored.

    Args:
        version: The state's version right after it; stays the same however often it is repeated.
        applied: This very call changed the state.
        duplicate: An earlier call, or an earlier attempt of this one, had applied it.
    """

    version: int
    applied: bool = True
    duplicate: bool = False


Outcome = Receipt | AgentRuntimeError


@dataclass(frozen=True, slots=True)
class AgentBatch:
    """Mutations of one agent, applied in order, each with a result of its own."""

    ref: AgentRef
    mutations: list[Mutation] = field(default_factory=list)


def encode_mutation(mutation: Mutation) -> bytes:
    """Write one mutation; called once, when its caller hands it in.

    Raises:
        NotSerializableError: The value is not JSON.
        InvalidRequestError: The key is empty or too long, or `expected_version` is no version.
    """
    check_key(mutation.key)
    _check_version(mutation.expected_version)
    fields: dict[str, Json] = {"key": mutation.key, "kind": mutation.kind.value}
    if mutation.expected_version is not None:
        fields["expected_version"] = mutation.expected_version
    if mutation.source != FROM_CODE:
        fields["source"] = mutation.source
    head = pack(fields)
    if mutation.kind not in _VALUED:
        return head
    what = "the call" if mutation.kind is MutationKind.CALL else "the state"
    return head[:-1] + b',"value":' + to_json(mutation.value, what=what) + b"}"


def call_value(
    method: str,
    args: list[Json],
    chain: Sequence[str] = (),
    hook_depth: int = 0,
    event: str = "",
    caller: dict[str, Json] | None = None,
) -> dict[str, Json]:
    """Return the value of a call.

    Args:
        args: JSON values, positional.
        chain: Keys of the handlers that wait for this call, to find deadlocks.
        hook_depth: How many change hooks, one through the other, led to it.
        event: For what a client did: "admit", "connect", "message", "close" or "request"; the
            method is then the hook for it.
        caller: For what a client did: `{"socket"}`, with `"call_id"` for a stream, and
            `"is_readonly": True` if it could only read.

    Raises:
        InvalidRequestError: The method is no name, or the arguments are no list.
    """
    is_sound = isinstance(method, str) and isinstance(args, list) and isinstance(hook_depth, int)
    if not is_sound or not all(isinstance(key, str) for key in chain):
        raise InvalidRequestError(
            f"a call takes a method's name and a list of arguments, not {method!r:.80}"
        )
    value = {"method": method, "args": args, "chain": list(chain), "hook_depth": hook_depth}
    if event:
        value["event"] = event
    if caller is not None:
        value["caller"] = caller
    return value


def check_key(key: str) -> None:
    """Refuse what cannot be an idempotency key.

    Raises:
        InvalidRequestError: Empty, too long, or not storable text.
    """
    is_sound = isinstance(key, str) and 0 < len(key) <= MAX_KEY_LENGTH and "\0" not in key
    if not is_sound or not key.isprintable():
        raise InvalidRequestError(
            f"an idempotency key is 1 to {MAX_KEY_LENGTH} printable characters, not {key!r:.80}"
        )


def _check_version(version: int | None) -> None:
    is_number = isinstance(version, int) and not isinstance(version, bool)
    if version is not None and not (is_number and version >= 0):
        raise InvalidRequestError(
            f"expected_version is a state's version, an integer from 0 on, not {version!r:.80}"
        )


def encode_batch(ref: AgentRef, mutations: Iterable[bytes]) -> bytes:
    """Join encoded mutations of one agent into the text that travels."""
    head = pack({"agent": ref.class_name, "name": ref.name})
    return b"[" + head[:-1] + b',"mutations":[' + b",".join(mutations) + b"]}]"


def decode_batches(text: bytes) -> list[AgentBatch]:
    """Read what `encode_batch` wrote, refusing anything else.

    Raises:
        InvalidRequestError: The text is not a list of agent batches.
    """
    try:
        return [
            AgentBatch(
                agent_ref(group["agent"], group["name"]),
                [_decode_mutation(fields) for fields in group["mutations"]],
            )
            for group in from_json(text)
        ]
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidRequestError(f"not a batch of mutations: {error!r}") from None


def _decode_mutation(fields: dict[str, Json]) -> Mutation:
    key, expected = fields["key"], fields.get("expected_version")
    check_key(key)
    _check_version(expected)
    kind, source = MutationKind(fields["kind"]), fields.get("source", FROM_CODE)
    if kind is MutationKind.UPDATE:
        raise ValueError("update needs code and cannot travel")
    if not isinstance(source, str):
        raise TypeError("source must be a text")
    value: Json = fields["value"] if kind in _VALUED else None
    if kind is MutationKind.CALL:
        value = call_value(**value)
    return Mutation(key, kind, value, expected, source)


def encode_outcomes(groups: Iterable[Sequence[Outcome]]) -> bytes:
    """Write the outcomes of a batch, as small as can be: they are kept in workflow histories."""
    written: list[Json] = []
    for outcomes in groups:
        fields: dict[str, Json] = {
            "versions": [o.version if isinstance(o, Receipt) else 0 for o in outcomes]
        }
        receipts = [(i, o) for i, o in enumerate(outcomes) if isinstance(o, Receipt)]
        if duplicates := [i for i, receipt in receipts if receipt.duplicate]:
            fields["duplicates"] = duplicates
        if unchanged := [i for i, receipt in receipts if not receipt.applied]:
            fields["unchanged"] = unchanged
        if errors := {
            str(i): o.to_record() for i, o in enumerate(outcomes) if not isinstance(o, Receipt)
        }:
            fields["errors"] = errors
        written.append(fields)
    return pack(written)


def decode_outcomes(text: bytes) -> list[list[Outcome]]:
    """Read what `encode_outcomes` wrote."""
    groups: list[list[Outcome]] = []
    for fields in from_json(text):
        errors = fields.get("errors", {})
        duplicates = set(fields.get("duplicates", ()))
        unchanged = set(fields.get("unchanged", ()))
        groups.append(
            [
                from_record(errors[str(i)])
                if str(i) in errors
                else Receipt(version, i not in unchanged, i in duplicates)
                for i, version in enumerate(fields["versions"])
            ]
        )
    return groups
