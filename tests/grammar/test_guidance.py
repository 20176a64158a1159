"""llguidance behind our interface: what it holds, and the traps that are closed."""

from __future__ import annotations

import numpy as np
import pytest
from guided import TABLE, compiled, takes

from sglang_lite.params import Constraint
from sglang_lite.runtime.grammar.guidance import probe, source_of
from sglang_lite.runtime.grammar.refusal import Refusal
from sglang_lite.testing import EOS


@pytest.mark.parametrize(
    ("kind", "source", "good", "bad"),
    [
        ("regex", "a|ab", ["a", "ab"], ["", "b", "abb"]),
        ("choice", ["yes", "yes please", 'say "no"\n'], ["yes", "yes please", 'say "no"\n'], ["y"]),
        ("json_object", "", ['{"a":[1,{"b":null}]}', "{}"], ["[]", "1", ""]),
        ("json_schema", {"type": "integer", "multipleOf": 3}, ["9", "0"], ["10", '"9"']),
        ("json_schema", {"type": "array"}, ["[]", '[1, "a"]'], ["{}"]),
        ("ebnf", 'root ::= "a" root | "b"', ["b", "aab"], ["a", "ba"]),
        ("ebnf", 'start: "(" start ")" | "x"', ["x", "((x))"], ["(x"]),
        ("ebnf", '?start: "a" | rest\n?rest: "b" "?"', ["a", "b?"], ["b"]),
    ],
)
def test_a_constraint_is_held(kind: str, source: object, good: list[str], bad: list[str]) -> None:
    grammar = compiled(kind, source)
    assert [text for text in good if not takes(grammar, text)] == []
    assert [text for text in bad if takes(grammar, text)] == []


@pytest.mark.parametrize(
    ("whitespace", "good", "bad"),
    [
        ("compact", ['{"a":1,"b":2}'], ['{"a": 1,"b":2}', '{"a":1, "b":2}']),
        ("single", ['{"a":1,"b":2}', '{"a": 1, "b": 2}'], ['{"a":  1,"b":2}', '{\n"a":1,"b":2}']),
        ("bounded", ['{\n  "a": 1,\n  "b": 2\n}', '{"a":1,"b":2}'], ['{"a":' + "\n" * 200 + "1}"]),
    ],
)
def test_whitespace_is_bounded(whitespace: str, good: list[str], bad: list[str]) -> None:
    integers = {"a": {"type": "integer"}, "b": {"type": "integer"}}
    grammar = compiled("json_schema", {"type": "object", "properties": integers}, whitespace)
    assert [text for text in good if not takes(grammar, text)] == []
    assert [text for text in bad if takes(grammar, text)] == []


def test_a_schema_cannot_loosen_the_engine() -> None:
    lenient = {"x-guidance": {"lenient": True}, "type": "integer", "not": {"const": 3}}
    with pytest.raises(Refusal, match="not"):
        compiled("json_schema", lenient)
    odd = {"x-guidance": {"item_separator": ";"}, "type": "array", "items": {"type": "integer"}}
    assert takes(compiled("json_schema", odd), "[1,2]")
    assert not takes(compiled("json_schema", odd), "[1;2]")


def test_the_text_of_a_special_token_is_text() -> None:
    grammar = compiled("json_schema", {"const": "</s>"})
    assert takes(grammar, '"</s>"')
    matcher = grammar.matcher()
    for token in b'"':
        assert matcher.advance(token)
    row = np.zeros(TABLE.width, np.int32)
    matcher.fill(row)
    assert not row[EOS >> 5] >> (EOS & 31) & 1
    assert matcher.jump_forward([]) == list(b"</s>")  # and the last one is the model's to draw


def test_a_wrong_token_does_not_stick() -> None:
    matcher = compiled("regex", "ab").matcher()
    assert not matcher.advance(ord("x"))
    assert not matcher.advance(-1)
    assert not matcher.advance(10**6)
    assert matcher.advance(ord("a"))
    assert matcher.validate(list(b"bx")) == 1
    assert not matcher.advance(EOS)
    assert matcher.advance(ord("b"))


def test_eos_is_taken_once_and_can_be_taken_back() -> None:
    matcher = compiled("regex", "ab").matcher()
    for token in b"ab":
        assert matcher.advance(token)
    assert matcher.must_stop()
    row = np.zeros(TABLE.width, np.int32)
    matcher.fill(row)
    np.testing.assert_array_equal(row, TABLE.eos_row)
    assert matcher.advance(EOS)
    assert not matcher.advance(EOS)
    assert matcher.allowed(9) is not None
    fork = matcher.fork()
    matcher.rollback(2)
    assert not matcher.may_stop()
    assert matcher.advance(ord("b"))
    assert fork.must_stop()


def test_forced_text_is_told_and_changes_nothing() -> None:
    matcher = compiled("json_schema", {"type": "object", "properties": {"name": {"type": "null"}},
                                       "required": ["name"]}, "compact").matcher()  # fmt: skip
    assert bytes(matcher.jump_forward([])).startswith(b'{"name":nul')
    assert bytes(matcher.jump_forward([])).startswith(b'{"name":nul')


TAGS = {
    "structures": [
        {
            "begin": "<call=add>",
            "schema": {"type": "object", "properties": {"x": {"type": "integer"}},
                       "required": ["x"], "additionalProperties": False},
            "end": "</call>",
        }
    ],
    "triggers": ["<call="],
}  # fmt: skip


def test_tags_are_held_inside_free_text() -> None:
    grammar = compiled("structural_tag", TAGS)
    assert takes(grammar, "no tag at all\n")
    assert takes(grammar, 'Well: <call=add>{"x": 3}</call> and <call=add>{"x":4}</call>.')
    assert not takes(grammar, 'Well: <call=add>{"x": "3"}</call>')
    assert not takes(grammar, "Well: <call=sub>")
    assert not takes(grammar, 'Well: <call=add>{"x": 3}')


@pytest.mark.parametrize(
    ("tags", "message"),
    [
        ({"structures": [], "triggers": ["<"]}, "1 to 128"),
        ({"structures": TAGS["structures"], "triggers": ["[call"]}, "none of the triggers"),
        ({"triggers": ["<"]}, "structures"),
        ({**TAGS, "more": 1}, "more"),
        ({"structures": [{"begin": "<", "end": ">", "schema": False}], "triggers": ["<"]}, "false"),
    ],
)
def test_malformed_tags_are_refused(tags: object, message: str) -> None:
    with pytest.raises(Refusal, match=message):
        compiled("structural_tag", tags)


@pytest.mark.parametrize("source", ['root ::= "a', "start: undefined_rule", "%%%"])
def test_a_broken_grammar_is_refused_in_the_engines_words(source: str) -> None:
    with pytest.raises(Refusal):
        compiled("ebnf", source)


def test_a_probe_over_bytes_refuses_what_the_vocabulary_would() -> None:
    probe(source_of(Constraint("regex", "a{3}")).grammar)
    with pytest.raises(Refusal):
        probe(source_of(Constraint("regex", "(?=a)")).grammar)
