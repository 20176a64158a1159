"""Schemas that must all hold, laid flat: references followed, `allOf` opened, annotations dropped.

A keyword means the same wherever in a conjunction it stands, so a flat list is all that the
writers need; what depends on its neighbours (`additionalProperties`, `items`) stays with them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from sglang_lite.runtime.grammar.refusal import Refusal
from sglang_lite.runtime.grammar.schema.keywords import row_of, says_nothing
from sglang_lite.runtime.grammar.schema.places import Place, pointer

MAX_VISITS = 5000
MAX_CARRIED = 100_000  # schemas laid flat before, and values named


@dataclass(frozen=True, slots=True)
class Flat:
    """What one schema itself says: keywords that are held, without references."""

    keywords: Mapping[str, object]
    place: Place

    def without(self, name: str) -> Flat:
        rest = {key: value for key, value in self.keywords.items() if key != name}
        return Flat(rest, self.place)

    def bad(self, name: str, what: str) -> Refusal:
        return Refusal(f"`{name}` {what}", pointer(self.place.at, name))

    def count(self, name: str) -> int | None:
        """The number of a keyword that counts; None if it is absent."""
        value = self.keywords.get(name)
        if value is None:
            return None
        if isinstance(value, float) and math.isfinite(value) and value == int(value):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.bad(name, f"is not a count but {value!r}")
        return value

    def listing(self, name: str) -> list[object]:
        value = self.keywords.get(name, [])
        if not isinstance(value, list):
            raise self.bad(name, "is not a list")
        return value

    def mapping(self, name: str) -> dict[str, object]:
        value = self.keywords.get(name, {})
        if not isinstance(value, dict):
            raise self.bad(name, "is not an object")
        return value

    def strings(self, name: str) -> list[str]:
        value = self.listing(name)
        if not all(isinstance(each, str) for each in value):
            raise self.bad(name, "is not a list of names")
        return [each for each in value if isinstance(each, str)]


Goal = tuple[Place | Flat, ...]  # what must hold, all of it


def branches(flat: Flat, name: str) -> list[Place]:
    """The schemas that `anyOf`, `oneOf` or `allOf` lists."""
    return [
        each if isinstance(each, Place) else flat.place.child(name, at)
        for at, each in enumerate(flat.listing(name))
    ]


def without_required(place: Place) -> Place | None:
    """The complement of a schema that says `required` and nothing else; None for any other."""
    schema = place.schema
    if not isinstance(schema, dict):
        return None
    said = [name for name, value in schema.items() if _speaks(place, name, value)]
    if said != ["required"]:
        return None
    names = Flat(schema, place).strings("required")
    absent = [{"properties": {name: False}} for name in names]
    return place.instead({"type": "object", "anyOf": absent})


class Flattener:
    """Lays goals flat within a budget of schemas looked at."""

    def __init__(self) -> None:
        self._visits = self._carried = 0

    def flatten(self, goal: Goal) -> list[Flat] | None:
        """What a goal says; None if it contains `false`."""
        flats: list[Flat] = []
        pending = list(reversed(goal))
        alone = goal[0] if len(goal) == 1 else None
        while pending:
            each = pending.pop()
            if isinstance(each, Flat):
                self.carry(1, each.place.at)
                flats.append(each)
                continue
            self._visit(each.at)
            if each.schema is False:
                return None
            if each.schema is not True:
                flat, more = _open(each, outermost=each is alone)
                flats.append(flat)
                pending.extend(reversed(more))
        return [flat for flat in flats if flat.keywords]

    def carry(self, count: int, at: str) -> None:
        """Count what is looked at again for each choice around it."""
        self._carried += count
        if self._carried > MAX_CARRIED:
            raise Refusal("too many choices within choices", at)

    def _visit(self, at: str) -> None:
        self._visits += 1
        if self._visits > MAX_VISITS:
            raise Refusal(f"more than {MAX_VISITS} schemas once references are followed", at)


def _open(place: Place, *, outermost: bool) -> tuple[Flat, list[Place]]:
    """What a schema says itself, and the schemas that must hold besides."""
    schema = place.schema
    if not isinstance(schema, dict):
        raise Refusal(f"a schema is an object or a boolean, not {schema!r:.60}", place.at)
    flat = Flat(
        {name: value for name, value in schema.items() if _speaks(place, name, value)}, place
    )
    unevaluated = flat.keywords.get("unevaluatedProperties")
    if unevaluated is not None and (unevaluated is not False or not outermost):
        raise flat.bad("unevaluatedProperties", "is held as `false`, at an outermost schema")
    more: list[Place] = []
    for name in _OPENED:
        if name in flat.keywords:
            more += _OPENED[name](flat)
            flat = flat.without(name)
    return flat, more


def _speaks(place: Place, name: str, value: object) -> bool:
    """Whether a keyword says something, by the table; refuses those that are not held."""
    row = row_of(name)
    if row is None or says_nothing(name, value):
        return False
    if not row.held:
        raise Refusal(f"`{name}` is {row.outlines}", pointer(place.at, name))
    return True


def _reference(flat: Flat) -> Iterable[Place]:
    return [flat.place.referred(flat.keywords["$ref"])]


def _all_of(flat: Flat) -> Iterable[Place]:
    return branches(flat, "allOf")


def _not(flat: Flat) -> Iterable[Place]:
    complement = without_required(flat.place.child("not"))
    if complement is None:
        raise flat.bad("not", "is held for `required` alone")
    return [complement]


def _dependencies(keyword: str, flat: Flat) -> Iterable[Place]:
    """Either the name is absent or what depends on it holds: a choice that may overlap."""
    for name, needed in flat.mapping(keyword).items():
        here = flat.place.child(keyword, name)
        absent = here.instead({"properties": {name: False}})
        if isinstance(needed, list):
            then = here.instead({"required": needed})
        else:
            then = here.instead({"required": [name], "allOf": [here]})
        yield here.instead({"anyOf": [absent, then]})


_OPENED: dict[str, Callable[[Flat], Iterable[Place]]] = {
    "$ref": _reference,
    "allOf": _all_of,
    "not": _not,
    "dependentRequired": partial(_dependencies, "dependentRequired"),
    "dependentSchemas": partial(_dependencies, "dependentSchemas"),
    "dependencies": partial(_dependencies, "dependencies"),
}
