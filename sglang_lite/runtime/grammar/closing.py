"""Objects that say nothing of other properties, closed: llguidance leaves them open.

An object is closed where it alone says what the properties are. Where several schemas hold at once
(`allOf`, branches beside `properties`, a reference with neighbours), closing one of them would
forbid what the others name: there it stays as it is written, and a note says so.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from sglang_lite.runtime.grammar.exact import exact
from sglang_lite.runtime.grammar.schema.parts import with_parts
from sglang_lite.runtime.grammar.schema.places import pointer, split

CLOSED = "objects without additionalProperties allow no other properties"
OPEN = "objects that several schemas describe allow other properties"
_NAMES = frozenset({"properties", "patternProperties", "required", "dependentRequired"})
_MERGED = frozenset({
    "$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas",
    "dependencies",
})  # fmt: skip
_DECIDED = frozenset({"additionalProperties", "unevaluatedProperties", "patternProperties"})


def plainly(schema: Any, *, closed: bool) -> tuple[Any, tuple[str, ...]]:
    """`schema` as llguidance is to be given it: exact, and closed if it should be.

    Raises:
        Refusal: it cannot be said exactly.
    """
    return close(exact(schema)) if closed else (exact(schema), ())


def close(schema: Any) -> tuple[Any, tuple[str, ...]]:
    """`schema` with its objects closed, and notes on what that came to."""
    closer = _Closer()
    while True:  # what a joined schema refers to is joined as well
        known = len(closer.joined)
        made = closer.write(schema, "", joined=False)
        if len(closer.joined) == known:
            return made, tuple(sorted(closer.notes))


class _Closer:
    def __init__(self) -> None:
        self.joined: set[str] = set()  # pointers to schemas that hold beside others
        self.notes: set[str] = set()

    def write(self, schema: Any, at: str, *, joined: bool) -> Any:
        if isinstance(schema, list):
            return [
                self.write(each, pointer(at, index), joined=joined)
                for index, each in enumerate(schema)
            ]
        if not isinstance(schema, dict):
            return schema
        if not at:
            self.notes.clear()
        joined = joined or at in self.joined
        merged = [name for name in schema if name in _MERGED]
        beside = joined or len(merged) > 1 or not _NAMES.isdisjoint(schema)
        if beside and isinstance(reference := schema.get("$ref"), str):
            self.joined.add(split(reference)[1])

        def write(steps: tuple[str, ...], value: Any) -> Any:
            place = reduce(pointer, steps, at)
            return self.write(value, place, joined=_held_with(steps[0], schema, beside))

        made = with_parts(schema, write)
        if _is_silent(schema):
            if joined or merged:
                self.notes.add(OPEN)
            else:
                made["additionalProperties"] = False
                self.notes.add(CLOSED)
        return made


def _held_with(name: str, schema: dict[str, Any], beside: bool) -> bool:
    """Whether the schemas under the keyword `name` hold together with others."""
    if name in ("anyOf", "oneOf"):
        return beside
    if name == "allOf":
        return beside or len(schema[name]) > 1
    return name in _MERGED


def _is_silent(schema: dict[str, Any]) -> bool:
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not _DECIDED.isdisjoint(schema):
        return False
    return all(name in properties for name in schema.get("required", ()))
