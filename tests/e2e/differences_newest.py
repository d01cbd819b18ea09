"""Where our recordings differ from those of the newest release, beyond `differences`."""

from __future__ import annotations

from tests.e2e.differences import Difference, too_large

NEWEST = "0.32.0"
"""The newest release of the client, with recordings of what it changed."""


def _large(size: int, value: str) -> str:
    return (
        f'{{"kind":"measured","what":"state of {size} characters","value":"{value}",'
        '"stateAfterwards":1900000}'
    )


def _threw(value: str) -> tuple[str, str]:
    frame = f'"done":true,"id":"<uuid-2>","result":{value},"success":true,"type":"rpc"'
    return (
        f'{{"kind":"recv","json":{{{frame}}}}}',
        f'{{"kind":"result","method":"writeCircular","value":{value}}}',
    )


_BIG = "string or blob too big: SQLITE_TOOBIG"

NEWEST_DIFFERENCES: list[Difference] = [
    Difference(
        "large-state",
        "driver",
        (_large(2200000, _BIG), _large(5000000, _BIG)),
        (_large(2200000, too_large(2200012)), _large(5000000, too_large(5000012))),
        "19.1.7: the limit is told at the call",
        release=NEWEST,
    ),
    Difference(
        "odd-values",
        "C",
        _threw('{"row":[],"threw":"Converting circular structure to JSON"}'),
        _threw('{"hasState":false,"threw":"the state is not JSON: it contains itself"}'),
        "11.4: the text of our own serialiser; 13.4: the reference's internal table",
        release=NEWEST,
    ),
    *(
        Difference(
            "readonly",
            who,
            (
                '{"kind":"recv","json":{"state":{"count":3},"type":"cf_agent_state"}}',
                '{"kind":"callback","name":"onStateUpdate","args":[{"count":3},"server"]}',
            ),
            (),
            "17: the queue is not built yet, so no item of it counts",
            release=NEWEST,
        )
        for who in ("R", "W")
    ),
]
