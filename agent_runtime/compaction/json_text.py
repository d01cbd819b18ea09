"""The compact JSON text of a stored value, character for character as JavaScript writes it."""

from __future__ import annotations

import json
import re
from decimal import Decimal

import orjson

from agent_runtime.json_value import Json

_MAYBE_OTHER_NUMBER = re.compile(rb"\.0(?![0-9])|[0-9]e[-+]?[0-9]")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def json_text(value: object) -> str:
    """Return a value's compact JSON text; a value that is no JSON is converted by `str`.

    Whole floats lose their fraction (`1.0` is `1`), text is not escaped to ASCII.
    """
    try:
        text = orjson.dumps(value)
    except (TypeError, RecursionError):
        return _unusual_text(value)
    # Only floats are written differently by the two languages; looking for them is cheap.
    if _MAYBE_OTHER_NUMBER.search(text) and (rewritten := _with_javascript_numbers(value)):
        return rewritten
    return text.decode()


def _unusual_text(value: object) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError):
        return str(value)
    return _LONE_SURROGATE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _with_javascript_numbers(value: object) -> str | None:
    floats: list[str] = []

    def mark(item: Json) -> Json:
        if isinstance(item, float):
            floats.append(_javascript_number(item))
            return orjson.Fragment(floats[-1])
        if isinstance(item, dict):
            return {key: mark(child) for key, child in item.items()}
        if isinstance(item, (list, tuple)):
            return [mark(child) for child in item]
        return item

    marked = mark(value)
    return orjson.dumps(marked).decode() if floats else None


def _javascript_number(number: float) -> str:
    if number != number or number in (float("inf"), float("-inf")):
        return "null"
    if number == 0:
        return "0"
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    point = len(text) + exponent
    if 0 < point <= 21:
        body = f"{text[:point]}.{text[point:]}" if exponent < 0 else text + "0" * exponent
    elif -6 < point <= 0:
        body = f"0.{'0' * -point}{text}"
    else:
        power = point - 1
        fraction = f".{text[1:]}" if len(text) > 1 else ""
        body = f"{text[0]}{fraction}e{'+' if power > 0 else '-'}{abs(power)}"
    return f"-{body}" if sign else body
