"""Types that schemas agree on, and whether two schemas can both be valid."""

from __future__ import annotations

from functools import cached_property

from sglang_lite.runtime.grammar.refusal import Refusal
from sglang_lite.runtime.grammar.schema import arrays, numbers, objects, strings
from sglang_lite.runtime.grammar.schema.conjunction import Flat, Flattener, Goal
from sglang_lite.runtime.grammar.schema.keywords import row_of
from sglang_lite.runtime.grammar.schema.values import holds, named_values, type_of

TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
_MAX_ITEMS = 8  # at the head of two arrays that are compared
_MAX_PAIRS = 20_000
_MAX_DEPTH = 4  # of schemas below two that are compared


def types(flats: list[Flat]) -> list[str] | None:
    """The types that every `type` allows, `number` with integers in it; None if none says."""
    found: set[str] | None = None
    for flat in flats:
        if "type" not in flat.keywords:
            continue
        value = flat.keywords["type"]
        listed = value if isinstance(value, list) else [value]
        for each in listed:
            if each not in TYPES:
                raise flat.bad("type", f"is {each!r}, which is no type of JSON")
        here = {*listed, *(["integer"] if "number" in listed else [])}
        found = here if found is None else found & here
    if found is None:
        return None
    return [
        each for each in TYPES if each in found and not (each == "integer" and "number" in found)
    ]


def implied_types(flats: list[Flat]) -> list[str]:
    """The types that the keywords speak of."""
    rows = [row_of(name) for flat in flats for name in flat.keywords]
    families = {row.family for row in rows if row is not None}
    return [each for each in TYPES if each in families]


def accepts(allowed: list[str] | None, value: object) -> bool:
    """Whether a value is of one of the types."""
    return allowed is None or type_of(value) in _kinds(allowed)


class Side:
    """A conjunction that is compared with others, looked at once."""

    def __init__(self, flattener: Flattener, goal: Goal) -> None:
        self._flattener = flattener
        flats = flattener.flatten(goal)
        self.empty, self.flats = flats is None, flats or []
        self.named = named_values(self.flats)
        self._below: dict[str | int, Side] = {}

    @cached_property
    def object(self) -> objects.Shape:
        return objects.shape(self.flats)

    @cached_property
    def array(self) -> arrays.Shape:
        return arrays.shape(self.flats)

    def property(self, name: str) -> Side:
        return self._child(name, self.object.properties[name])

    def item(self, at: int) -> Side:
        return self._child(at, self.array.item(at))

    def _child(self, step: str | int, goal: Goal) -> Side:
        if step not in self._below:
            self._below[step] = Side(self._flattener, goal)
        return self._below[step]


class Comparison:
    """Shows that what is written for one schema is never valid by another.

    What is written may be narrower than the schema: an object that is closed by policy has no
    names but its own, and (`implied`) a schema without `type` is only for the types it speaks of.
    So the question has a direction.
    """

    def __init__(self, flattener: Flattener, *, closed: bool, implied: bool = True) -> None:
        self._flattener, self._closed, self._implied = flattener, closed, implied
        self._pairs = 0

    def side(self, goal: Goal) -> Side:
        return Side(self._flattener, goal)

    def apart(self, written: Side, other: Side, at: str) -> bool:
        """Whether that is sure; choices within are taken as if they said nothing."""
        self._pairs += 1
        if self._pairs > _MAX_PAIRS:
            raise Refusal(f"more than {_MAX_PAIRS} pairs of branches to compare", at)
        return self._apart(written, other, 0)

    def _apart(self, ours: Side, theirs: Side, depth: int) -> bool:
        if ours.empty or theirs.empty:
            return True
        if ours.named is not None:
            named = ours.named.items()
            return all(not _valid(key, value, theirs.flats, theirs.named) for key, value in named)
        if theirs.named is not None:
            named = theirs.named.items()
            return all(not _valid(key, value, ours.flats, None) for key, value in named)
        mine = _kinds(self._written_types(ours.flats))
        common = mine & _kinds(types(theirs.flats) or list(TYPES))
        return bool(mine) and all(self._kind_apart(kind, ours, theirs, depth) for kind in common)

    def _written_types(self, flats: list[Flat]) -> list[str]:
        """The types that are written; none if choices within decide."""
        found = types(flats)
        if found is not None:
            return found
        if not self._implied:
            return list(TYPES)
        return [] if _chooses(flats) else implied_types(flats)

    def _kind_apart(self, kind: str, ours: Side, theirs: Side, depth: int) -> bool:
        both = [*ours.flats, *theirs.flats]
        if kind in ("integer", "number"):
            return numbers.bounds(both).empty
        if kind == "string":
            low, high = strings.lengths(both)
            return high is not None and low > high
        if kind == "array":
            return self._arrays_apart(ours, theirs, depth)
        return kind == "object" and self._objects_apart(ours, theirs, depth)

    def _arrays_apart(self, ours: Side, theirs: Side, depth: int) -> bool:
        low = max(ours.array.low, theirs.array.low)
        if any(high is not None and low > high for high in (ours.array.high, theirs.array.high)):
            return True
        return depth < _MAX_DEPTH and any(
            self._apart(ours.item(at), theirs.item(at), depth + 1)
            for at in range(min(low, _MAX_ITEMS))
        )

    def _objects_apart(self, ours: Side, theirs: Side, depth: int) -> bool:
        mine, other = ours.object, theirs.object
        if self._has_only_names(ours) and not other.required <= mine.properties.keys():
            return True
        shared = (mine.required | other.required) & mine.properties.keys() & other.properties.keys()
        return depth < _MAX_DEPTH and any(
            self._apart(ours.property(name), theirs.property(name), depth + 1)
            for name in sorted(shared)
        )

    def _has_only_names(self, ours: Side) -> bool:
        """Whether an object that is written has declared names only."""
        if _chooses(ours.flats) or any("patternProperties" in flat.keywords for flat in ours.flats):
            return False
        return ours.object.sealed or (self._closed and not ours.object.rest)


def _kinds(listed: list[str]) -> set[str]:
    """Types of which `number` includes integers."""
    return {*listed, *(["integer"] if "number" in listed else [])}


def _chooses(flats: list[Flat]) -> bool:
    return any(name in flat.keywords for flat in flats for name in ("anyOf", "oneOf"))


def _valid(key: str, value: object, flats: list[Flat], named: dict[str, object] | None) -> bool:
    """Whether a value may be valid: by the values named, by its type, by simple keywords."""
    if (named is not None and key not in named) or not accepts(types(flats), value):
        return False
    try:
        return holds(value, flats)
    except Refusal:
        return True
