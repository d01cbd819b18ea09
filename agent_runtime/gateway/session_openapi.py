"""The conversations' part of the OpenAPI document."""

from __future__ import annotations

from agent_runtime.gateway.bounded_answer import MAX_ANSWER_BYTES
from agent_runtime.gateway.openapi_parts import (
    AGENT,
    BOOLEAN,
    INTEGER,
    LIMIT,
    TEXT,
    answer_of,
    body_of,
    object_of,
    path,
    problems,
    query,
    ref,
)
from agent_runtime.gateway.session_routes import MAX_LISTED, MAX_ROWS, SESSION
from agent_runtime.json_value import Json
from agent_runtime.session.session_segment import MAX_SESSION_ID_BYTES

_READ_PROBLEMS = ("400", "401", "403", "404", "422", "500", "503", "504")
_CHANGE_PROBLEMS = ("400", "401", "403", "404", "409", "413", "415", "422", "500", "503", "504")

IN_SESSION = [*AGENT, ref("parameters", "session")]
_KEY = ref("parameters", "IdempotencyKey")
TEXT_OR_NULL: Json = {"type": ["string", "null"]}
_NUMBER_OR_NULL: Json = {"type": ["integer", "null"]}
MOMENT: Json = {"type": "string", "format": "date-time"}
SIZE: Json = {"type": "integer", "minimum": 0, "maximum": 999999999999999999}

_LEAF = query("leaf", "End the path at this message; by default the latest leaf.", TEXT)
WORDS = {**query("q", "Words that all must be there.", TEXT), "required": True}
HITS_LIMIT = query(
    "limit",
    "At most so many.",
    {"type": "integer", "minimum": 1, "maximum": 1000, "default": 20},
)


LIST_LIMIT = query(
    "limit",
    "At most so many.",
    {"type": "integer", "minimum": 1, "maximum": MAX_LISTED, "default": MAX_LISTED},
)
_AFTER = query("after", "The `next` of the page before.", TEXT)
_NEXT: Json = {**TEXT_OR_NULL, "description": "For `after`; null at the end."}


SESSION_SEGMENT = path(
    "session",
    "A session's id, percent-encoded; `~default` is the default one, and an id that begins with a "
    "tilde is written with one more.",
    minLength=1,
    maxLength=MAX_SESSION_ID_BYTES + 1,
    pattern="^(~default|~~[^\\u0000]*|[^~\\u0000][^\\u0000]*)$",
)


def strict(required: list[str], **properties: Json) -> Json:
    """Return the schema of an object with these properties only."""
    return {**object_of(required, **properties), "additionalProperties": False}


def list_of(name: str, schema: Json, **others: Json) -> Json:
    """Return the schema of an object that holds a list."""
    return object_of([name, *others], **{name: {"type": "array", "items": schema}}, **others)


def reading(name: str, summary: str, schema: Json, *parameters: Json) -> Json:
    """Return an operation that reads."""
    return {
        "operationId": name,
        "summary": summary,
        "parameters": list(parameters),
        "responses": {"200": answer_of("It is so.", schema), **problems(*_READ_PROBLEMS)},
    }


def changing(name: str, summary: str, body: Json, schema: Json, *, has_body: bool = True) -> Json:
    """Return an operation that changes something.

    Args:
        body: The body's schema, None if it takes none.
        schema: The answer's, None for an answer without content.
        has_body: The body must be there.
    """
    done = {"204": {"description": "It is on disk."}}
    if schema is not None:
        done = {"200": answer_of("It is on disk.", schema)}
    operation = {
        "operationId": name,
        "summary": summary,
        "parameters": [_KEY],
        "responses": {**done, **problems(*_CHANGE_PROBLEMS)},
    }
    if body is None:
        return operation
    return {**operation, "requestBody": {**body_of(body), "required": has_body}}


_CONTENT = strict(["content"], content=TEXT)
_ID = path("message", "A message's id, percent-encoded.")
_LABEL = path("label", "A context block's label, percent-encoded.", minLength=1)

SESSION_PATHS: dict[str, Json] = {
    SESSION: {
        "parameters": IN_SESSION,
        "get": reading(
            "getSession",
            "Tell how long a session is; its token estimate is the agent's own.",
            object_of(
                ["sessionId", "latestLeafId", "pathLength", "tokenEstimate"],
                sessionId=TEXT,
                latestLeafId=TEXT_OR_NULL,
                pathLength=INTEGER,
                tokenEstimate=_NUMBER_OR_NULL,
            ),
            _LEAF,
            query(
                "estimate",
                "`false` asks the agent for no estimate; it is null then, and without an agent.",
                {**BOOLEAN, "default": True},
            ),
        ),
        "delete": changing(
            "deleteSession",
            "Remove a session with all that is stored of it. One that is not there is no error.",
            None,
            None,
        ),
    },
    f"{SESSION}/messages": {
        "parameters": IN_SESSION,
        "get": reading(
            "getMessages",
            "Read the path to a message, with summaries for compacted ranges.",
            ref("schemas", "History"),
            _LEAF,
            query(
                "page_bytes",
                "How long the page is; counts up to the default.",
                {**SIZE, "default": MAX_ANSWER_BYTES},
            ),
            query(
                "max_bytes",
                "In place of pages only the newest that fit, in bytes of stored JSON; counts up to "
                f"{MAX_ANSWER_BYTES}.",
                SIZE,
            ),
            query(
                "min_messages",
                "With `max_bytes`: so many whatever their size, if an answer has room for them.",
                {"type": "integer", "minimum": 1, "maximum": 1000000, "default": 1},
            ),
        ),
        "post": changing(
            "appendMessages",
            "Append messages, each below the one before it, all or none.",
            strict(
                ["messages"],
                messages={"type": "array", "items": ref("schemas", "Message")},
                parentId={
                    **TEXT_OR_NULL,
                    "description": "Of the first; null: a new root; left out: the latest leaf.",
                },
            ),
            list_of("results", ref("schemas", "AppendResult")),
        ),
        "delete": {
            **changing("deleteMessages", "Remove some messages, or all of them.", None, None),
            "parameters": [
                _KEY,
                query("id", "A message; repeat it for more.", {"type": "array", "items": TEXT}),
                query("all", "Remove all messages and summaries.", {"const": "true"}),
            ],
        },
    },
    f"{SESSION}/deletions": {
        "parameters": IN_SESSION,
        "post": changing(
            "deleteManyMessages",
            "Remove messages, more than a URL has room for, all at once.",
            strict(["messageIds"], messageIds={"type": "array", "items": TEXT}),
            None,
        ),
    },
    f"{SESSION}/messages/{{message}}": {
        "parameters": [*IN_SESSION, _ID],
        "get": reading("getMessage", "Read a message of any branch.", ref("schemas", "Message")),
        "put": changing(
            "updateMessage",
            "Replace a message; its place in the tree stays.",
            ref("schemas", "Message"),
            object_of(["updated"], updated=BOOLEAN),
        ),
        "delete": changing(
            "deleteMessage",
            "Remove a message; its children go to its parent. One that is not there is no error.",
            None,
            None,
        ),
    },
    f"{SESSION}/messages/{{message}}/branches": {
        "parameters": [*IN_SESSION, _ID],
        "get": reading(
            "getBranches",
            "Read a message's direct children, oldest first.",
            list_of("messages", ref("schemas", "Message"), next=_NEXT),
            LIST_LIMIT,
            _AFTER,
        ),
    },
    f"{SESSION}/path": {
        "parameters": IN_SESSION,
        "get": reading(
            "getPath",
            "Read the stored sizes of a path's messages, root first, those under summaries too.",
            list_of(
                "rows",
                object_of(["id", "role", "bytes"], id=TEXT, role=TEXT, bytes=INTEGER),
                next={**TEXT_OR_NULL, "description": "`leaf` of the part above; null at the root."},
            ),
            _LEAF,
            query(
                "limit",
                "At most so many, the last ones.",
                {"type": "integer", "minimum": 1, "maximum": MAX_ROWS, "default": MAX_ROWS},
            ),
        ),
    },
    f"{SESSION}/tree": {
        "parameters": IN_SESSION,
        "get": reading(
            "getTree",
            "Read the messages of all branches, oldest first, with their places in the tree.",
            list_of(
                "nodes",
                ref("schemas", "TreeNode"),
                next={**_NUMBER_OR_NULL, "description": "For `after`; null at the end."},
            ),
            query("after", "The `next` of the page before.", SIZE),
            LIMIT,
        ),
    },
    f"{SESSION}/search": {
        "parameters": IN_SESSION,
        "get": reading(
            "searchSession",
            "Find messages of all branches, best first.",
            list_of("hits", ref("schemas", "SearchHit")),
            WORDS,
            HITS_LIMIT,
        ),
    },
    f"{SESSION}/compactions": {
        "parameters": IN_SESSION,
        "get": reading(
            "getCompactions",
            "List the stored summaries, superseded ones too, oldest first.",
            list_of("compactions", ref("schemas", "Compaction"), next=_NEXT),
            LIST_LIMIT,
            _AFTER,
        ),
        "post": changing(
            "addCompaction",
            "Store a summary for a range of a path.",
            strict(
                ["summary", "fromMessageId", "toMessageId"],
                summary=TEXT,
                fromMessageId=TEXT,
                toMessageId=TEXT,
            ),
            ref("schemas", "Compaction"),
        ),
    },
    f"{SESSION}/context": {
        "parameters": IN_SESSION,
        "get": reading(
            "getContextBlocks",
            "Read the context blocks in order.",
            list_of("blocks", ref("schemas", "ContextBlock")),
        ),
    },
    f"{SESSION}/context/{{label}}": {
        "parameters": [*IN_SESSION, _LABEL],
        "get": reading("getContextBlock", "Read a block.", ref("schemas", "ContextBlock")),
        "put": changing(
            "replaceContextBlock",
            "Replace a writable block's content.",
            _CONTENT,
            ref("schemas", "ContextBlock"),
        ),
        "post": changing(
            "appendContextBlock",
            "Add a line to a writable block's content.",
            _CONTENT,
            ref("schemas", "ContextBlock"),
        ),
    },
    f"{SESSION}/prompt": {
        "parameters": IN_SESSION,
        "get": reading(
            "freezePrompt",
            "Read the system prompt, which is the same from then on; not for read-only tokens.",
            ref("schemas", "Prompt"),
        ),
        "post": {
            **changing(
                "refreshPrompt",
                "Make the prompt anew from the blocks as they are now.",
                None,
                ref("schemas", "Prompt"),
            ),
            "parameters": [
                _KEY,
                query(
                    "refresh",
                    "`false` makes it only if there is none, as GET does.",
                    {**BOOLEAN, "default": True},
                ),
            ],
        },
    },
    f"{SESSION}/tools": {
        "parameters": IN_SESSION,
        "get": reading(
            "getTools",
            "List the tools for a model.",
            list_of(
                "tools",
                object_of(
                    ["name", "description", "parameters"],
                    name=TEXT,
                    description=TEXT,
                    parameters={"type": "object"},
                ),
            ),
        ),
    },
    f"{SESSION}/tools/{{tool}}": {
        "parameters": [*IN_SESSION, path("tool", "A tool's name.", minLength=1)],
        "post": changing(
            "runTool",
            "Run a tool as a model asked for it.",
            strict([], arguments={"type": "object"}),
            object_of(["result"], result=TEXT),
            has_body=False,
        ),
    },
}

SESSION_SCHEMAS: dict[str, Json] = {
    "Message": {
        **object_of(
            ["id", "role", "parts"],
            id={**TEXT, "not": {"pattern": "^compaction_"}},
            role=TEXT,
            parts={"type": "array", "items": object_of(["type"], type=TEXT)},
        ),
        "description": "Every other key is kept as it is.",
    },
    "History": {
        **list_of("messages", object_of(["id", "role", "parts"], id=TEXT, role=TEXT)),
        "description": "`truncated` and `totalContentBytes` are there if `max_bytes` was given, "
        "else `next`: the `leaf` of the part above, null at the root.",
    },
    "AppendResult": object_of(
        ["inserted", "parentId"],
        inserted={**BOOLEAN, "description": "False: a message of that id was there already."},
        parentId=TEXT_OR_NULL,
    ),
    "TreeNode": object_of(
        ["seq", "parentSeq", "id", "role", "depth", "bytes", "tokens", "createdAt", "message"],
        seq=INTEGER,
        parentSeq=_NUMBER_OR_NULL,
        id=TEXT,
        role=TEXT,
        depth=INTEGER,
        bytes=INTEGER,
        tokens=INTEGER,
        createdAt=MOMENT,
        message={"type": ["object", "null"]},
    ),
    "SearchHit": object_of(
        ["id", "role", "content", "createdAt", "sessionId"],
        id=TEXT,
        role=TEXT,
        content={**TEXT, "description": "The text it was found by."},
        createdAt=TEXT_OR_NULL,
        sessionId=TEXT_OR_NULL,
    ),
    "Compaction": object_of(
        ["id", "summary", "fromMessageId", "toMessageId", "createdAt"],
        id=TEXT,
        summary=TEXT,
        fromMessageId=TEXT,
        toMessageId=TEXT,
        createdAt=MOMENT,
    ),
    "ContextBlock": object_of(
        ["label", "description", "content", "tokens", "maxTokens", "writable", "isSkill"],
        label=TEXT,
        description=TEXT_OR_NULL,
        content=TEXT,
        tokens=INTEGER,
        maxTokens=_NUMBER_OR_NULL,
        writable=BOOLEAN,
        isSkill=BOOLEAN,
        isSearchable=BOOLEAN,
        available={**BOOLEAN, "description": "False: its provider failed when last read."},
    ),
    "Prompt": object_of(["prompt"], prompt=TEXT),
}
