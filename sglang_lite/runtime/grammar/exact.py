"""What llguidance would hold more loosely than the schema says: said more plainly, or refused.

It knows neither widths of integers nor the calendar, reads the letters of classes in Unicode,
counts a name that comes twice as two, loses an exclusive bound near another one, and passes over
keywords of old drafts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from itertools import combinations
from typing import Any

from sglang_lite.runtime.grammar.refusal import Refusal
from sglang_lite.runtime.grammar.schema.combine import TYPES, Comparison, types
from sglang_lite.runtime.grammar.schema.conjunction import Flat, Flattener, branches
from sglang_lite.runtime.grammar.schema.formats import FORMATS, is_standard
from sglang_lite.runtime.grammar.schema.keywords import row_of, says_nothing
from sglang_lite.runtime.grammar.schema.numbers import WIDTHS
from sglang_lite.runtime.grammar.schema.parts import with_parts
from sglang_lite.runtime.grammar.schema.places import Place, pointer, split

_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
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
            yield split(reference)[1]
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

        def write(steps: tuple[str, ...], value: Any) -> Any:
            inside = place.child(*steps)
            counts = len(steps) > 1 or row_of(steps[0]) is not None or self._is_reached(inside.at)
            return self.write(inside) if counts else value

        made, flat = with_parts(schema, write), Flat(schema, place)
        for name in ("allOf", "anyOf"):
            flat.listing(name)
        flat.strings("required")  # closing relies on its shape, and on that of the lists
        if flat.listing("oneOf") and "anyOf" not in schema and self._are_apart(flat):
            made["anyOf"] = made.pop("oneOf")
        _patterns(made, flat)
        _format(made, flat)
        _counted(made, flat)
        _rounded(made, flat)
        _apart(place)
        return made

    def _are_apart(self, flat: Flat) -> bool:
        """Whether no two branches of `oneOf` can both match, so that it is `anyOf`."""
        at = pointer(flat.place.at, "oneOf")
        try:
            sides = [self._comparison.side((branch,)) for branch in branches(flat, "oneOf")]
            return all(self._comparison.apart(a, b, at) for a, b in combinations(sides, 2))
        except Refusal:  # not to be told
            return False

    def _is_reached(self, place: str) -> bool:
        """Whether a reference may lead into what an unknown word holds."""
        return self._anchored or any(
            each == place or each.startswith(place + "/") for each in self._references
        )


def _patterns(schema: dict[str, Any], flat: Flat) -> None:
    if isinstance(pattern := schema.get("pattern"), str):
        schema["pattern"] = ascii_classes(pattern)
    if named := flat.mapping("patternProperties"):
        plain = {ascii_classes(name): schema["patternProperties"][name] for name in named}
        if len(plain) < len(named):
            raise flat.bad("patternProperties", "has two patterns that are one in ASCII")
        schema["patternProperties"] = plain


def _format(schema: dict[str, Any], flat: Flat) -> None:
    """Write a format as what it means."""
    name, kinds = schema.pop("format", None), types([flat]) or TYPES
    if not isinstance(name, str):
        return
    if is_standard(name) and "string" in kinds:
        if name not in FORMATS:
            raise flat.bad("format", f"{name!r} is not held")
        pattern = {"pattern": f"^(?:{FORMATS[name].regex})$"}
        if "pattern" in schema:
            schema["allOf"] = [*schema.get("allOf", ()), pattern]
        else:
            schema.update(pattern)
    elif name in WIDTHS and ("integer" in kinds or "number" in kinds):
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


def _rounded(schema: dict[str, Any], flat: Flat) -> None:
    for name in (*_BOUNDS, "multipleOf"):
        value = schema.get(name)
        if isinstance(value, int) and abs(value) > _EXACT and abs(value) % (1 << 11):
            raise flat.bad(name, "is not the float that is read for it")


def _apart(place: Place) -> None:
    """Refuse a range of numbers with the same digits before the point, open at the one that has no
    others: 0 < x <= 0.5 would take 0."""
    bounds = list(_bounds(place, set()))
    for name, value, at in bounds:
        if not name.startswith("exclusive") or value % 1:
            continue
        for _, other, _ in bounds:
            if abs(value) < abs(other) and abs(value - other) < 1:
                raise Refusal(f"`{name}` {value} is not held so near to {other}", pointer(at, name))


def _bounds(place: Place, seen: set[str]) -> Iterator[tuple[str, float, str]]:
    """What a schema and those that hold beside it say of the size of a number."""
    schema = place.schema
    if not isinstance(schema, dict) or place.at in seen:
        return
    seen.add(place.at)
    for name in _BOUNDS:
        value = schema.get(name)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            yield name, value, place.at
    for name in ("allOf", "anyOf", "oneOf"):
        for inside in branches(Flat(schema, place), name):
            yield from _bounds(inside, seen)
    if "$ref" in schema:
        with suppress(Refusal):  # one that leads back here adds nothing
            yield from _bounds(place.referred(schema["$ref"]), seen)


def _counted(schema: dict[str, Any], flat: Flat) -> None:
    least = flat.count("minProperties") or 0
    is_open = schema.get("additionalProperties") is not False or schema.get("patternProperties")
    if least > 1 and is_open:
        raise flat.bad("minProperties", "over 1 of an open object: a name may come twice")
