"""Every form in which a constraint can be said, and every way to say it wrong."""

from __future__ import annotations

import itertools
import json
from typing import Any, Literal, get_args, get_type_hints

import pytest
from pydantic import BaseModel

from sglang_lite.errors import (
    GrammarTooLarge,
    InvalidGrammar,
    InvalidRequest,
    Unsupported,
    UnsupportedGrammar,
)
from sglang_lite.params import MAX_GRAMMAR_BYTES, Constraint
from sglang_lite.runtime.constraints import FIELDS, INSTEAD, read_constraint, say
from sglang_lite.runtime.sglang_names import read_sampling

SCHEMA = {"type": "object", "properties": {"z": {"type": "integer"}, "a": {"type": "null"}}}
SOURCE = '{"type":"object","properties":{"z":{"type":"integer"},"a":{"type":"null"}}}'
TAGS = {
    "structures": [{"begin": "<f=x>", "schema": SCHEMA, "end": "</f>"}],
    "triggers": ["<f="],
}
TAGS_SOURCE = (
    '{"structures":[{"begin":"<f=x>","schema":' + SOURCE + ',"end":"</f>"}],"triggers":["<f="]}'
)
HELD = Constraint("json_schema", SOURCE)
OPEN = Constraint("json_schema", SOURCE, closed=False)


class Pair(BaseModel):
    z: int
    a: Literal["x"]


def response(**fields: Any) -> dict[str, Any]:
    return {"response_format": fields}


def schema_response(**fields: Any) -> dict[str, Any]:
    return response(type="json_schema", json_schema={"name": "x", "schema": SCHEMA, **fields})


def outputs(**fields: Any) -> dict[str, Any]:
    return {"structured_outputs": fields}


FORMS: list[tuple[dict[str, Any], Constraint | None]] = [
    ({}, None),
    (dict.fromkeys(FIELDS), None),
    ({"regex": "[a-c]{3}"}, Constraint("regex", "[a-c]{3}")),
    ({"ebnf": "start: /a/"}, Constraint("ebnf", "start: /a/")),
    ({"json_schema": SCHEMA}, HELD),
    ({"json_schema": json.dumps(SCHEMA, indent=2)}, HELD),
    ({"json_schema": True}, Constraint("json_schema", "true")),
    ({"json_schema": {"const": "é\n"}}, Constraint("json_schema", '{"const":"é\\n"}')),
    ({"structural_tag": TAGS}, Constraint("structural_tag", TAGS_SOURCE)),
    ({"structural_tag": json.dumps(TAGS)}, Constraint("structural_tag", TAGS_SOURCE)),
    (
        {"structural_tag": {"structures": [{"begin": "<f", "end": ""}], "triggers": ["<f"]}},
        Constraint(
            "structural_tag",
            '{"structures":[{"begin":"<f","schema":true,"end":""}],"triggers":["<f"]}',
        ),
    ),
    (response(type="text"), None),
    (response(type="json_object"), Constraint("json_object", "")),
    (schema_response(), HELD),
    (schema_response(strict=True, description="d"), HELD),
    (schema_response(strict=False), OPEN),
    (schema_response(strict=None, description=None), HELD),
    (response(type="json_schema", schema=SCHEMA), HELD),
    (response(type="json_schema", schema=SCHEMA, strict=False), OPEN),
    (response(type="structural_tag", **TAGS), Constraint("structural_tag", TAGS_SOURCE)),
    (outputs(json=SCHEMA), HELD),
    (outputs(json=SOURCE), HELD),
    (outputs(regex="a+"), Constraint("regex", "a+")),
    (outputs(choice=["b", "a"]), Constraint("choice", '["b","a"]')),
    (outputs(grammar="start: /a/"), Constraint("ebnf", "start: /a/")),
    (outputs(json_object=True), Constraint("json_object", "")),
    (outputs(structural_tag=json.dumps(TAGS)), Constraint("structural_tag", TAGS_SOURCE)),
    (outputs(json=SCHEMA, disable_additional_properties=True), HELD),
    (outputs(json=SCHEMA, disable_additional_properties=False), OPEN),
    (
        outputs(json=SCHEMA, disable_any_whitespace=True),
        Constraint("json_schema", SOURCE, whitespace="compact"),
    ),
    (  # what vLLM's own class dumps when only `regex` is set
        outputs(
            json=None,
            regex="a",
            choice=None,
            disable_fallback=False,
            disable_any_whitespace=False,
            disable_additional_properties=False,
            whitespace_pattern=None,
        ),
        Constraint("regex", "a"),
    ),
    (
        {"json_schema": SCHEMA, "whitespace": "single", "grammar_engine": "llguidance"},
        Constraint("json_schema", SOURCE, whitespace="single", engine="llguidance"),
    ),
    (
        {**response(type="json_object"), "whitespace": "compact"},
        Constraint("json_object", "", whitespace="compact"),
    ),
    (
        {"regex": "a", "grammar_engine": "auto"},
        Constraint("regex", "a", engine="auto"),
    ),
    (
        {**outputs(json=SCHEMA, disable_any_whitespace=True), "whitespace": "compact"},
        Constraint("json_schema", SOURCE, whitespace="compact"),
    ),
    ({**response(type="text"), "regex": "a"}, Constraint("regex", "a")),
]

MISTAKES: list[tuple[dict[str, Any], str, str]] = [
    # what is said, the field at fault, what the message names
    ({"regex": 5}, "regex", "`regex` is a text, got 5"),
    ({"regex": ""}, "regex", "`regex` is empty"),
    ({"regex": "a" * (MAX_GRAMMAR_BYTES + 1)}, "regex", str(MAX_GRAMMAR_BYTES)),
    ({"ebnf": ["a"]}, "ebnf", "`ebnf` is a text, got ['a']"),
    ({"structural_tag": []}, "structural_tag", "is an object, got []"),
    ({"structural_tag": {"triggers": ["<"]}}, "structural_tag", "structures` is a list of one"),
    ({"structural_tag": {"structures": []}}, "structural_tag", "triggers` is a list of one"),
    ({"structural_tag": {**TAGS, "triggers": [""]}}, "structural_tag", "none empty, got ['']"),
    ({"structural_tag": {**TAGS, "triggers": ["<g"]}}, "structural_tag", "none of the triggers"),
    ({"structural_tag": {**TAGS, "structures": [5]}}, "structural_tag", "structures.0` is an obj"),
    (
        {"structural_tag": {**TAGS, "structures": [{"begin": "<f=", "schema": {}}]}},
        "structural_tag",
        "structures.0.end` is a text, and is missing",
    ),
    (
        {"structural_tag": {**TAGS, "structures": [{"begin": 1, "end": ""}]}},
        "structural_tag",
        "structures.0.begin` is a text, got 1",
    ),
    ({"structural_tag": {**TAGS, "type": "text"}}, "structural_tag", "is 'structural_tag'"),
    ({"structural_tag": {**TAGS, "tags": 1}}, "structural_tag", "unknown field 'tags'"),
    ({"response_format": "json"}, "response_format", "is an object, got 'json'"),
    (response(), "response_format", "json_schema, structural_tag, and is missing"),
    (response(type="xml"), "response_format", "one of text, json_object"),
    (response(type=["text"]), "response_format", "got ['text']"),
    (response(type="json_object", schema=SCHEMA), "response_format", "unknown field 'schema'"),
    (response(type="json_schema", json_schema=SOURCE), "response_format", "is an object"),
    (schema_response(strict="yes"), "response_format", "strict` is true or false, got 'yes'"),
    (schema_response(name=5), "response_format", "name` is a text, got 5"),
    (schema_response(schemas={}), "response_format", "unknown field 'schemas'"),
    (
        response(type="json_schema", json_schema={"schema": SCHEMA}, schema=SCHEMA),
        "response_format",
        "unknown field 'schema'; known are type, json_schema",
    ),
    (outputs(), "structured_outputs", "with one of json, regex, choice"),
    (outputs(json_object=False), "structured_outputs", "with one of json, regex, choice"),
    (outputs(json_object="yes"), "structured_outputs", "json_object` is true or false"),
    (outputs(choice=[]), "structured_outputs", "one or more texts, none empty, got []"),
    (outputs(choice=["a", ""]), "structured_outputs", "none empty, got ['a', '']"),
    (outputs(choice=["a", 1]), "structured_outputs", "got ['a', 1]"),
    (outputs(choice="ab"), "structured_outputs", "got 'ab'"),
    (outputs(regexp="a"), "structured_outputs", "unknown field 'regexp'; known are json"),
    (outputs(regex="a", disable_any_whitespace=1), "structured_outputs", "true or false, got 1"),
    (outputs(regex="a", disable_any_whitespace=True), "structured_outputs", "between JSON tokens"),
    (outputs(regex="a", disable_additional_properties=True), "structured_outputs", "is about"),
    (outputs(json={}, disable_additional_properties=0), "structured_outputs", "got 0"),
    ({"whitespace": "compact"}, "whitespace", "none is given"),
    ({**response(type="text"), "grammar_engine": "auto"}, "grammar_engine", "none is given"),
    ({"json_schema": {}, "whitespace": "wide"}, "whitespace", "compact, single, bounded, got 'wi"),
    ({"json_schema": {}, "whitespace": True}, "whitespace", "got True"),
    ({"regex": "a", "whitespace": "compact"}, "whitespace", "regex"),
    ({"regex": "a", "grammar_engine": "xgrammar"}, "grammar_engine", "got 'xgrammar'"),
    (
        {**outputs(json={}, disable_any_whitespace=True), "whitespace": "single"},
        "whitespace",
        "'single' and another field for 'compact'",
    ),
]

NO_SCHEMAS: list[Any] = [
    [1], 5, "5", "null", "[", "", '{"a": 1e999}', {"a": float("nan")}, {"a": {1, 2}},
    {"const": "\ud800"}, '{"const": "\\ud800"}', "[" * 100_000, '{"a":' + "9" * 5000 + "}",
]  # fmt: skip


@pytest.mark.parametrize(("said", "held"), FORMS, ids=range(len(FORMS)))
def test_a_form_becomes_a_constraint(said: dict[str, Any], held: Constraint | None) -> None:
    assert read_constraint(said) == held
    assert read_sampling(said).constraint == held


@pytest.mark.parametrize(("said", "param", "named"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_named_with_its_field(said: dict[str, Any], param: str, named: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read_constraint(said)

    assert caught.value.param == param
    assert named in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("schema", NO_SCHEMAS, ids=range(len(NO_SCHEMAS)))
def test_what_is_no_schema_is_no_grammar(schema: Any) -> None:
    for said in (
        {"json_schema": schema},
        outputs(json=schema),
        response(type="json_schema", schema=schema),
        {"structural_tag": {**TAGS, "structures": [{**TAGS["structures"][0], "schema": schema}]}},  # type: ignore[dict-item]
    ):
        with pytest.raises((InvalidGrammar, GrammarTooLarge)) as caught:
            read_constraint(said)
        assert caught.value.param == next(iter(said))
        assert isinstance(caught.value, GrammarTooLarge) == ("[[[" in str(schema))
        assert len(str(caught.value)) < 500


def test_a_circular_schema_is_no_json() -> None:
    schema: dict[str, Any] = {}
    schema["not"] = schema
    with pytest.raises(InvalidGrammar, match="`json_schema` is not JSON"):
        read_constraint({"json_schema": schema})


def test_a_schema_that_is_left_out_is_missed_by_name() -> None:
    with pytest.raises(InvalidGrammar, match=r"`response_format.schema` .* is missing"):
        read_constraint(response(type="json_schema"))
    with pytest.raises(InvalidGrammar, match=r"`response_format.json_schema.schema`"):
        read_constraint(response(type="json_schema", json_schema={"name": "x"}))


def test_two_constraints_are_refused_by_both_names() -> None:
    one_each: dict[str, Any] = {
        "regex": "a",
        "json_schema": {},
        "ebnf": "start: /a/",
        "structural_tag": TAGS,
        "response_format": {"type": "json_object"},
        "structured_outputs": {"choice": ["a"]},
    }
    for first, second in itertools.combinations(one_each, 2):
        with pytest.raises(InvalidRequest) as caught:
            read_constraint({first: one_each[first], second: one_each[second]})
        assert f"`{first}` and `{second}` are both given" in str(caught.value)
        assert caught.value.param == second
    inner = {"json": {}, "regex": "a", "choice": ["a"], "grammar": "start: /a/"}
    for first, second in itertools.combinations(inner, 2):
        with pytest.raises(InvalidRequest) as caught:
            read_constraint(outputs(**{first: inner[first], second: inner[second]}))
        names = f"`structured_outputs.{first}` and `structured_outputs.{second}`"
        assert names in str(caught.value)


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        (outputs(regex="a", whitespace_pattern=" "), "`whitespace`"),
        (outputs(regex="a", disable_fallback=True), "`grammar_engine`"),
    ],
)
def test_what_is_not_available_says_what_is(said: dict[str, Any], hint: str) -> None:
    with pytest.raises(Unsupported, match=hint):
        read_constraint(said)


def test_tags_of_the_newer_form_are_unsupported() -> None:
    for said in (
        {"structural_tag": {"type": "structural_tag", "format": {"type": "any_text"}}},
        response(type="structural_tag", format={}),
    ):
        with pytest.raises(UnsupportedGrammar, match="use `structures` and `triggers`"):
            read_constraint(said)


@pytest.mark.parametrize("name", sorted(INSTEAD))
def test_old_names_of_vllm_are_refused_with_the_new_ones(name: str) -> None:
    assert read_sampling({name: None}).constraint is None
    with pytest.raises(Unsupported) as caught:
        read_sampling({name: "x"})
    assert caught.value.param == name
    assert f"use {INSTEAD[name]}" in str(caught.value)


def test_a_pydantic_model_is_its_schema() -> None:
    held = read_constraint({"json_schema": Pair})

    assert held is not None
    assert json.loads(held.source) == Pair.model_json_schema()
    assert held.source.index('"z"') < held.source.index('"a"')
    assert read_constraint(outputs(json=Pair)) == held
    with pytest.raises(InvalidGrammar):
        read_constraint({"json_schema": int})


def test_the_order_of_properties_is_kept_and_spaces_are_not() -> None:
    first = read_constraint({"json_schema": '{ "b" : 1,\n "a" : 2 }'})
    other = read_constraint({"json_schema": {"a": 2, "b": 1}})

    assert first == Constraint("json_schema", '{"b":1,"a":2}')
    assert first != other


KINDS = {
    "regex": "a",
    "json_schema": SOURCE,
    "json_object": "",
    "choice": '["a","b"]',
    "ebnf": "start: /a/",
    "structural_tag": TAGS_SOURCE,
}


def test_what_is_said_is_understood() -> None:
    assert set(get_args(get_type_hints(Constraint)["kind"])) == set(KINDS)
    assert say(None) == {}
    for kind, source in KINDS.items():
        constraint = Constraint(kind, source, engine="outlines")  # type: ignore[arg-type]
        assert read_constraint(json.loads(json.dumps(say(constraint)))) == constraint
    for closed, whitespace in itertools.product((True, False), ("default", "compact", "bounded")):
        constraint = Constraint("json_schema", SOURCE, whitespace, closed)  # type: ignore[arg-type]
        assert read_constraint(say(constraint)) == constraint
