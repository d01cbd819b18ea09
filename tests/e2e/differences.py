"""Where our recordings differ from the reference's, each with its reason.

Sections are those of the contract, "State and sync". A difference that does not occur fails the
test of its scenario.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST = "0.22.0"
"""The release of the client with which there are recordings of all scenarios."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Lines of the reference, next to each other, in place of which ours has others.

    Args:
        who: The client that saw them; "driver" for what no client saw.
        reason: With the section of the contract that allows it.
        release: Of the recording that has it; all recordings of the scenario if None.
    """

    scenario: str
    who: str
    reference: tuple[str, ...]
    ours: tuple[str, ...]
    reason: str
    release: str | None = None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What is not compared, on either side.

    Args:
        who: The client; every client if None.
        method: The calls of a method and their results; else entries of `kinds`, else everything.
    """

    scenario: str
    reason: str
    who: str | None = None
    method: str | None = None
    kinds: tuple[str, ...] = ()


def _state(value: str) -> str:
    return f'{{"kind":"recv","json":{{"state":{value},"type":"cf_agent_state"}}}}'


def _shown(value: str) -> str:
    return f'{{"kind":"callback","name":"onStateUpdate","args":[{value},"server"]}}'


def _sent(value: str) -> tuple[str, str]:
    return (
        f'{{"kind":"send","json":{{"state":{value},"type":"cf_agent_state"}}}}',
        f'{{"kind":"callback","name":"onStateUpdate","args":[{value},"client"]}}',
    )


def told(value: str) -> tuple[str, str]:
    """Return what a client sees of a state that it is told."""
    return (_state(value), _shown(value))


def _has(value: str) -> str:
    return f'{{"kind":"client.state","value":{value}}}'


def result(call: int, method: str, value: str) -> tuple[str, str]:
    """Return what a client sees of a call that returns."""
    frame = f'"done":true,"id":"<uuid-{call}>","result":{value},"success":true,"type":"rpc"'
    return (
        f'{{"kind":"recv","json":{{{frame}}}}}',
        f'{{"kind":"result","method":"{method}","value":{value}}}',
    )


def _nothing(call: int, method: str) -> tuple[str, str]:
    frame = f'"done":true,"id":"<uuid-{call}>","success":true,"type":"rpc"'
    return (
        f'{{"kind":"recv","json":{{{frame}}}}}',
        f'{{"kind":"result","method":"{method}","undefined":true}}',
    )


def _error(call: int, method: str, text: str) -> tuple[str, str]:
    frame = f'"error":"{text}","id":"<uuid-{call}>","success":false,"type":"rpc"'
    return (
        f'{{"kind":"recv","json":{{{frame}}}}}',
        f'{{"kind":"error","method":"{method}","message":"{text}"}}',
    )


SENT_MCP = (
    '{"kind":"recv","json":{"mcp":{"prompts":[],"resources":[],"servers":{},"tools":[]},'
    '"type":"cf_agent_mcp_servers"}}'
)
_CLOSED_1005 = '{"kind":"close","code":1005,"reason":""}'
_SETUP_FAILED = '{"kind":"recv","json":{"error":"Uncaught exception during session setup"}}'

_ECHO = (
    "19.1.4: a sender that was sent a state shortly before is told the state once it is quiet, as "
    "the two may have crossed"
)
_EARLY = "19.1.5: a write from before the connection was open is echoed, so that both agree"
_NO_STACK = "19.1.18: details of a failed connect stay in the log"
_ANSWERS_CLOSE = "4, Closing: a close without a code is answered, as RFC 6455 asks"
DATE = "7.1.3: dates become ISO strings, in the form that Python has"
_LANGUAGE = "11.3: attributes of Python objects have other names"

DATE_THEIRS = '{"at":"1970-01-01T00:00:00.000Z"}'
DATE_OURS = '{"at":"1970-01-01T00:00:00+00:00"}'
_NULLS = '{"i":null,"n":null}'
_NOT_JSON = "the state is not JSON: inf at .i has no JSON form"
_MERGED = '{"0":1,"1":2,"2":3,"k":1}'
_NO_MERGE = "the state is a list, and only objects can be merged into; use set_state"
_BIG = "SQL query failed: string or blob too big: SQLITE_TOOBIG"


def _measured(what: str, value: str, rest: str = "") -> str:
    return f'{{"kind":"measured","what":"{what}","value":{value}{rest}}}'


def _large(size: int, value: str, after: int) -> str:
    return _measured(f"state of {size} characters", f'"{value}"', f',"stateAfterwards":{after}')


def too_large(size: int) -> str:
    """Return what a caller is told of arguments that are too large."""
    return (
        f"the arguments of replace have {size} bytes of JSON, at most 2000000 are allowed; send "
        "where the data is instead"
    )


def _identity(agent: str, name: str, rest: str = "") -> str:
    frame = f'"agent":"{agent}","name":"{name}","type":"cf_agent_identity"{rest}'
    return f'{{"kind":"recv","json":{{{frame}}}}}'


_FOLLOWS = ',"stateFollows":true'

DIFFERENCES: list[Difference] = [
    Difference(
        "client-set-state",
        "B",
        _sent('{"unrelated":"shape is not checked"}'),
        (
            *_sent('{"unrelated":"shape is not checked"}'),
            *told('{"unrelated":"shape is not checked"}'),
        ),
        _ECHO,
    ),
    Difference(
        "hook-order",
        "A",
        _sent('{"n":9}'),
        (*_sent('{"n":9}'), *told('{"n":9}')),
        _ECHO,
    ),
    Difference(
        "rejected-update",
        "A",
        _sent('{"score":4}'),
        (*_sent('{"score":4}'), *told('{"score":4}')),
        _ECHO,
    ),
    Difference(
        "sender-left-behind",
        "A",
        (_has('{"count":100}'),),
        (*told('{"count":7}'), _has('{"count":7}')),
        _ECHO,
    ),
    Difference(
        "set-state-before-open",
        "A",
        (SENT_MCP, _has('{"count":0}')),
        (SENT_MCP, *told('{"count":33}'), _has('{"count":33}')),
        _EARLY,
    ),
    Difference(
        "reconnect-stale-write",
        "A",
        (_has('{"count":500}'),),
        (*told('{"count":1}'), _has('{"count":1}')),
        _EARLY,
    ),
    Difference(
        "same-connection-id",
        "B",
        (_has('{"count":0}'),),
        (*told('{"count":5}'), _has('{"count":5}')),
        "19.1.14: the sending socket is left out, not all of its id",
    ),
    Difference(
        "same-connection-id",
        "C",
        (
            '{"kind":"send","json":{"args":[],"id":"<uuid-2>","method":"connections","type":"rpc"}}',
            *result(2, "connections", '["<uuid-1>","shared-id","shared-id"]'),
        ),
        (
            '{"kind":"send","json":{"args":[],"id":"<uuid-2>","method":"connectionIds",'
            '"type":"rpc"}}',
            *result(2, "connectionIds", '["shared-id","shared-id","<uuid-1>"]'),
        ),
        "14: the order of connections is not promised, ours are told oldest first; the name of the "
        "method is taken in Python",
    ),
    Difference(
        "same-connection-id",
        "C",
        result(
            3,
            "lookup",
            '"More than one connection found for id shared-id. Did you mean to use '
            'getConnections(tag) instead?"',
        ),
        result(
            3,
            "lookup",
            '"More than one connection found for id shared-id. Did you mean to use '
            'connections(tag) instead?"',
        ),
        "14: the text names the method as it is called in Python",
    ),
    Difference(
        "hook-loop",
        "driver",
        (
            _measured("more than 100 state frames from one setState", "true"),
            _measured("errors handed to onError", "[]"),
        ),
        (
            _measured("more than 100 state frames from one setState", "false"),
            _measured("errors handed to onError", '["HookLoopError"]'),
        ),
        "19.1.11: nesting is bounded, and told",
    ),
    Difference(
        "throws-on-connect",
        "A",
        ('{"kind":"recv","json":{"error":"Error: boom from onConnect\\n<stack>"}}',),
        (_SETUP_FAILED,),
        _NO_STACK,
    ),
    Difference(
        "sets-state-on-connect",
        "B",
        ('{"kind":"recv","json":{"error":"Error: Connection is readonly\\n<stack>"}}',),
        (_SETUP_FAILED,),
        _NO_STACK,
    ),
    Difference(
        "sets-state-on-connect",
        "A",
        (_state('{"initialized":true}'),),
        (_state('{"initialized":true}'), _CLOSED_1005),
        _ANSWERS_CLOSE,
    ),
    Difference(
        "validator-reads-state",
        "A",
        (
            '{"kind":"recv","json":{"error":"RangeError: Maximum call stack size exceeded'
            '\\n<stack>"}}',
            '{"kind":"close","code":1011,"reason":"Uncaught exception during session setup"}',
        ),
        (
            _identity("validator-reads-state-agent", "room", _FOLLOWS),
            _state('{"status":"open"}'),
            SENT_MCP,
            _CLOSED_1005,
        ),
        "19.1.1: a validator may read the state while `initial_state` is stored; and "
        + _ANSWERS_CLOSE,
    ),
    *(
        Difference(
            "malformed-frames",
            who,
            (f'{{"kind":"recv","json":{frame}}}',),
            (f'{{"kind":"recv","json":{frame}}}', _CLOSED_1005),
            _ANSWERS_CLOSE,
        )
        for who, frame in (
            (
                "C",
                '{"done":true,"id":"closes2","result":[{"code":4321,"reason":"bye",'
                '"wasClean":true},{"code":1006,"reason":"WebSocket disconnected without sending '
                'Close frame.","wasClean":false}],"success":true,"type":"rpc"}',
            ),
            (
                "D",
                '{"done":true,"id":"closes3","result":[{"code":4321,"reason":"bye",'
                '"wasClean":true},{"code":1006,"reason":"WebSocket disconnected without sending '
                'Close frame.","wasClean":false},{"code":1005,"reason":"","wasClean":true}],'
                '"success":true,"type":"rpc"}',
            ),
        )
    ),
    Difference(
        "rpc-ok",
        "A",
        result(6, "returnsDate", DATE_THEIRS),
        result(6, "returnsDate", DATE_OURS),
        DATE,
    ),
    Difference(
        "rpc-ok",
        "A",
        result(8, "add", "null"),
        _error(8, "add", "unsupported operand type(s) for +: 'int' and 'NoneType'"),
        "11.5: a missing argument is None, which Python does not add",
    ),
    Difference(
        "rpc-errors",
        "A",
        _error(3, "failWithString", "Unknown error occurred"),
        _error(3, "failWithString", "Method failWithString does not exist"),
        "11.4: Python raises nothing but exceptions",
    ),
    *(
        Difference(
            "rpc-errors",
            "A",
            _error(call, method, f"Method {method} is not callable"),
            _error(call, method, f"Method {method} does not exist"),
            _LANGUAGE,
        )
        for call, method in ((7, "setState"), (8, "constructor"))
    ),
    Difference(
        "rpc-errors",
        "A",
        _error(10, "returnsBigInt", "Do not know how to serialize a BigInt"),
        _error(
            10,
            "returnsBigInt",
            "the result of returnsBigInt is not JSON: Integer exceeds 64-bit range",
        ),
        "11.4: the text of our own serialiser",
    ),
    Difference(
        "routing-http",
        "driver",
        (
            '{"kind":"http","request":{"method":"GET","path":"/agents/counter-agent/room/throw"},'
            '"response":{"status":500,"headers":{"access-control-allow-headers":"*",'
            '"access-control-allow-methods":"GET, POST, HEAD, OPTIONS",'
            '"access-control-allow-origin":"*","access-control-max-age":"86400",'
            '"content-type":"text/plain;charset=utf-8"},"body":"Error: boom from onRequest"}}',
        ),
        (
            '{"kind":"http","request":{"method":"GET","path":"/agents/counter-agent/room/throw"},'
            '"response":{"status":500,"headers":{"access-control-allow-headers":"*",'
            '"access-control-allow-methods":"GET, POST, HEAD, OPTIONS",'
            '"access-control-allow-origin":"*","access-control-max-age":"86400",'
            '"content-type":"text/plain;charset=utf-8"},"body":"Internal Server Error"}}',
        ),
        "3.3: the stack stays in the log",
    ),
    Difference(
        "reconnect-after-server-close",
        "H",
        ('{"kind":"close","code":1012,"reason":"service restart"}',),
        ('{"kind":"close","code":1000,"reason":""}',),
        "the agent closes a moment after it has answered, and the helper has closed by itself then",
    ),
    Difference(
        "large-state",
        "driver",
        (
            _large(2200000, _BIG, 2200000),
            _large(5000000, _BIG, 5000000),
        ),
        (
            _large(2200000, too_large(2200012), 1900000),
            _large(5000000, too_large(5000012), 1900000),
        ),
        "19.1.7: what cannot be stored leaves the state as it was; the limit is told at the call",
        release=FIRST,
    ),
    Difference(
        "odd-values",
        "A-date",
        (*told(DATE_THEIRS), *result(2, "write", '"object"')),
        (*told(DATE_OURS), *result(2, "write", '"object"')),
        DATE,
    ),
    Difference(
        "odd-values",
        "A-date",
        result(3, "read", f'{{"type":"object","value":{DATE_THEIRS}}}'),
        result(3, "read", f'{{"type":"object","value":{DATE_OURS}}}'),
        DATE,
    ),
    Difference("odd-values", "L-date", told(DATE_THEIRS), told(DATE_OURS), DATE),
    Difference(
        "odd-values",
        "A-nan",
        (*told(_NULLS), *result(2, "write", '"object"')),
        _error(2, "write", _NOT_JSON),
        "7.1.3: what has no JSON form is refused and not turned into null",
    ),
    Difference(
        "odd-values",
        "A-nan",
        result(3, "read", f'{{"type":"object","value":{_NULLS}}}'),
        result(3, "read", '{"type":"undefined"}'),
        "7.1.3: nothing was stored",
    ),
    Difference(
        "odd-values",
        "L-nan",
        (_identity("no-state-agent", "nan", _FOLLOWS), *told(_NULLS)),
        (_identity("no-state-agent", "nan"),),
        "7.1.3: nothing was stored",
    ),
    Difference(
        "odd-values",
        "C",
        result(
            2,
            "writeCircular",
            '{"inMemoryName":"loop","row":[],"threw":"Converting circular structure to JSON"}',
        ),
        result(
            2,
            "writeCircular",
            '{"hasState":false,"threw":"the state is not JSON: it contains itself"}',
        ),
        "19.1.7: what cannot be stored leaves the state as it was",
        release=FIRST,
    ),
    Difference(
        "odd-values",
        "D",
        (*told(_MERGED), *_nothing(8, "merge")),
        _error(8, "merge", _NO_MERGE),
        "19.1.10: only objects are merged into",
    ),
    Difference(
        "odd-values",
        "D",
        result(9, "read", f'{{"type":"object","value":{_MERGED}}}'),
        result(9, "read", '{"type":"object","value":[1,2,3]}'),
        "19.1.10: only objects are merged into",
    ),
]

LEFT_OUT: list[LeftOut] = [
    LeftOut("odd-values", "13.4: the reference's internal table", method="row"),
    LeftOut("odd-values", "19.1.8: Python has no undefined", who="A-undefined"),
    LeftOut("odd-values", "19.1.8: Python has no undefined", who="L-undefined"),
    LeftOut("readonly", "17: the queue is not built yet", method="queueIncrement"),
    LeftOut("readonly", "17: the queue is not built yet", method="getQueuedError"),
    LeftOut(
        "hook-order",
        "8: hooks start in order after the commit, at no fixed point of the method that caused it",
        method="getLog",
    ),
    LeftOut(
        "rpc-concurrent",
        "11.6: ten milliseconds are too few to be sure which of two calls is done first",
        method="add",
    ),
    LeftOut(
        "identity-change",
        "when the old socket's last frames and its close are seen beside the new one's connect is "
        "a matter of milliseconds",
        kinds=("close", "callback"),
    ),
    LeftOut(
        "reconnect-by-client",
        "7.5: what was written meanwhile is sent in order; the methods run beside the writes",
        kinds=("close", "recv", "callback", "result", "client.state"),
    ),
]

ANSWERS_LAST = {
    "lost-update-async-method": "7.5: calls that arrive together run together, so that either may "
    "be answered first, and before or after the other's state is told",
}
"""Scenarios in which answers to calls are compared apart from what is seen beside them, and why."""
