"""A session's id as a segment of a URL's path: any text has one spelling, the default one too.

An id is percent-encoded. As no segment may be empty, the default session is written `~default`; an
id that begins with a tilde has another one in front, so that none means two things.
"""

from __future__ import annotations

from urllib.parse import quote

from agent_runtime.errors import InvalidRequestError, NotSerializableError
from agent_runtime.session.given_text import given_text

DEFAULT_SEGMENT = "~default"
MAX_SESSION_ID_BYTES = 512


def session_segment(session_id: str) -> str:
    """Return the segment for a session's id; raises as `path_segment`."""
    if given_text(session_id, "a session's id") == "":
        return DEFAULT_SEGMENT
    return path_segment(f"~{session_id}" if session_id.startswith("~") else session_id)


def path_segment(text: str) -> str:
    """Return any text as a segment of a path.

    Raises:
        InvalidRequestError: It is no text.
        NotSerializableError: It holds half a character.
    """
    if given_text(text, "what a path names") in (".", ".."):
        # Dots alone would lead elsewhere in the path.
        return text.replace(".", "%2E")
    try:
        return quote(text, safe="")
    except UnicodeEncodeError:
        raise NotSerializableError(
            f"half a character has no place in a URL: {text!r:.80}"
        ) from None


def session_id_of(segment: str) -> str:
    """Return the id that a decoded segment stands for.

    Raises:
        InvalidRequestError: It stands for none, or the id has more than 512 bytes or a NUL.
    """
    if segment == DEFAULT_SEGMENT:
        return ""
    session_id = segment.removeprefix("~")
    if not segment or (segment.startswith("~") and not session_id.startswith("~")):
        raise InvalidRequestError(
            f"{segment!r:.80} names no session; the default one is {DEFAULT_SEGMENT}, and an id "
            "that begins with ~ is written with one more"
        )
    if "\0" in session_id or len(session_id.encode()) > MAX_SESSION_ID_BYTES:
        raise InvalidRequestError(
            f"a session's id has at most {MAX_SESSION_ID_BYTES} bytes of UTF-8 and no NUL here"
        )
    return session_id
