"""Applying a JSON Patch (RFC 6902), as far as deltas use it: add, remove and replace."""

from __future__ import annotations

from agent_runtime.errors import InvalidRequestError
from agent_runtime.json_value import Json


def apply_patch(value: Json, patch: Json) -> Json:
    """Return the value that a patch leads to.

    The given value belongs to the patch: parts of it are changed in place, also by one that fails.

    Raises:
        InvalidRequestError: It is no such patch, or does not fit the value.
    """
    root = {"": value}
    try:
        for operation in patch:
            _apply(root, operation)
        return root[""]
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise InvalidRequestError(f"the patch does not fit the value: {error!r:.200}") from None


def _apply(root: dict[str, Json], operation: Json) -> None:
    kind, path = operation["op"], operation["path"]
    if kind not in ("add", "remove", "replace"):
        raise ValueError(f"there is no operation {kind!r:.40}")
    # The root's only key is the empty text before the first slash.
    *names, last = [part.replace("~1", "/").replace("~0", "~") for part in path.split("/")]
    place: Json = root
    for name in names:
        place = place[_index(name, len(place)) if isinstance(place, list) else name]
    if isinstance(place, list):
        _apply_to_list(place, kind, last, operation)
    elif not isinstance(place, dict):
        raise TypeError(f"there is nothing below {path!r:.80}")
    elif kind == "remove":
        del place[last]
    else:
        if kind == "replace" and last not in place:
            raise KeyError(last)
        place[last] = operation["value"]


def _apply_to_list(place: list[Json], kind: str, last: str, operation: Json) -> None:
    if kind == "add":
        index = len(place) if last == "-" else _index(last, len(place) + 1)
        place.insert(index, operation["value"])
    elif kind == "remove":
        del place[_index(last, len(place))]
    else:
        place[_index(last, len(place))] = operation["value"]


def _index(text: str, count: int) -> int:
    if not (text.isascii() and text.isdigit()) or text != str(int(text)) or int(text) >= count:
        raise IndexError(f"{text!r:.40} is no place in a list of {count}")
    return int(text)
