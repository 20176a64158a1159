"""From a JSON schema to a regex for the texts of its valid instances, or a refusal.

Every schema is a conjunction: itself, what it refers to, what it is merged with. A conjunction is
laid flat, its choices are tried one by one, and what is left is written type by type. A narrower
language than the schema's may come out, and a note says so; never a wider one.
"""

from __future__ import annotations

from typing import NamedTuple

from sglang_lite.params import MAX_GRAMMAR_DEPTH
from sglang_lite.runtime.grammar.characters import spells_json
from sglang_lite.runtime.grammar.codepoints import Ranges, either
from sglang_lite.runtime.grammar.patterns import MAX_REGEX
from sglang_lite.runtime.grammar.refusal import Refusal
from sglang_lite.runtime.grammar.schema.arrays import array
from sglang_lite.runtime.grammar.schema.combine import Comparison, accepts, implied_types, types
from sglang_lite.runtime.grammar.schema.conjunction import (
    Flat,
    Flattener,
    Goal,
    branches,
    without_required,
)
from sglang_lite.runtime.grammar.schema.numbers import integer, number
from sglang_lite.runtime.grammar.schema.objects import object_
from sglang_lite.runtime.grammar.schema.places import Place
from sglang_lite.runtime.grammar.schema.strings import string
from sglang_lite.runtime.grammar.schema.values import holds, named_values, spelled
from sglang_lite.runtime.grammar.schema.writer import Notes


class Held(NamedTuple):
    """What a schema became, and in what it is narrower."""

    regex: str
    notes: tuple[str, ...]


def to_regex(schema: object, *, whitespace: str, closed: bool, alphabet: Ranges) -> Held:
    """A Rust regex for JSON texts that are valid by `schema`, draft 2020-12.

    Args:
        whitespace: a regex for what may stand between two tokens of JSON.
        closed: an object that is silent on `additionalProperties` allows none.
        alphabet: the characters that can be spelled.

    Raises:
        Refusal: it is not held exactly; the pointer says where.
    """
    if not spells_json(alphabet):
        raise Refusal("the vocabulary cannot spell JSON", "")
    front = _Front(whitespace, closed, alphabet)
    try:
        regex = front.write((Place.root(schema),))
    except RecursionError as error:
        raise Refusal("nested too deep", "") from error
    if regex is None:
        raise Refusal("no instance is valid", "")
    return Held(regex, front.notes.all())


class _Front:
    """Writes goals; see `Writer`."""

    def __init__(self, whitespace: str, closed: bool, alphabet: Ranges) -> None:
        self.whitespace, self.closed, self.alphabet = whitespace, closed, alphabet
        self.comma = f"{whitespace},{whitespace}"
        self.notes = Notes()
        self._flattener = Flattener()
        self._comparison = Comparison(self._flattener, closed=closed)
        self._depth = 0

    def write(self, goal: Goal) -> str | None:
        """A regex for the instances that are valid; None if there are none."""
        at = _at(goal)
        if self._depth == MAX_GRAMMAR_DEPTH:
            raise Refusal(f"nested deeper than {MAX_GRAMMAR_DEPTH}", at)
        self._depth += 1
        flats = self._flattener.flatten(goal)
        try:
            regex = None if flats is None else self._chosen(flats, at)
        except Refusal as refusal:
            if refusal.pointer is None:
                raise Refusal(refusal.reason, at) from refusal
            raise
        self._depth -= 1
        if regex is not None and len(regex) > MAX_REGEX:
            raise Refusal(f"a regex of more than {MAX_REGEX} characters", at)
        return regex

    def _chosen(self, flats: list[Flat], at: str) -> str | None:
        """One choice after the other is made, then all is plain."""
        for flat in flats:
            for name in ("anyOf", "oneOf"):
                if name in flat.keywords:
                    return self._choice(flat, name, flats)
        return self._plain(flats, at)

    def _choice(self, flat: Flat, name: str, flats: list[Flat]) -> str | None:
        rest = tuple(each.without(name) if each is flat else each for each in flats)
        goals: list[Goal] = [(*rest, branch) for branch in branches(flat, name)]
        if name == "oneOf":
            goals = self._exclusive(flat, goals)
        options = dict.fromkeys(regex for goal in goals if (regex := self.write(goal)) is not None)
        return either(list(options)) if options else None

    def _exclusive(self, flat: Flat, goals: list[Goal]) -> list[Goal]:
        """The branches of `oneOf`, each without what is valid by another."""
        sides = [self._comparison.side(goal) for goal in goals]
        exclusive = []
        for at, goal in enumerate(goals):
            for other, branch in enumerate(branches(flat, "oneOf")):
                if at == other or self._comparison.apart(sides[at], sides[other], flat.place.at):
                    continue
                complement = without_required(branch)
                if complement is None:
                    reason = f"has branches {at} and {other}, which may both match"
                    raise flat.bad("oneOf", reason)
                goal = (*goal, complement)
            exclusive.append(goal)
        return exclusive

    def _plain(self, flats: list[Flat], at: str) -> str | None:
        """A schema without choices: the values it names, or one type after the other."""
        allowed = types(flats)
        named = named_values(flats)
        if named is not None:
            self._flattener.carry(len(named), at)
            held = (
                value for value in named.values() if accepts(allowed, value) and holds(value, flats)
            )
            options = [spelled(value, self.whitespace, self.alphabet) for value in held]
            return either(options) if options else None
        if allowed is not None:
            return self._by_type(allowed, flats)
        implied = implied_types(flats)
        if not implied:
            raise Refusal("anything at all: free-form JSON is not regular", at)
        self.notes.add("a schema without type is held for the types that its keywords speak of")
        regex = self._by_type(implied, flats)
        if regex is None:
            raise Refusal("only other types than its keywords speak of are valid", at)
        return regex

    def _by_type(self, kinds: list[str], flats: list[Flat]) -> str | None:
        written = (self._typed(kind, flats) for kind in kinds)
        options = [regex for regex in written if regex is not None]
        return either(options) if options else None

    def _typed(self, kind: str, flats: list[Flat]) -> str | None:
        if kind == "string":
            return string(flats, self.alphabet)
        if kind == "object":
            return object_(flats, self)
        if kind == "array":
            return array(flats, self)
        if kind == "integer":
            return integer(flats)
        if kind == "number":
            return number(flats, self.notes)
        return "null" if kind == "null" else "(?:true|false)"


def _at(goal: Goal) -> str:
    last = goal[-1]
    return last.place.at if isinstance(last, Flat) else last.at
