"""What turns one JSON value into another, as a JSON Patch (RFC 6902)."""

from __future__ import annotations

from agent_runtime.json_value import Json, pack


def json_delta(before: Json, after: Json, path: str = "") -> list[Json]:
    """Return the operations, none for equal values; 1, 1.0 and true are not equal.

    Lists are compared from both ends, so that what was put in or taken out in one place costs no
    more than that.
    """
    if isinstance(before, dict) and isinstance(after, dict):
        return _of_objects(before, after, path)
    if isinstance(before, list) and isinstance(after, list):
        return _of_lists(before, after, path)
    if type(before) is type(after) and before == after:
        return []
    return [{"op": "replace", "path": path, "value": after}]


def _of_objects(before: dict[str, Json], after: dict[str, Json], path: str) -> list[Json]:
    patch: list[Json] = [
        {"op": "remove", "path": f"{path}/{_escaped(key)}"} for key in before if key not in after
    ]
    for key, value in after.items():
        place = f"{path}/{_escaped(key)}"
        if key in before:
            patch += json_delta(before[key], value, place)
        else:
            patch.append({"op": "add", "path": place, "value": value})
    return patch


def _of_lists(before: list[Json], after: list[Json], path: str) -> list[Json]:
    shorter = min(len(before), len(after))
    first = 0
    while first < shorter and _is_same(before[first], after[first]):
        first += 1
    last = 0
    while last < shorter - first and _is_same(before[-1 - last], after[-1 - last]):
        last += 1
    old, new = before[first : len(before) - last], after[first : len(after) - last]
    patch: list[Json] = []
    for index, (was, becomes) in enumerate(zip(old, new, strict=False), first):
        patch += json_delta(was, becomes, f"{path}/{index}")
    common = min(len(old), len(new))
    for index in reversed(range(first + common, first + len(old))):
        patch.append({"op": "remove", "path": f"{path}/{index}"})
    for index, value in enumerate(new[common:], first + common):
        patch.append({"op": "add", "path": f"{path}/{index}", "value": value})
    return patch


def _is_same(before: Json, after: Json) -> bool:
    # In one go: comparing by deltas would take thrice as long with each level of nesting.
    return bool(before == after) and pack(before) == pack(after)


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
