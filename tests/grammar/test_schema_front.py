"""What is written for a schema: `jsonschema` is the judge of every text that it matches."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from sampling import compiled, sample
from schemas import any_schema, closed, ordered, plain
from variants import compact, variants

from sglang_lite.runtime.grammar.codepoints import CHARACTERS, complement, of
from sglang_lite.runtime.grammar.refusal import Refusal
from sglang_lite.runtime.grammar.schema import Held, to_regex

BOUNDED = r"(?: |\n[ \t]{0,20})?"


def held(schema: Any, whitespace: str = "", *, closed: bool = True) -> Held:
    return to_regex(schema, whitespace=whitespace, closed=closed, alphabet=CHARACTERS)


def written_as_held(value: Any) -> bool:
    """Whether its numbers have no exponent and few digits, and its integers no point."""
    return not re.search(r"\d[eE]|\.0(?!\d)|\.\d{13}|\\u|Infinity", compact(value))


@settings(deadline=None, derandomize=True, max_examples=400)
@given(any_schema, st.randoms(use_true_random=False))
def test_nothing_that_is_matched_is_invalid(schema: dict[str, Any], random: Random) -> None:
    try:
        regex = held(schema).regex
    except Refusal:
        assume(False)
    validator, matcher = Draft202012Validator(schema), compiled(regex)

    for _ in range(4):
        text = sample(regex, random)
        assert matcher.fullmatch(text)
        for value in variants(json.loads(text), random):
            if matcher.fullmatch(compact(value)):
                assert validator.is_valid(value), value


@settings(deadline=None, derandomize=True, max_examples=400)
@given(plain, st.randoms(use_true_random=False))
def test_what_is_valid_is_matched(schema: dict[str, Any], random: Random) -> None:
    """Within the policy of closed objects, and in the order of the schema."""
    try:
        regex = held(schema).regex
    except Refusal:
        assume(False)
    judge, matcher = Draft202012Validator(closed(schema)), compiled(regex)

    for value in variants(json.loads(sample(regex, random)), random):
        if judge.is_valid(value) and written_as_held(value):
            assert matcher.fullmatch(compact(ordered(value, schema))), value


TREE = {"type": "object", "properties": {"next": {"$ref": "#"}, "v": {"type": "integer"}}}
POINT = {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}}}


def examples() -> Iterator[tuple[Any, list[str], list[str]]]:
    text = (Path(__file__).parent / "schemas.txt").read_text()
    for block in text.split("\n\n")[1:]:
        schema, matches, fails = block.strip("\n").split("\n")
        yield json.loads(schema), matches.split("  ")[2:], fails.split("  ")[2:]


@pytest.mark.parametrize(("schema", "matches", "fails"), list(examples()), ids=str)
def test_examples(schema: dict[str, Any], matches: list[str], fails: list[str]) -> None:
    matcher = compiled(held(schema).regex)

    assert [text for text in matches if not matcher.fullmatch(text)] == []
    assert [text for text in fails if matcher.fullmatch(text)] == []
    if "exclusiveMinimum" not in schema or schema["exclusiveMinimum"] is not True:
        assert all(
            Draft202012Validator(tuples(schema)).is_valid(json.loads(text)) for text in matches
        )


def tuples(schema: dict[str, Any]) -> dict[str, Any]:
    """A list of `items` in the words of draft 2020-12."""
    if not isinstance(schema.get("items"), list):
        return schema
    return {"type": "array", "prefixItems": schema["items"], "items": schema["additionalItems"]}


@pytest.mark.parametrize(
    ("schema", "reason", "pointer"),
    [
        (True, "free-form", ""),
        ({}, "free-form", ""),
        (False, "no instance is valid", ""),
        ({"type": "object"}, "free-form", ""),
        ({"type": "array"}, "free-form", "/items"),
        ({"type": "object", "properties": {"a": {}}}, "free-form", "/properties/a"),
        (
            {"type": "object", "properties": {"a": {"description": "d"}}},
            "free-form",
            "/properties/a",
        ),
        ({"anyOf": [{"type": "null"}, {}]}, "free-form", "/anyOf/1"),
        ({"type": "object", "required": ["a"]}, "no schema", "/required"),
        ({"type": "thing"}, "no type of JSON", "/type"),
        ({"type": "string", "nullable": True}, "null", "/nullable"),
        ({"if": {}, "then": False}, "complement", "/if"),
        (
            {"allOf": [{**POINT, "unevaluatedProperties": False}, {"properties": {"z": {}}}]},
            "outermost",
            "/allOf/0/unevaluatedProperties",
        ),
        ({"not": {"type": "null"}}, "`required` alone", "/not"),
        ({"type": "array", "items": {"type": "null"}, "contains": {}}, "refused", "/contains"),
        (
            {"type": "array", "items": {"type": "null"}, "uniqueItems": True},
            "not regular",
            "/uniqueItems",
        ),
        (TREE, "recursion", "/properties/next/$ref"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, "itself", "/$defs/a/$ref"),
        ({"$ref": "other.json"}, "another document", "/$ref"),
        ({"$ref": "#/$defs/none"}, "nothing", "/$ref"),
        ({"$ref": "#none"}, "no `$anchor`", "/$ref"),
        ({"$ref": 1}, "not a string", "/$ref"),
        ({"type": "string", "format": "hostname"}, "'hostname'", "/format"),
        ({"type": "string", "format": ["date"]}, "not a string", "/format"),
        ({"type": "string", "format": "date", "pattern": "a"}, "another", "/format"),
        ({"type": "string", "format": "email", "maxLength": 9}, "length", "/format"),
        ({"type": "string", "pattern": "(?=a)"}, "assert", "/pattern"),
        ({"type": "string", "maxLength": 1001}, "1001; the limit is 1000", "/maxLength"),
        ({"type": "string", "minLength": 5000}, "5000", "/minLength"),
        ({"type": "string", "minLength": "3"}, "not a count", "/minLength"),
        ({"type": "array", "items": {"type": "null"}, "maxItems": 1500}, "1500", "/maxItems"),
        (
            {"type": "array", "prefixItems": [{"type": "null"}] * 101, "items": False},
            "100",
            "/prefixItems",
        ),
        ({"type": "integer", "minimum": 10**50}, "40 digits", "/minimum"),
        ({"type": "integer", "minimum": 1e300}, "too large a float", "/minimum"),
        ({"type": "integer", "minimum": "1"}, "not a number", "/minimum"),
        ({"type": "integer", "multipleOf": 7}, "of 7", "/multipleOf"),
        ({"type": "number", "multipleOf": 0.1}, "whole", "/multipleOf"),
        ({"enum": list(range(5001))}, "5001", "/enum"),
        ({"enum": [1e300]}, "not exact", ""),
        ({"enum": ["a"], "pattern": "a"}, "beside", "/pattern"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, "may both match", "/oneOf"),
        ({"oneOf": [POINT, {**POINT, "required": ["x"]}]}, "may both match", "/oneOf"),
        (
            {"type": "object", "properties": {f"p{n}": {"type": "null"} for n in range(41)}},
            "41",
            "/properties",
        ),
        (
            {"type": "object", "properties": {f"p{n}": {"type": "null"} for n in range(513)}},
            "513",
            "",
        ),
        (
            {"type": "object", "additionalProperties": {"type": "null"}, "minProperties": 2},
            "up to 1",
            "/minProperties",
        ),
        ({**POINT, "additionalProperties": True}, "free-form", "/additionalProperties"),
        ({**POINT, "minProperties": 3}, "no schema describes", "/minProperties"),
        ({"type": "object", "properties": [1]}, "not an object", "/properties"),
        ({"type": "object", "properties": {"a": 1}}, "a schema is", "/properties/a"),
        (
            {"type": "object", "properties": {"a": {"required": True}}},
            "not a list",
            "/properties/a/required",
        ),
        ({"type": "object", "properties": {"\ud800": {"type": "null"}}}, "U+D800", ""),
        ({"anyOf": {}}, "not a list", "/anyOf"),
        ({"minLength": 2, "maxLength": 1}, "only other types", ""),
    ],
)
def test_refusals_say_what_and_where(schema: Any, reason: str, pointer: str) -> None:
    with pytest.raises(Refusal) as caught:
        held(schema)

    assert reason in caught.value.reason
    assert caught.value.pointer == pointer


def nested(levels: int, inside: str, **around: Any) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "null"}
    for _ in range(levels):
        schema = {**around, inside: [schema] if inside.endswith("Of") else schema}
    return schema


def doubled(levels: int) -> dict[str, Any]:
    shared: dict[str, Any] = {"d0": {"type": "null"}}
    for level in range(levels):
        both = {name: {"$ref": f"#/$defs/d{level}"} for name in "ab"}
        shared[f"d{level + 1}"] = {"type": "object", "properties": both}
    return {"$ref": f"#/$defs/d{levels}", "$defs": shared}


def branching(levels: int) -> dict[str, Any]:
    flag = {"anyOf": [{"required": ["x"]}, {"required": ["y"]}]}
    return {**POINT, "allOf": [flag] * levels}


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        (nested(200, "items", type="array"), "nested deeper than 64"),
        (nested(20_000, "items", type="array"), "nested deeper than 64"),
        (nested(200, "anyOf"), "nested deeper than 64"),
        (doubled(25), "more than"),
        (branching(25), "more than 5000"),
        ({"oneOf": [{"const": str(n)} for n in range(200)]}, "pairs of branches"),
        ({"enum": [f"{n:0100}" for n in range(5000)]}, "200000 characters"),
        ({"enum": list(range(5000)), "anyOf": [{"type": "integer"}] * 4000}, "choices within"),
        ({"const": json.loads("[" * 800 + "]" * 800)}, "nested"),
    ],
)
def test_hostile_schemas_are_refused_at_once(schema: dict[str, Any], reason: str) -> None:
    with pytest.raises(Refusal) as caught:
        held(schema)

    assert reason in caught.value.reason


def test_a_long_chain_of_references_is_followed() -> None:
    chain = {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(300)}

    assert held({"$ref": "#/$defs/d0", "$defs": {**chain, "d300": {"const": 1}}}).regex == "1"
    assert held(nested(1000, "allOf")).regex == "null"


def test_notes_are_made_where_a_policy_was_used() -> None:
    strict = {**POINT, "additionalProperties": False}

    assert held(strict).notes == ()
    assert held(strict, closed=False).notes == ()
    assert held({"anyOf": [POINT, POINT]}).notes == (
        "objects without additionalProperties allow no other properties",
    )
    assert "schema without type" in held({"minLength": 1}).notes[0]
    assert "14 digits" in held({"type": "number", "minimum": 1.5}).notes[0]
    assert "prefixItems" in held({"type": "array", "prefixItems": [{"const": 1}]}).notes[0]


def test_open_objects_are_refused_where_silence_means_anything() -> None:
    with pytest.raises(Refusal, match="free-form"):
        held(POINT, closed=False)
    with pytest.raises(Refusal, match="free-form"):
        held({"type": "array", "prefixItems": [{"const": 1}]}, closed=False)


@pytest.mark.parametrize("whitespace", ["", "[ ]?", BOUNDED])
def test_whitespace_stands_between_tokens_only(whitespace: str) -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "array", "items": {"type": "integer"}},
            "b": {"const": {"c": [1, {}]}},
        },
        "required": ["a", "b"],
    }
    value = {"a": [1, 2], "b": {"c": [1, {}]}}
    matcher = compiled(held(schema, whitespace).regex)

    assert matcher.fullmatch(compact(value))
    assert bool(matcher.fullmatch(json.dumps(value))) == (whitespace != "")
    assert bool(matcher.fullmatch(json.dumps(value, indent=2))) == (whitespace == BOUNDED)
    assert not matcher.fullmatch(compact(value).replace("2", " 2 ".center(99)))
    assert not matcher.fullmatch(compact(value) + " ")
    assert not matcher.fullmatch(compact(value).replace('"a"', '"a "'))


def test_characters_that_cannot_be_spelled_are_left_out_or_named() -> None:
    without = complement(of("\u00e9"))

    free = to_regex({"type": "string"}, whitespace="", closed=True, alphabet=without).regex
    assert not compiled(free).fullmatch('"\u00e9"')
    assert compiled(free).fullmatch('"\\u00e9"')
    with pytest.raises(Refusal, match=r"U\+00E9"):
        to_regex({"const": "\u00e9"}, whitespace="", closed=True, alphabet=without)
    with pytest.raises(Refusal, match="cannot spell JSON"):
        to_regex({"const": 1}, whitespace="", closed=True, alphabet=complement(of("{")))


@given(st.integers(-2000, 2000), st.integers(0, 3000), st.integers(-2500, 5500))
@settings(derandomize=True, deadline=None)
def test_an_integer_is_within_its_bounds(low: int, width: int, value: int) -> None:
    both = compiled(held({"type": "integer", "minimum": low, "maximum": low + width}).regex)
    above = compiled(held({"type": "integer", "minimum": low}).regex)

    assert bool(both.fullmatch(str(value))) == (low <= value <= low + width)
    assert bool(above.fullmatch(str(value))) == (low <= value)


@given(
    st.sampled_from([2, 4, 5, 8, 10, 20, 25, 125, 500]),
    st.none() | st.integers(-3000, 3000),
    st.none() | st.integers(-3000, 3000),
    st.integers(-700, 700),
)
@settings(derandomize=True, deadline=None)
def test_a_multiple_is_within_its_bounds(
    step: int, low: int | None, high: int | None, times: int
) -> None:
    bounds = {"minimum": low, "maximum": high}
    said = {name: bound for name, bound in bounds.items() if bound is not None}
    matcher = None
    if low is None or high is None or -(-low // step) <= high // step:
        matcher = compiled(held({"type": "integer", "multipleOf": step, **said}).regex)

    for value in (times, times * step, times * step + 1):
        fits = (low is None or low <= value) and (high is None or value <= high)
        found = matcher is not None and bool(matcher.fullmatch(str(value)))
        assert found == (fits and value % step == 0)
