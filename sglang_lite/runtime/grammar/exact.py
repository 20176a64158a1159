"""What llguidance would hold more loosely than the schema says: said more plainly, or refused.

It knows neither widths of integers nor the calendar, reads the letters of classes in Unicode,
counts a name that comes twice as two, and passes over keywords of old drafts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from typing import Any
from urllib.parse import unquote

from sglang_lite.runtime.grammar.refusal import Refusal
from sglang_lite.runtime.grammar.schema.combine import Comparison
from sglang_lite.runtime.grammar.schema.conjunction import Flattener
from sglang_lite.runtime.grammar.schema.formats import FORMATS, STANDARD
from sglang_lite.runtime.grammar.schema.keywords import row_of, says_nothing
from sglang_lite.runtime.grammar.schema.numbers import WIDTHS
from sglang_lite.runtime.grammar.schema.parts import parts
from sglang_lite.runtime.grammar.schema.places import Place, pointer

_EXACT = 2**53  # floats below are all the integers there are

_CLASSES = {
    "d": "[0-9]", "D": "[^0-9]", "w": "[0-9A-Za-z_]", "W": "[^0-9A-Za-z_]",
    "s": r"[ \t\n\r\x0B\x0C]", "S": r"[^ \t\n\r\x0B\x0C]",
}  # fmt: skip


def ascii_classes(regex: str) -> str:
    """`regex` with `\\d`, `\\w` and `\\s` in ASCII. A class within a class is Rust's syntax."""
    return re.sub(r"\\(.)", lambda found: _CLASSES.get(found[1], found[0]), regex, flags=re.DOTALL)


def exact(schema: Any) -> Any:
    """`schema` in such words that llguidance accepts no invalid instance.

    Raises:
        Refusal: there are no such words for it; the pointer says where.
    """
    return _Exact(frozenset(_references(schema))).write(Place.root(schema))


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(reference := value.get("$ref"), str):
            yield unquote(reference.partition("#")[2])
        for each in value.values():
            yield from _references(each)
    elif isinstance(value, list):
        for each in value:
            yield from _references(each)


class _Exact:
    def __init__(self, references: frozenset[str]) -> None:
        self._references = references
        self._anchored = any(each and not each.startswith("/") for each in references)
        self._comparison = Comparison(Flattener(), closed=False, implied=False)

    def write(self, place: Place) -> Any:
        schema, at = place.schema, place.at
        if isinstance(schema, list):
            return [self.write(place.child(index)) for index in range(len(schema))]
        if not isinstance(schema, dict):
            return schema
        for name, value in schema.items():
            row = row_of(name)
            if row is not None and not row.held and not says_nothing(name, value):
                raise Refusal(f"`{name}` is not held", pointer(at, name))
        made = {**schema}
        for steps, _ in parts(schema):
            self._put(made, place, steps)
        if isinstance(made.get("pattern"), str):
            made["pattern"] = ascii_classes(made["pattern"])
        if "anyOf" not in schema and self._are_apart(place):
            made["anyOf"] = made.pop("oneOf")
        _format(made, at)
        _counted(made, at)
        _rounded(made, at)
        return made

    def _put(self, made: dict[str, Any], place: Place, steps: tuple[str, ...]) -> None:
        inside = place.child(*steps)
        if len(steps) == 1:
            if row_of(steps[0]) is not None or self._is_reached(inside.at):
                made[steps[0]] = self.write(inside)
            return
        word, name = steps
        if made[word] is place.schema[word]:  # type: ignore[index]
            made[word] = {}
        made[word][ascii_classes(name) if word == "patternProperties" else name] = self.write(
            inside
        )

    def _are_apart(self, place: Place) -> bool:
        """Whether no two branches of `oneOf` can both match, so that it is `anyOf`."""
        listed = place.schema.get("oneOf")  # type: ignore[attr-defined]
        if not isinstance(listed, list):
            return False
        at = pointer(place.at, "oneOf")
        try:
            sides = [
                self._comparison.side((place.child("oneOf", index),))
                for index in range(len(listed))
            ]
            return all(self._comparison.apart(a, b, at) for a, b in combinations(sides, 2))
        except Refusal:  # not to be told
            return False

    def _is_reached(self, place: str) -> bool:
        """Whether a reference may lead into what an unknown word holds."""
        return self._anchored or any(
            each == place or each.startswith(place + "/") for each in self._references
        )


def _format(schema: dict[str, Any], at: str) -> None:
    """Write a format as what it means."""
    name = schema.pop("format", None)
    said = schema.get("type", ["string", "number"])
    kinds = said if isinstance(said, list) else [said]
    if not isinstance(name, str):
        return
    if name in STANDARD and "string" in kinds:
        if name not in FORMATS:
            raise Refusal(f"`format` {name!r} is not held", pointer(at, "format"))
        pattern = {"pattern": f"^(?:{FORMATS[name].regex})$"}
        if "pattern" in schema:
            schema["allOf"] = [*schema.get("allOf", ()), pattern]
        else:
            schema.update(pattern)
    elif name in WIDTHS and not {"integer", "number"}.isdisjoint(kinds):
        low, high = WIDTHS[name]
        schema["minimum"] = _further(max, schema.get("minimum"), _toward_zero(low))
        schema["maximum"] = _further(min, schema.get("maximum"), _toward_zero(high))


def _toward_zero(bound: int) -> int:
    """The next integer that a float is, for llguidance reads bounds as floats, and stops short
    of 64 bits."""
    if abs(bound) <= _EXACT:
        return bound
    size = abs(bound) - 1 >> 11 << 11
    return size if bound > 0 else -size


def _further(choose: Any, said: object, width: int) -> object:
    if said is None or isinstance(said, bool):
        return width
    return choose(said, width) if isinstance(said, (int, float)) else said


def _rounded(schema: dict[str, Any], at: str) -> None:
    for name in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"):
        value = schema.get(name)
        if isinstance(value, int) and abs(value) > _EXACT and abs(value) % (1 << 11):
            raise Refusal(f"`{name}` is not the float that is read for it", pointer(at, name))


def _counted(schema: dict[str, Any], at: str) -> None:
    least = schema.get("minProperties")
    is_open = schema.get("additionalProperties") is not False or schema.get("patternProperties")
    if isinstance(least, (int, float)) and least > 1 and is_open:
        raise Refusal(
            "`minProperties` over 1 of an open object is not held: a name may come twice",
            pointer(at, "minProperties"),
        )
