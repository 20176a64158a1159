"""Whether a constraint is within the operator's limits. Every refusal names its limit.

These are looked at before any engine is: they keep out what would take an engine seconds or
gigabytes. The compiling process has limits of time and memory besides, for what they miss.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from sglang_lite.config import GrammarLimits
from sglang_lite.errors import GrammarTooLarge, InvalidGrammar, UnsupportedGrammar
from sglang_lite.params import Constraint
from sglang_lite.runtime.grammar.estimate import expanded_size
from sglang_lite.runtime.grammar.refusal import Refusal
from sglang_lite.runtime.grammar.schema.parts import parts
from sglang_lite.runtime.grammar.schema.places import Place

_MANY = 1e18
COUNTS = (
    "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
    "minContains", "maxContains",
)  # fmt: skip


def check(constraint: Constraint, limits: GrammarLimits) -> Any:
    """Raise unless `constraint` is within `limits`; return its JSON, if it is JSON.

    Raises:
        GrammarTooLarge: a limit is passed.
        UnsupportedGrammar: a keyword that every engine would leave out of account.
        InvalidGrammar: it should be JSON and is not.
    """
    return _Check(constraint.kind, limits).run(constraint.source)


# Parentheses; what is escaped or in a class is taken as a whole, so that it counts for nothing.
_GROUPS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[()]", re.DOTALL)


class _Check:
    def __init__(self, kind: str, limits: GrammarLimits) -> None:
        self.kind, self.limits = kind, limits

    def run(self, source: str) -> Any:
        if self.kind == "regex":
            return self._regex(source)
        if self.kind == "ebnf":
            return self._at_most("grammar_bytes", len(source.encode()), "bytes of grammar")
        if self.kind == "json_object":
            return None
        value = self._parsed(source)
        if self.kind == "choice":
            self._choices(value)
        elif self.kind == "structural_tag":
            for schema in _tag_schemas(value):
                self._schema(schema)
        elif isinstance(value, (dict, bool)):
            self._schema(value)
        else:
            message = f"a JSON schema is an object (or true, false), got {source[:80]}."
            raise InvalidGrammar(message, param=self.kind)
        return value

    def _parsed(self, source: str) -> Any:
        try:
            return msgspec.json.decode(source)
        except RecursionError:
            raise self._too_deep() from None
        except msgspec.DecodeError as error:
            raise InvalidGrammar(f"`{self.kind}` is not JSON: {error}.", param=self.kind) from error

    def _regex(self, regex: str) -> None:
        self._at_most("regex_bytes", len(regex.encode()), "bytes of regex")
        depth = deepest = 0
        for part in _GROUPS.finditer(regex):
            depth += (part[0] == "(") - (part[0] == ")")
            deepest = max(deepest, depth)
        if deepest > 2 * self.limits.depth:  # many groups say nothing about nesting
            raise self._too_deep()
        self._at_most("repeat", max(_bounds(regex), default=0), "repetitions")
        self._at_most("expanded", expanded_size(regex), "atoms with repetitions written out")

    def _choices(self, choices: Any) -> None:
        fine = isinstance(choices, list) and all(isinstance(each, str) for each in choices)
        if not fine or not choices or "" in choices:
            raise InvalidGrammar("`choice` is a list of texts, none empty.", param="choice")
        self._at_most("choices", len(choices), "choices")

    def _schema(self, schema: Any) -> None:
        try:
            self._walk(schema, 0)
            size = _Sizes().of(Place.root(schema))
        except RecursionError:
            raise self._too_deep() from None
        self._at_most("expanded", size, "nodes with references and repetitions written out")

    def _walk(self, value: Any, depth: int) -> None:
        # A level of a schema is two of JSON: "properties", and a name in it.
        if depth > 2 * self.limits.depth:
            raise self._too_deep()
        if isinstance(value, list):
            for each in value:
                self._walk(each, depth + 1)
        elif isinstance(value, dict):
            self._keywords(value)
            for steps, each in parts(value):
                self._walk(each, depth + len(steps))

    def _keywords(self, schema: dict[str, Any]) -> None:
        if schema.get("nullable") is True:  # OpenAPI's; to JSON Schema it says nothing
            hint = 'write "type": ["string", "null"] instead.'
            message = f"`nullable` is no keyword of JSON Schema; {hint}"
            raise UnsupportedGrammar(message, param=self.kind)
        for name in COUNTS:
            count = schema.get(name)
            if isinstance(count, (int, float)) and not isinstance(count, bool):
                self._at_most("repeat", count, f"for `{name}`")
        for name, limit in (
            ("enum", "choices"), ("properties", "properties"),
            ("anyOf", "branches"), ("oneOf", "branches"), ("allOf", "branches"),
        ):  # fmt: skip
            if isinstance(schema.get(name), (list, dict)):
                self._at_most(limit, len(schema[name]), f"entries of `{name}`")
        if isinstance(schema.get("pattern"), str):
            self._regex(schema["pattern"])

    def _too_deep(self) -> GrammarTooLarge:
        return GrammarTooLarge(
            f"`{self.kind}` is nested deeper than {self.limits.depth} levels "
            "(--grammar-limit depth=...).",
            param=self.kind,
        )

    def _at_most(self, name: str, value: float, what: str) -> None:
        limit: int = getattr(self.limits, name)
        if value > limit:
            raise GrammarTooLarge(
                f"at most {limit:,} {what} are allowed, got {_shown(value)} "
                f"(--grammar-limit {name}=...).",
                param=self.kind,
            )


def _bounds(regex: str) -> Iterator[int]:
    """The numbers in {m,n}."""
    for part in regex.split("{")[1:]:
        for each in part.partition("}")[0].split(","):
            if each.strip().isascii() and each.strip().isdigit():
                yield int(each.strip()[:20])


def _tag_schemas(tags: Any) -> Iterator[Any]:
    structures = tags.get("structures") if isinstance(tags, dict) else None
    for each in structures if isinstance(structures, list) else ():
        if isinstance(each, dict) and "schema" in each:
            yield each["schema"]


def _shown(value: float) -> str:
    return f"{value:,.0f}" if value < _MANY else "far more"


class _Sizes:
    """Nodes of a schema with each local reference and each bounded array written out."""

    def __init__(self) -> None:
        self._of_target: dict[str, float] = {}

    def of(self, place: Place) -> float:
        value = place.schema
        if isinstance(value, list):
            return 1 + sum(self.of(place.child(index)) for index in range(len(value)))
        if not isinstance(value, dict):
            return 1
        size: float = 1
        for steps, each in parts(value):
            if steps == ("$ref",):
                size += self._referred(place, each)
            elif steps[0] not in ("$defs", "definitions"):
                size += self.of(place.child(*steps))
        items = value.get("maxItems", value.get("minItems"))
        if isinstance(items, int) and "items" in value:
            size += self.of(place.child("items")) * max(0, items - 1)
        return min(size, _MANY)

    def _referred(self, place: Place, reference: object) -> float:
        try:
            target = place.referred(reference)
        except Refusal:  # the engines say why
            return 1
        if target.at not in self._of_target:
            self._of_target[target.at] = 1  # of a reference to itself, seen from inside
            self._of_target[target.at] = self.of(target)
        return self._of_target[target.at]
