"""Reading and checking the lines of an exported session."""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import Annotated, Literal

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from agent_runtime.errors import AgentRuntimeError, InvalidImportError
from agent_runtime.json_value import Json
from agent_runtime.session.given_text import MAX_ID_BYTES, MAX_LABEL_BYTES, byte_length
from agent_runtime.session.session_content import PlacedMessage, SessionContent
from agent_runtime.session.session_export import EXPORT_FORMAT
from agent_runtime.session.session_record import milliseconds_of
from agent_runtime.session.stored_session import new_message
from agent_runtime.storage.session_protocol import EntryRow, OverlayRow, PromptRow, RecordRow


def _time(text: str) -> str:
    milliseconds_of(text)
    return text


def _at_most(limit_bytes: int) -> AfterValidator:
    def check(text: str) -> str:
        if (size := byte_length(text)) > limit_bytes:
            raise ValueError(f"has {size} bytes of UTF-8, at most {limit_bytes} are stored")
        return text

    return AfterValidator(check)


_Time = Annotated[str, AfterValidator(_time)]
_Id = Annotated[str, _at_most(MAX_ID_BYTES)]
_Label = Annotated[str, _at_most(MAX_LABEL_BYTES)]


class _Line(BaseModel):
    model_config = ConfigDict(strict=True)


class _Record(_Line):
    name: str
    parent_session_id: str | None
    model: str | None
    source: str | None
    input_tokens: int
    output_tokens: int
    estimated_cost: float
    end_reason: str | None
    created_at: _Time
    updated_at: _Time


class _Header(_Line):
    type: Literal["session"]
    format: int
    session_id: str
    record: _Record | None


class _Message(_Line):
    type: Literal["message"]
    parent_id: str | None
    created_at: _Time
    message: dict[str, Json]


class _Compaction(_Line):
    type: Literal["compaction"]
    id: _Id
    summary: str
    from_message_id: _Id
    to_message_id: _Id
    created_at: _Time


class _Context(_Line):
    type: Literal["context"]
    label: _Label
    content: str


class _Entry(_Line):
    type: Literal["entry"]
    label: _Label
    key: _Id
    content: str


class _Prompt(_Line):
    type: Literal["prompt"]
    prompt: str
    fingerprint: str | None


class _End(_Line):
    type: Literal["end"]
    messages: int


_AnyLine = _Header | _Message | _Compaction | _Context | _Entry | _Prompt | _End

_LINE: TypeAdapter[_AnyLine] = TypeAdapter(Annotated[_AnyLine, Field(discriminator="type")])


class SessionLines:
    """Takes lines one by one and makes of them what is to be stored.

    Every method raises InvalidImportError, naming the line, for what is not as it should be.
    `counts` has how many lines there were of each type.
    """

    def __init__(self) -> None:
        self.content = SessionContent()
        self.counts: Counter[str] = Counter()
        self.first_message_id: str | None = None
        self._digest = hashlib.blake2b(digest_size=12)
        self._session_id: str | None = None
        self._number = 0
        self._is_ended = False
        self._seen: set[tuple[str, ...]] = set()

    @property
    def session_id(self) -> str:
        """The id that the session had."""
        if self._session_id is None:
            raise self._invalid("there is no line that begins a session")
        return self._session_id

    @property
    def digest(self) -> str:
        """A digest of all lines."""
        return self._digest.hexdigest()

    def read(self, text: str) -> None:
        """Take the next line."""
        self._number += 1
        if not text.strip():
            return
        self._digest.update(text.strip().encode(errors="surrogatepass") + b"\n")
        line = self._parse(text)
        if self._is_ended:
            raise self._invalid("something follows the line that ends the session")
        if (self._session_id is None) != isinstance(line, _Header):
            raise self._invalid("a session begins with one line of type 'session'")
        self._take(line)
        self.counts[line.type] += 1

    def finish(self) -> None:
        """Tell that there are no more lines."""
        if not self._is_ended:
            raise self._invalid("the line that ends the session is missing; the file was cut off")

    def take(self) -> SessionContent:
        """Return what the lines since the last time have said, and keep it no longer."""
        taken, self.content = self.content, SessionContent()
        return taken

    def _parse(self, text: str) -> _AnyLine:
        try:
            return _LINE.validate_python(orjson.loads(text))
        except orjson.JSONDecodeError as error:
            raise self._invalid(f"not JSON: {error}") from None
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(str(each) for each in first["loc"])
            raise self._invalid(f"{place}: {first['msg']}" if place else first["msg"]) from None

    def _take(self, line: _AnyLine) -> None:
        match line:
            case _Header():
                self._take_header(line)
            case _Message():
                self._take_message(line)
            case _Compaction():
                self._note_once("the compaction", line.id)
                self.content.overlays.append(
                    OverlayRow(
                        line.id,
                        line.summary,
                        line.from_message_id,
                        line.to_message_id,
                        milliseconds_of(line.created_at),
                    )
                )
            case _Context():
                self._note_once("the context block", line.label)
                self.content.contexts[line.label] = line.content
            case _Entry():
                self._note_once("the entry", line.label, line.key)
                self.content.entries.append(EntryRow(line.label, line.key, line.content))
            case _Prompt():
                self._note_once("the prompt")
                self.content.prompt = PromptRow(line.prompt, line.fingerprint)
            case _End():
                self._take_end(line)

    def _take_header(self, line: _Header) -> None:
        if line.format != EXPORT_FORMAT:
            raise self._invalid(
                f"the format is {line.format}, this release knows {EXPORT_FORMAT}; "
                "import it with the release that wrote it or a newer one"
            )
        self._session_id = line.session_id
        if line.record is not None:
            fields = line.record.model_dump()
            for name in ("created_at", "updated_at"):
                fields[name] = milliseconds_of(fields[name])
            self.content.record = RecordRow(id=line.session_id, **fields)

    def _take_message(self, line: _Message) -> None:
        try:
            message = new_message(line.message, milliseconds_of(line.created_at))
        except AgentRuntimeError as error:
            raise self._invalid(error.message) from None
        if line.parent_id is not None and ("the message", line.parent_id) not in self._seen:
            raise self._invalid(f"the parent {line.parent_id!r} is on no line before")
        self._note_once("the message", message.id)
        if self.first_message_id is None:
            self.first_message_id = message.id
        self.content.messages.append(PlacedMessage(line.parent_id, message))

    def _take_end(self, line: _End) -> None:
        found = self.counts["message"]
        if line.messages != found:
            raise self._invalid(f"there are {found} messages, there should be {line.messages}")
        self._is_ended = True

    def _note_once(self, what: str, *name: str) -> None:
        if (what, *name) in self._seen:
            shown = " ".join([what, *(repr(each) for each in name)])
            raise self._invalid(f"{shown} is there twice")
        self._seen.add((what, *name))

    def _invalid(self, reason: str) -> InvalidImportError:
        return InvalidImportError(
            f"line {self._number}: {reason}; nothing was stored", line=self._number
        )
