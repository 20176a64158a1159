"""Programs whose text must match: what `gen` makes of its arguments, and what backends get."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from pydantic import BaseModel

import sglang_lite as sgl
from sglang_lite.lang.nodes import Gen
from sglang_lite.params import Constraint
from sglang_lite.testing import ScriptedBackend

FAKE = "sglang_lite.testing:fake_core"


class Pet(BaseModel):
    kind: Literal["cat", "dog"]
    tame: bool


def made(**said: Any) -> Gen:
    node = sgl.gen("x", **said)
    assert isinstance(node, Gen)
    return node


@pytest.mark.parametrize(
    ("said", "held"),
    [
        ({}, None),
        ({"regex": "a+"}, Constraint("regex", "a+")),
        ({"ebnf": "start: /a/"}, Constraint("ebnf", "start: /a/")),
        ({"json_schema": '{"b": 1, "a": 2}'}, Constraint("json_schema", '{"b":1,"a":2}')),
        ({"json_schema": {"b": 1, "a": 2}}, Constraint("json_schema", '{"b":1,"a":2}')),
        (
            {"json_schema": {}, "whitespace": "compact", "grammar_engine": "outlines"},
            Constraint("json_schema", "{}", whitespace="compact", engine="outlines"),
        ),
        ({"dtype": bool}, Constraint("regex", "(True|False)")),
    ],
)
def test_an_argument_becomes_a_constraint(said: dict[str, Any], held: Constraint | None) -> None:
    assert made(**said).constraint == held


def test_a_pydantic_model_is_its_schema() -> None:
    held = made(json_schema=Pet).constraint

    assert held is not None
    assert json.loads(held.source) == Pet.model_json_schema()


@pytest.mark.parametrize(
    ("dtype", "good", "bad"),
    [
        (int, ["7", "-12", "+3 \n"], ["", "1.5", "a"]),
        (float, ["7", "-1.5", ".5 "], ["", "1.", "1e5"]),
        (str, ['"a b_1"', '""'], ["a", '"a-b"']),
        (bool, ["True", "False"], ["true", "1"]),
    ],
)
def test_a_type_is_a_pattern(dtype: type, good: list[str], bad: list[str]) -> None:
    for given in (dtype, dtype.__name__):
        held = made(dtype=given).constraint
        assert held is not None
        assert held.kind == "regex"
        assert all(re.fullmatch(held.source, text) for text in good)
        assert not any(re.fullmatch(held.source, text) for text in bad)


def test_a_number_ends_at_a_space_besides_other_stops() -> None:
    backend = ScriptedBackend(["42 cats", "7", "True"], template="chatml")

    @sgl.function
    def program(s: Any) -> None:
        s += sgl.user("How many?")
        s += sgl.assistant(
            sgl.gen("n", dtype=int, stop=["!", " "])
            + sgl.gen("more", dtype="float")
            + sgl.gen("ok", dtype=bool, stop="?")
        )

    state = program.run(backend=backend, stop=";")
    assert [state[name] for name in ("n", "more", "ok")] == ["42", "7", "True"]
    turn = ScriptedBackend(template="chatml").template.stops
    assert [params.stop for params in backend.params] == [
        ("!", " ", "\n", *turn),
        (";", " ", "\n", *turn),
        ("?", *turn),
    ]


@pytest.mark.parametrize(
    ("said", "error", "message"),
    [
        ({"regex": "("}, re.error, "missing"),
        ({"regex": "a", "json_schema": {}}, sgl.InvalidRequest, "`regex` and `json_schema`"),
        ({"regex": "a", "ebnf": "b"}, sgl.InvalidRequest, "`regex` and `ebnf`"),
        ({"dtype": int, "regex": "a"}, sgl.InvalidRequest, "`dtype` and `regex`"),
        ({"choices": ["a"], "regex": "a"}, sgl.InvalidRequest, "`choices` and `regex`"),
        ({"regex": 5}, sgl.InvalidRequest, "`regex` is a text"),
        ({"dtype": list}, sgl.InvalidRequest, "one of int, float, str, bool"),
        ({"dtype": "integer"}, sgl.InvalidRequest, "got 'integer'"),
        ({"json_schema": "{"}, sgl.InvalidGrammar, "not JSON"),
        ({"json_schema": [1]}, sgl.InvalidGrammar, "an object or a boolean"),
        ({"json_schema": int}, sgl.InvalidGrammar, "an object or a boolean"),
        ({"whitespace": "compact"}, sgl.InvalidRequest, "none is given"),
        ({"regex": "a", "whitespace": "compact"}, sgl.InvalidRequest, "regex"),
        ({"dtype": int, "grammar_engine": "x"}, sgl.InvalidRequest, "got 'x'"),
    ],
)
def test_a_mistake_is_an_error_where_it_is_written(
    said: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        sgl.gen("x", **said)


def test_a_script_sees_what_its_answers_should_match() -> None:
    def answer(prompt: str, constraint: Constraint | None) -> str:
        return "free" if constraint is None else constraint.source

    @sgl.function
    def program(s: Any) -> None:
        s += "q" + sgl.gen("a", regex="a+") + sgl.gen("b")

    backend = ScriptedBackend.by_prompt(answer)
    state = program.run(backend=backend)
    assert (state["a"], state["b"]) == ("a+", "free")
    assert backend.constraints == [Constraint("regex", "a+"), None]


@pytest.fixture(scope="module")
def runtime() -> Iterator[sgl.Runtime]:
    with sgl.Runtime("fake?eos=0", core=FAKE) as runtime:
        yield runtime


def test_a_runtime_holds_every_gen(runtime: sgl.Runtime) -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += "Three: " + sgl.gen("three", regex="[a-c]{3}", max_tokens=9)
        group = s.fork(2)
        group += ", pet: " + sgl.gen("pet", json_schema=Pet, max_tokens=300)
        group.join()
        s += ", sure: " + sgl.gen("sure", dtype=bool)
        s += ", grammar: " + sgl.gen("word", ebnf='root ::= "yes" | "no"')
        s += ", many: " + sgl.gen("many", regex="x{20}", n=2) + "."

    state = program.run(backend=runtime)
    assert re.fullmatch("[a-c]{3}", state["three"])
    assert all(Pet.model_validate_json(pet) for pet in state["pet"])
    assert state["sure"] in ("True", "False")
    assert state["word"] in ("yes", "no")
    assert state["many"] == ["x" * 20] * 2
    meta = state.get_meta_info("many")
    assert meta["grammar"]
    forwarded = [each["fast_forwarded_tokens"] for each in meta["samples"]]
    assert meta["fast_forwarded_tokens"] == sum(forwarded) > 0


def test_a_stream_of_constrained_text(runtime: sgl.Runtime) -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += "Go" + sgl.gen("x", regex="[a-c]{20}")

    state = program.run(backend=runtime, stream=True)
    assert "".join(state.text_iter("x")) == state["x"]
    assert re.fullmatch("[a-c]{20}", state["x"])


def test_what_no_engine_holds_is_the_programs_error(runtime: sgl.Runtime) -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += "x" + sgl.gen("x", ebnf="root ::= (")

    error = program.run(backend=runtime).error()
    assert error is not None
    assert "gen('x')" in str(error)
    assert isinstance(error.__cause__, sgl.InvalidRequest)
