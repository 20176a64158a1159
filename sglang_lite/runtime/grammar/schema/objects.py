"""Objects: properties in the order of the schema, then others where they are allowed."""

from __future__ import annotations

from dataclasses import dataclass

from sglang_lite.runtime.grammar.characters import QUOTE, free_character
from sglang_lite.runtime.grammar.refusal import Refusal
from sglang_lite.runtime.grammar.schema.conjunction import Flat, Goal
from sglang_lite.runtime.grammar.schema.keys import any_but
from sglang_lite.runtime.grammar.schema.members import (
    MAX_COUNTED,
    MAX_OPTIONAL,
    Member,
    counted,
    mapped,
    members,
)
from sglang_lite.runtime.grammar.schema.places import Place
from sglang_lite.runtime.grammar.schema.strings import matching, spans
from sglang_lite.runtime.grammar.schema.values import spelled
from sglang_lite.runtime.grammar.schema.writer import Writer

MAX_PROPERTIES = 512


@dataclass(frozen=True, slots=True)
class Shape:
    """What every flat says of an object, taken together."""

    properties: dict[str, Goal]  # what a declared name must satisfy; () says nothing
    required: frozenset[str]
    rest: Goal  # what other names must satisfy; () says nothing
    sealed: bool  # nothing is allowed that is not declared
    low: int
    high: int | None


def shape(flats: list[Flat]) -> Shape:
    """The properties that all flats allow."""
    low, high = spans(flats, "minProperties", "maxProperties")
    required = {name: flat for flat in flats for name in flat.strings("required")}
    names = dict.fromkeys(name for flat in flats for name in flat.mapping("properties"))
    if len(names) > MAX_PROPERTIES:
        raise Refusal(f"{len(names)} properties; the limit is {MAX_PROPERTIES}", flats[0].place.at)
    rest = tuple(place for flat in flats if (place := _additional(flat)) is not None)
    properties: dict[str, Goal] = {}
    for name in (*names, *(name for name in required if name not in names)):
        places = (
            flat.place.child("properties", name)
            if name in flat.mapping("properties")
            else _additional(flat)
            for flat in flats
        )
        properties[name] = tuple(place for place in places if place is not None)
    sealed = any(place.schema is False for place in rest) or (
        # What `additionalProperties` allows has been evaluated.
        not rest and any(flat.keywords.get("unevaluatedProperties") is False for flat in flats)
    )
    return Shape(properties, frozenset(required), rest, sealed, low, high)


def _additional(flat: Flat) -> Place | None:
    if "additionalProperties" not in flat.keywords:
        return None
    return flat.place.child("additionalProperties")


def object_(flats: list[Flat], writer: Writer) -> str | None:
    """A regex for the objects that are valid; None if there are none."""
    found = shape(flats)
    if any(flat.mapping("patternProperties") for flat in flats):
        body = _patterned(found, flats, writer)
    elif found.properties:
        body = _declared(found, flats, writer)
    else:
        body = _map(found, flats, writer)
    if body is None:
        return None
    return rf"\{{{writer.whitespace}{body}{writer.whitespace if body else ''}\}}"


def _declared(found: Shape, flats: list[Flat], writer: Writer) -> str | None:
    for flat in flats:
        if "propertyNames" in flat.keywords:
            raise flat.bad("propertyNames", "beside `properties` is not held")
    declared = []
    for name, goal in found.properties.items():
        value = _value(name, goal, found, flats, writer)
        if value is not None:
            key = spelled(name, "", writer.alphabet)
            pair = f"{key}{writer.whitespace}:{writer.whitespace}{value}"
            declared.append(Member(pair, name in found.required))
        elif name in found.required:
            return None
    value = _other(found, flats, writer)
    if value is None:
        return _closed(declared, found, flats, writer)
    low, high = found.low, found.high
    if high is not None or low > max(1, len(found.required)):
        keyword = "maxProperties" if high is not None else "minProperties"
        raise _saying(keyword, flats).bad(keyword, "beside `additionalProperties` is not held")
    key = any_but(found.properties, writer.alphabet)
    other = f"{key}{writer.whitespace}:{writer.whitespace}{value}"
    _refuse_many(declared, flats)
    return members(declared, other, writer.comma, some=low > 0)


def _value(name: str, goal: Goal, found: Shape, flats: list[Flat], writer: Writer) -> str | None:
    if goal:
        return writer.write(goal)
    flat = next(flat for flat in flats if name in flat.strings("required"))
    if found.sealed:
        return None
    raise flat.bad(
        "required", f"names {name!r}, which has no schema: free-form JSON is not regular"
    )


def _closed(declared: list[Member], found: Shape, flats: list[Flat], writer: Writer) -> str | None:
    """The declared members and no others."""
    required = sum(member.required for member in declared)
    low, high = found.low, len(declared) if found.high is None else found.high
    if high < required or (found.sealed and low > len(declared)):
        return None
    if low > len(declared):
        raise _saying("minProperties", flats).bad(
            "minProperties", "asks for properties that no schema describes"
        )
    if low <= max(1, required) and high >= len(declared):
        _refuse_many(declared, flats)
        return members(declared, None, writer.comma, some=low > 0)
    if len(declared) - required > MAX_COUNTED or len(declared) > MAX_OPTIONAL:
        keyword = "minProperties" if low > max(1, required) else "maxProperties"
        raise _saying(keyword, flats).bad(
            keyword, f"is held for at most {MAX_COUNTED} optional properties"
        )
    return counted(declared, low, high, writer.comma)


def _map(found: Shape, flats: list[Flat], writer: Writer) -> str | None:
    """An object whose names are not declared."""
    value = _other(found, flats, writer)
    names = tuple(
        flat.place.child("propertyNames") for flat in flats if "propertyNames" in flat.keywords
    )
    key: str | None = f"{QUOTE}{free_character(writer.alphabet)}*{QUOTE}"
    if names and value is not None:
        key = writer.write((Flat({"type": "string"}, flats[0].place), *names))
    return _mapped(key, value, found, flats, writer)


def _patterned(found: Shape, flats: list[Flat], writer: Writer) -> str | None:
    """An object whose names all match one pattern."""
    flat = next(flat for flat in flats if flat.mapping("patternProperties"))
    patterns = flat.mapping("patternProperties")
    alone = all(
        "propertyNames" not in each.keywords
        and (each is flat or not each.mapping("patternProperties"))
        for each in flats
    )
    if len(patterns) > 1 or found.properties or not alone:
        raise flat.bad("patternProperties", "is held for one pattern without other names")
    if _other(found, flats, writer) is not None:
        raise flat.bad("patternProperties", "beside `additionalProperties` is not held")
    [pattern] = patterns
    place = flat.place.child("patternProperties", pattern)
    key = matching(pattern, place.at, writer.alphabet)
    return _mapped(key, writer.write((place,)), found, flats, writer)


def _mapped(
    key: str | None, value: str | None, found: Shape, flats: list[Flat], writer: Writer
) -> str | None:
    low, high = found.low, found.high
    if high is not None and low > high:
        return None
    if key is None or value is None:
        return "" if low == 0 else None
    if low > 1:
        # A name may come twice, and counts once.
        raise _saying("minProperties", flats).bad("minProperties", "of a map is held up to 1")
    if high is not None and high > MAX_PROPERTIES:
        raise _saying("maxProperties", flats).bad("maxProperties", f"is over {MAX_PROPERTIES}")
    pair = f"{key}{writer.whitespace}:{writer.whitespace}{value}"
    return mapped(pair, low, high, writer.comma)


def _other(found: Shape, flats: list[Flat], writer: Writer) -> str | None:
    """The values of names that are not declared; None if there are no such names."""
    if found.sealed:
        return None
    if found.rest:
        return writer.write(found.rest)
    flat = flats[0]
    if not writer.closed:
        raise flat.bad("additionalProperties", "says nothing: free-form JSON is not regular")
    if not any(
        name in flat.keywords for flat in flats for name in ("properties", "patternProperties")
    ):
        raise Refusal("an object of anything: free-form JSON is not regular", flat.place.at)
    writer.notes.add("objects without additionalProperties allow no other properties")
    return None


def _refuse_many(declared: list[Member], flats: list[Flat]) -> None:
    if len(declared) > MAX_OPTIONAL and not any(member.required for member in declared):
        raise _saying("properties", flats).bad(
            "properties",
            f"has {len(declared)} optional ones and none required; the limit is {MAX_OPTIONAL}",
        )


def _saying(keyword: str, flats: list[Flat]) -> Flat:
    return next(flat for flat in flats if keyword in flat.keywords)
