"""llguidance held to the letter of the schema: `jsonschema` is the judge of all that it accepts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
from guided import TABLE, compiled, takes
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from schemas import any_schema
from variants import compact, variants

from sglang_lite.runtime.grammar.guidance import GuidanceGrammar
from sglang_lite.runtime.grammar.refusal import Refusal
from sglang_lite.testing import EOS


def sample(grammar: GuidanceGrammar, random: Random) -> str | None:
    """A text that a model might write; None if it finds no end."""
    matcher, row, text = grammar.matcher(), np.zeros(TABLE.width, np.int32), bytearray()
    while len(text) < 200:
        matcher.fill(row)
        bits = np.unpackbits(row.view(np.uint8), bitorder="little")
        allowed = np.flatnonzero(bits[: TABLE.size]).tolist()
        if EOS in allowed and (len(allowed) == 1 or random.random() < 0.5):
            return text.decode()
        liked = [each for each in allowed if chr(each) in '"}],:abc0123T-Z'] or allowed
        token = random.choice(liked if random.random() < 0.9 else allowed)
        if token == EOS:
            return text.decode()
        if not 0x20 <= token < 0x80:
            continue
        assert matcher.advance(token)
        text.append(token)
    return None


def spellings(value: Any) -> Iterator[str]:
    """Other texts of a value, and texts in which a name comes twice."""
    text = compact(value)
    yield text
    if isinstance(value, dict):
        for name, each in value.items():
            if name:
                odd = f'"\\u{ord(name[0]):04x}{name[1:]}":{compact(each)}'
                yield text[:-1] + "," + odd + "}"
                yield (
                    "{"
                    + odd
                    + ("," if len(value) > 1 else "")
                    + compact({key: rest for key, rest in value.items() if key != name})[1:]
                )
            yield text[:-1] + f",{compact(name)}:{compact(each)}}}"


@settings(deadline=None, derandomize=True, max_examples=300)
@given(any_schema, st.randoms(use_true_random=False), st.booleans())
def test_nothing_that_is_accepted_is_invalid(
    schema: dict[str, Any], random: Random, closed: bool
) -> None:
    try:
        grammar = compiled("json_schema", schema, "compact", closed=closed)
    except Refusal:
        assume(False)
    judge = Draft202012Validator(schema)
    for _ in range(3):
        text = sample(grammar, random)
        if text is None:
            continue
        assert judge.is_valid(json.loads(text)), text
        for value in variants(json.loads(text), random):
            for spelling in spellings(value):
                if takes(grammar, spelling):
                    assert judge.is_valid(json.loads(spelling)), spelling


A = {"a": {"type": "string"}}
OPEN = {"type": "object", "additionalProperties": {}}


@pytest.mark.parametrize(
    ("kind", "source", "good", "bad"),
    [
        ("json_schema", {**OPEN, "properties": A}, ['{"a":"x","b":1}'],
         ['{"\\u0061":1}', '{"a":"x","\\u0061":1}', '{"a":1}']),
        ("json_schema", {"type": "object", "properties": A}, ['{"b":1}'], ['{"\\u0061":1}']),
        ("json_schema", {"type": "object", "patternProperties": {"^a": {"type": "integer"},
         "^b": {"type": "string"}}}, ['{"a":1,"b":"x"}'], ['{"\\u0061":"x"}', '{"a":"x"}']),
        ("json_schema", {"type": "integer", "format": "int8"}, ["127", "-128"], ["128", "-129"]),
        ("json_schema", {"type": "integer", "format": "int8", "minimum": 0.5}, ["1"], ["0"]),
        ("json_schema", {"type": "number", "format": "double"}, ["1.5"], ['"a"']),
        ("json_schema", {"type": "integer", "format": "int64"}, ["9223372036854773760"],
         ["9223372036854775808", "-9223372036854775809"]),
        ("json_schema", {"items": {"oneOf": [{"$ref": "#/$defs/s"}, {"type": "number"}]},
         "$defs": {"s": {"type": "string"}}, "type": "array"}, ['["a",1]'], ["[null]"]),
        ("json_schema", {"type": "string", "format": "byte"}, ['"a"'], ["1"]),
        ("json_schema", {"type": ["integer", "string"], "format": "date"}, ["1", '"2024-02-29"'],
         ['"2023-02-29"']),
        ("json_schema", {"self": {"if": 1, "format": "hostname"}, "type": "null"}, ["null"], ["1"]),
        ("json_schema", {**OPEN, "properties": {"d": {"type": "string", "format": "date"}}},
         ['{"d":"2024-02-29"}'], ['{"d":"2023-02-29"}', '{"d":"0000-01-01"}']),
        ("json_schema", {"type": "string", "format": "date", "pattern": "^2"},
         ['"2024-02-29"'], ['"1999-01-01"', '"2023-02-29"']),
        ("json_schema", {"type": "string", "pattern": r"^\d\w\s$"}, ['"1a "'], ['"٣a "', '"1é "']),
        ("regex", r"(?i)a\d", ["A1", "a1"], ["a٣"]),
        ("regex", r"[\w-]{0,1001}", ["a-b"], ["é"]),
        ("regex", r"\\d", [r"\d"], ["1"]),
        ("ebnf", 'start: "<b>" /<[0-9]>/ // <|eos|>\n', ["<b><1>"], ["<b>"]),
    ],
)  # fmt: skip
def test_examples(kind: str, source: object, good: list[str], bad: list[str]) -> None:
    grammar = compiled(kind, source, "compact", closed=False)
    assert [text for text in good if not takes(grammar, text)] == []
    assert [text for text in bad if takes(grammar, text)] == []


@pytest.mark.parametrize(
    ("kind", "source", "message"),
    [
        ("json_schema", {**OPEN, "minProperties": 2}, "/minProperties"),
        ("json_schema", {"items": {"anyOf": [{"divisibleBy": 5}]}}, "/items/anyOf/0/divisibleBy"),
        ("json_schema", {"properties": {"if": {"extends": {}}}}, "/properties/if/extends"),
        ("json_schema", {"type": "string", "format": "hostname"}, "'hostname'.*/format"),
        ("json_schema", {"allOf": 5}, "not a list.*/allOf"),
        ("json_schema", {"allOf": 5, "pattern": "a", "format": "date"}, "not a list.*/allOf"),
        ("json_schema", {"properties": {"a": {}}, "required": [["x"]]}, "names.*/required"),
        ("json_schema", {"type": [{}], "format": "int8"}, "no type"),
        ("json_schema", {"type": {}, "format": "int8"}, "no type"),
        ("json_schema", {"patternProperties": {r"\d": {}, "[0-9]": {}}}, "one in ASCII"),
        ("json_schema", {"type": "integer", "maximum": 2**53 + 3}, "float.*/maximum"),
        ("json_schema", {"exclusiveMinimum": 0, "maximum": 0.5}, "near to 0.5.*/exclusiveMinimum"),
        ("json_schema", {"allOf": [{"minimum": -1.5}, {"$ref": "#/$defs/a"}],
                         "$defs": {"a": {"exclusiveMaximum": -1.0}}}, "near to -1.5.*/\\$defs/a"),
        ("json_schema", {"x": {"y": {"items": {"if": {}}}}, "$ref": "#/x/y"}, "/x/y/items/if"),
        ("structural_tag", {"structures": [{"begin": "<", "end": ">", "schema": {
            "type": "object", "minProperties": 2}}], "triggers": ["<"]}, "minProperties"),
        ("ebnf", 'start: %json {"type": "array"}', "%json"),
        ("ebnf", '%llguidance {"no_forcing": true}\nstart: "a"', "%llguidance"),
        ("ebnf", 'start: "a" <[0]> "b"', "special tokens"),
        ("ebnf", "start: <|im_end|>", "special tokens"),
    ],
)  # fmt: skip
def test_what_would_be_held_loosely_is_refused(kind: str, source: object, message: str) -> None:
    with pytest.raises(Refusal, match=message):
        compiled(kind, source)


def test_names_of_properties_are_no_keywords() -> None:
    names = ["if", "format", "nullable", "divisibleBy", "pattern"]
    schema = {"type": "object", "properties": {name: {"type": "integer"} for name in names},
              "additionalProperties": False}  # fmt: skip
    assert takes(compiled("json_schema", schema), compact(dict.fromkeys(names, 1)))


NODE = {"type": "object", "properties": {"v": {"type": "integer"}, "kid": {"$ref": "#/$defs/n"}},
        "required": ["v"]}  # fmt: skip
AB = [{"properties": {"a": {"type": "integer"}}}, {"properties": {"b": {"type": "integer"}}}]


@pytest.mark.parametrize(
    ("schema", "note", "good", "bad"),
    [
        ({"$ref": "#/$defs/n", "$defs": {"n": NODE}}, "allow no other",
         ['{"v":1,"kid":{"v":2}}'], ['{"v":1,"zz":3}', '{"v":1,"kid":{"v":2,"z":1}}']),
        ({"anyOf": [NODE, {"type": "null"}], "$defs": {"n": NODE}}, "allow no other",
         ["null", '{"v":1}'], ['{"v":1,"zz":3}']),
        ({"type": "object", "allOf": AB}, "allow other", ['{"a":1,"b":2,"c":3}'], ['{"a":""}']),
        ({"type": "object", "allOf": [{"$ref": "#/$defs/n"}, AB[0]], "$defs": {"n": NODE}},
         "allow other", ['{"v":1,"a":2}'], ['{"a":1}']),
        ({"type": "object", "properties": {"c": {}}, "anyOf": AB}, "allow other",
         ['{"c":1,"b":2}'], []),
        ({"type": "object", "properties": {"a": {}}, "required": ["b"]}, "", ['{"b":1}'], ["{}"]),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "null"}}, "",
         ['{"a":1,"b":null}'], ['{"a":1,"b":1}']),
        ({"type": "object"}, "", ['{"a":1}'], ["1"]),
    ],
)  # fmt: skip
def test_objects_that_say_nothing_of_other_properties_have_none(
    schema: object, note: str, good: list[str], bad: list[str]
) -> None:
    grammar = compiled("json_schema", schema, "compact")
    assert note in grammar.notes
    assert bool(note) == bool(grammar.notes)
    assert [text for text in good if not takes(grammar, text)] == []
    assert [text for text in bad if takes(grammar, text)] == []
