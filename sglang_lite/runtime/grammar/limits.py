"""What a constraint may ask for at most, whatever the engine. Every refusal names its limit.

These are looked at before any engine is: they keep out what would take an engine seconds or
gigabytes. The compiling process has limits of time and memory besides, for what they miss.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from sglang_lite.errors import GrammarTooLarge, InvalidGrammar, UnsupportedGrammar
from sglang_lite.params import MAX_GRAMMAR_DEPTH, Constraint
from sglang_lite.runtime.grammar.estimate import expanded_size

MAX_REGEX_BYTES = 16 << 10
MAX_GRAMMAR_TEXT_BYTES = 64 << 10  # of Lark or GBNF
MAX_REPEAT = 10_000  # a bound of a repetition: {m,n}, maxLength, maxItems ...
MAX_EXPANDED = 1_000_000  # atoms of a regex, or nodes of a schema, with repetitions written out
MAX_CHOICES = 5_000
MAX_PROPERTIES = 512
MAX_BRANCHES = 256

VALUES = ("enum", "const", "default", "examples")  # keywords that hold values, not schemas
COUNTS = (
    "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
    "minContains", "maxContains",
)  # fmt: skip


def check(constraint: Constraint) -> Any:
    """Raise unless `constraint` is within every limit; return its JSON, if it is JSON.

    Raises:
        GrammarTooLarge: a limit is passed.
        UnsupportedGrammar: a keyword that every engine would leave out of account.
        InvalidGrammar: it should be JSON and is not.
    """
    kind, source = constraint.kind, constraint.source
    if kind == "regex":
        _check_regex(source, "regex")
        return None
    if kind == "ebnf":
        _at_most(len(source.encode()), MAX_GRAMMAR_TEXT_BYTES, "bytes of grammar text", kind)
        return None
    if kind == "json_object":
        return None
    value = _parse(source, kind)
    if kind == "choice":
        _check_choices(value)
    elif kind == "json_schema":
        if not isinstance(value, (dict, bool)):
            raise InvalidGrammar(
                f"a JSON schema is an object (or true, false), got {source[:80]}.", param=kind
            )
        _check_schema(value)
    else:
        for schema in _tag_schemas(value):
            _check_schema(schema)
    return value


def _parse(source: str, kind: str) -> Any:
    try:
        return msgspec.json.decode(source)
    except RecursionError:
        raise _too_deep(kind) from None
    except msgspec.DecodeError as error:
        raise InvalidGrammar(f"`{kind}` is not JSON: {error}.", param=kind) from error


def _check_regex(regex: str, kind: str) -> None:
    _at_most(len(regex.encode()), MAX_REGEX_BYTES, "bytes of a regex", kind)
    depth = deepest = 0
    for char in regex:
        depth += (char == "(") - (char == ")")
        deepest = max(deepest, depth)
    _at_most(deepest, 2 * MAX_GRAMMAR_DEPTH, "nested groups of a regex", kind)
    for bound in _bounds(regex):
        _at_most(bound, MAX_REPEAT, "repetitions", kind)
    _at_most(expanded_size(regex), MAX_EXPANDED, "atoms of a regex, repetitions written out", kind)


def _bounds(regex: str) -> Iterator[int]:
    """The numbers in {m,n}."""
    for part in regex.split("{")[1:]:
        inside = part.split("}")[0].split(",")
        if all(each.strip().isascii() and (not each.strip() or each.strip().isdigit())
               for each in inside):  # fmt: skip
            yield from (int(each[:20]) for each in inside if each.strip())


def _check_choices(choices: Any) -> None:
    fine = isinstance(choices, list) and all(isinstance(each, str) for each in choices)
    if not fine or not choices or "" in choices:
        raise InvalidGrammar("`choice` is a list of texts, none empty.", param="choice")
    _at_most(len(choices), MAX_CHOICES, "choices", "choice")


def _tag_schemas(tags: Any) -> Iterator[Any]:
    structures = tags.get("structures") if isinstance(tags, dict) else None
    for each in structures if isinstance(structures, list) else ():
        if isinstance(each, dict) and "schema" in each:
            yield each["schema"]


def _check_schema(schema: Any) -> None:
    _walk(schema, 0)
    _at_most(
        _Sizes(schema).of(schema), MAX_EXPANDED,
        "nodes of a schema, references and repetitions written out", "json_schema",
    )  # fmt: skip


def _walk(value: Any, depth: int) -> None:
    if (
        depth > 2 * MAX_GRAMMAR_DEPTH
    ):  # each level of a schema is two of JSON: "properties" and a name
        raise _too_deep("json_schema")
    if isinstance(value, list):
        for each in value:
            _walk(each, depth + 1)
    elif isinstance(value, dict):
        _check_keywords(value)
        for name, each in value.items():
            if name not in VALUES:
                _walk(each, depth + 1)


def _check_keywords(schema: dict[str, Any]) -> None:
    if schema.get("nullable") is True:  # OpenAPI's; to JSON Schema it says nothing
        raise UnsupportedGrammar(
            '`nullable` is no keyword of JSON Schema; write "type": ["string", "null"] instead.',
            param="json_schema",
        )
    for name in COUNTS:
        count = schema.get(name)
        if isinstance(count, (int, float)) and not isinstance(count, bool):
            _at_most(count, MAX_REPEAT, f"for `{name}`", "json_schema")
    for name, limit in (("enum", MAX_CHOICES), ("properties", MAX_PROPERTIES),
                        ("anyOf", MAX_BRANCHES), ("oneOf", MAX_BRANCHES),
                        ("allOf", MAX_BRANCHES)):  # fmt: skip
        if isinstance(schema.get(name), (list, dict)):
            _at_most(len(schema[name]), limit, f"entries of `{name}`", "json_schema")
    if isinstance(schema.get("pattern"), str):
        _check_regex(schema["pattern"], "json_schema")


class _Sizes:
    """Nodes of a schema with each local reference and each bounded array written out."""

    def __init__(self, root: Any) -> None:
        self._root = root
        self._of_reference: dict[str, float] = {}

    def of(self, value: Any) -> float:
        if isinstance(value, list):
            return 1 + sum(self.of(each) for each in value)
        if not isinstance(value, dict):
            return 1
        size: float = 1
        for name, each in value.items():
            if name == "$ref" and isinstance(each, str):
                size += self._referred(each)
            elif name not in ("$defs", "definitions", *VALUES):
                size += self.of(each)
        items = value.get("maxItems", value.get("minItems"))
        if isinstance(items, int) and "items" in value:
            size += self.of(value["items"]) * max(0, items - 1)
        return min(size, 1e18)

    def _referred(self, reference: str) -> float:
        if reference not in self._of_reference:
            self._of_reference[reference] = 1  # of a reference to itself, seen from inside
            self._of_reference[reference] = self.of(self._target(reference))
        return self._of_reference[reference]

    def _target(self, reference: str) -> Any:
        at = self._root
        for step in reference.removeprefix("#").split("/")[1:]:
            name = step.replace("~1", "/").replace("~0", "~")
            at = at.get(name) if isinstance(at, dict) else None
        return at


def _too_deep(kind: str) -> GrammarTooLarge:
    return GrammarTooLarge(
        f"`{kind}` is nested deeper than {MAX_GRAMMAR_DEPTH} levels.", param=kind
    )


def _at_most(value: float, limit: int, what: str, kind: str) -> None:
    if value > limit:
        message = f"at most {limit:,} {what} are allowed, got {value:,.0f}."
        raise GrammarTooLarge(message, param=kind)
