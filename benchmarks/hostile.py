"""Constraints that would cost an engine seconds or gigabytes, and a word of the limit that each
passes. The last ones look harmless to any limit of size: the compiling process must be ended."""

from __future__ import annotations

from typing import Any


def nested(depth: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


def boxes(depth: int, size: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(depth):
        schema = {"type": "array", "items": schema, "minItems": size, "maxItems": size}
    return schema


def fan(depth: int) -> dict[str, Any]:
    definitions: dict[str, Any] = {f"a{depth}": {"type": "integer"}}
    for at in range(depth):
        both = {name: {"$ref": f"#/$defs/a{at + 1}"} for name in "xy"}
        definitions[f"a{at}"] = {"type": "object", "properties": both, "required": ["x", "y"]}
    return {"$defs": definitions, "$ref": "#/$defs/a0"}


def choosing(word: str, depth: int, width: int) -> dict[str, Any]:
    if not depth:
        return {"type": "string"}
    inner = choosing(word, depth - 1, width)
    each = [{"type": "object", "properties": {f"p{at}": inner}} for at in range(width)]
    return {word: each}  # all of them take {}


Hostile = dict[str, tuple[str, Any, str]]  # name -> kind, source, a word of the refusal

SIZES: Hostile = {
    "nested counts": ("regex", "((((a{1,50}){1,50}){1,50}){1,50})", "repetitions written out"),
    "a long dot": ("regex", ".{0,100000}", "repetitions"),
    "a long literal": ("regex", "ab" * 50_000, "regex_bytes"),
    "deep groups": ("regex", "(" * 3_000 + "a" + ")" * 3_000, "nested deeper"),
    "maxLength": ("json_schema", {"type": "string", "maxLength": 10**6}, "maxLength"),
    "minLength": ("json_schema", {"type": "string", "minLength": 10**5}, "minLength"),
    "huge bound": ("json_schema", {"type": "string", "maxLength": 10**300}, "maxLength"),
    "maxItems": (
        "json_schema",
        {"type": "array", "items": {"type": "string"}, "maxItems": 10**6},
        "maxItems",
    ),
    "boxes": ("json_schema", boxes(4, 50), "written out"),
    "enum": ("json_schema", {"enum": [f"v{i}" for i in range(20_000)]}, "entries of `enum`"),
    "choices": ("choice", [f"v{i}" for i in range(6_000)], "choices"),
    "nesting": ("json_schema", nested(200), "nested deeper"),
    "deep JSON": ("json_schema", '{"a":' * 5_000 + "1" + "}" * 5_000, "nested deeper"),
    "properties": (
        "json_schema",
        {"type": "object", "properties": {f"k{i}": {"type": "null"} for i in range(1_000)}},
        "entries of `properties`",
    ),
    "fan": ("json_schema", fan(25), "written out"),
    "pattern": ("json_schema", {"type": "string", "pattern": "a{1,200000}"}, "repetitions"),
    "oneOf": ("json_schema", choosing("oneOf", 4, 6), "oneOf"),
    "itself": ("json_schema", {"$ref": "#"}, "exactly"),
    "grammar": ("ebnf", 'start: "a"\n' * 10_000, "grammar_bytes"),
}
TIME: Hostile = {
    "doubling": ("regex", "(a|b)*a(a|b){18}", "--grammar-compile-seconds"),
}
