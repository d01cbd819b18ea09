"""Who an agent is: a class name and an instance name, and what they become elsewhere."""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from agent_runtime.errors import InvalidAgentError

MAX_NAME_BYTES = 512
_CLASS_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_SLUG_UNSAFE = re.compile(r"[^a-z0-9]+")
_KEBAB_CAPITAL = re.compile(r"[A-Z]")


class AgentRef(NamedTuple):
    """The address of one agent: the same pair is always the same state and database."""

    class_name: str
    name: str

    def __str__(self) -> str:
        return f"{self.class_name}/{self.name}"


def agent_ref(class_name: str, name: str) -> AgentRef:
    """Check both names and return the address.

    Any text is a name, taken literally: slashes, dots and non-Latin letters are no paths.
    Empty names, NUL, lone surrogates and more than 512 UTF-8 bytes are refused.

    Raises:
        InvalidAgentError: One of the names cannot be an address.
    """
    if not isinstance(class_name, str) or not _CLASS_NAME.fullmatch(class_name):
        raise InvalidAgentError(
            f"{class_name!r:.120} is no agent class name; use the Python class name, "
            "at most 100 letters, digits and underscores"
        )
    if not isinstance(name, str) or not name:
        raise InvalidAgentError("an agent name must be a text of at least one character")
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidAgentError("an agent name must not hold lone surrogates") from None
    if size > MAX_NAME_BYTES:
        raise InvalidAgentError(
            f"the agent name has {size} bytes, at most {MAX_NAME_BYTES} are allowed", size=size
        )
    if "\0" in name:
        raise InvalidAgentError("an agent name must not hold NUL characters")
    return AgentRef(class_name, name)


def workflow_id(task_queue: str, ref: AgentRef) -> str:
    """Return the id of the agent's entity workflow; installations differ by their task queue."""
    return f"{task_queue}/agent/{ref.class_name}/{ref.name}"


def handlers_workflow_id(task_queue: str, ref: AgentRef) -> str:
    """Return the id of the workflow that runs the agent's handlers."""
    return f"{task_queue}/handlers/{ref.class_name}/{ref.name}"


def compaction_workflow_id(task_queue: str, ref: AgentRef, session_id: str, leaf_id: str) -> str:
    """Return the id of the workflow that compacts a session, or one branch of it."""
    slug = _SLUG_UNSAFE.sub("-", session_id.lower()).strip("-")[:40] or "default"
    digest = _session_digest(session_id, leaf_id)
    return f"{task_queue}/compaction/{ref.class_name}/{ref.name}/{slug}-{digest}"


def compaction_job_prefix(session_id: str, leaf_id: str) -> str:
    """Return what the keys of all compactions of a session, or one branch of it, begin with."""
    return f"compaction/{_session_digest(session_id, leaf_id)}/"


def compaction_job_key(session_id: str, leaf_id: str, run_id: str) -> str:
    """Return the name under which a compaction keeps its parts."""
    return f"{compaction_job_prefix(session_id, leaf_id)}{run_id}"


def _session_digest(session_id: str, leaf_id: str) -> str:
    text = f"{len(session_id)}/{session_id}/{leaf_id}"
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:24]


def file_stem(ref: AgentRef) -> str:
    """Return a file name for the agent: safe on every disk, and no two agents share one.

    The readable part is for people only; the hash over the exact names tells agents apart, also on
    disks that ignore case.
    """
    slug = _SLUG_UNSAFE.sub("-", f"{ref.class_name}-{ref.name}".lower()).strip("-")[:40]
    digest = hashlib.sha256(f"{ref.class_name}/{ref.name}".encode()).hexdigest()[:24]
    return f"{slug or 'agent'}-{digest}"


def kebab_case(name: str) -> str:
    """Return the URL form of a class name (state-and-sync 1.3)."""
    if name.upper() == name and name.lower() != name:
        return name.lower().replace("_", "-")
    dashed = _KEBAB_CAPITAL.sub(lambda capital: f"-{capital[0].lower()}", name)
    return dashed.removeprefix("-").replace("_", "-").removesuffix("-")
