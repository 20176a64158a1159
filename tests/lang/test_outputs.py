"""Outputs of a type: what they must match, their values, and further attempts."""

from __future__ import annotations

import datetime
import enum
import json
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

import sglang_lite as sgl
from sglang_lite.lang.outputs import form_of_type
from sglang_lite.testing import ScriptedBackend as B


class Person(BaseModel):
    name: str
    age: int = Field(ge=0)


@dataclass
class Point:
    x: int
    y: int


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


@pytest.mark.parametrize(
    ("kind", "text", "value", "constraint"),
    [
        (Person, '{"name": "Ann", "age": 3}', Person(name="Ann", age=3), "json_schema"),
        (Point, '{"x": 1, "y": 2}', Point(1, 2), "json_schema"),
        (list[int], "[1, 2]", [1, 2], "json_schema"),
        (dict[str, Point], '{"a": {"x": 1, "y": 2}}', {"a": Point(1, 2)}, "json_schema"),
        (int, "-3", -3, "json_schema"),
        (float, "2.5", 2.5, "json_schema"),
        (str, '"a\\n"', "a\n", "json_schema"),
        (int | None, "null", None, "json_schema"),
        (bool, "true", True, "choice"),
        (Literal["yes", "no way"], "no way", "no way", "choice"),
        (Literal[1, 2], "2", 2, "choice"),
        (Literal["1", 1], '"1"', "1", "json_schema"),
        (Colour, "blue", Colour.BLUE, "choice"),
        (Size, "2", Size.LARGE, "choice"),
        (datetime.date, "2024-02-29", datetime.date(2024, 2, 29), "regex"),
    ],
)
def test_a_type_says_what_a_text_must_match_and_what_it_means(
    kind: Any, text: str, value: Any, constraint: str
) -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += sgl.gen("x", type=kind)

    backend = B([text])
    state = program.run(backend=backend)
    assert state["x"] == text, "the text stays a text"
    assert state.value("x") == value
    assert type(state.value("x")) is type(value)
    asked = backend.constraints[0]
    assert asked is not None
    assert asked.kind == constraint


def test_samples_and_branches_have_lists_of_values() -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += sgl.gen("x", type=int, n=2)
        group = s.fork(2)
        group += sgl.gen("y", type=bool)
        group.join()
        s += sgl.gen("z")

    state = program.run(backend=B([["1", "2"], "true", "false", "free"]))
    assert state.value("x") == [1, 2]
    assert state.value("y") == [True, False]
    assert state.value("z") == "free"


@pytest.mark.parametrize("text", ['{"name": "Ann"', '{"name": "Ann", "age": -1}', ""])
def test_what_is_no_value_is_said_with_the_remedy(text: str) -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += sgl.gen("x", type=Person)

    state = program.run(backend=B([text]))
    assert state["x"] == text
    with pytest.raises(
        sgl.InvalidOutput, match=r"the output is no Person.*max_tokens.*retries"
    ) as told:
        state.value("x")
    assert told.value.text == text
    assert state.error() is None, "the program itself goes on"


def test_further_attempts_start_from_before_and_have_other_seeds() -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += "Q:" + sgl.gen("x", type=datetime.date, retries=2) + "."

    backend = B(["2023-02-30", "2023-13-01", "2023-02-03", "unused"])
    state = program.run(backend=backend, seed=1)
    assert state.value("x") == datetime.date(2023, 2, 3)
    assert state.text() == "Q:2023-02-03."
    assert backend.prompts == ["Q:"] * 3
    assert len({params.seed for params in backend.params}) == 3
    assert state.get_meta_info("x")["retries"] == 2
    assert "".join(state.text_iter("x")) == "2023-02-03", "what was taken back is not shown"
    again = B(["2023-02-30", "2023-13-01", "2023-02-03"])
    program.run(backend=again, seed=1).sync()
    assert [p.seed for p in again.params] == [p.seed for p in backend.params]


def test_the_last_attempt_counts_whatever_it_says() -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += sgl.gen("x", type=int, retries=1)

    state = program.run(backend=B(["a", "b"]))
    assert state["x"] == "b"
    with pytest.raises(sgl.InvalidOutput):
        state.value("x")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"type": int, "regex": "a"}, sgl.InvalidRequest, "`regex` and `type` are both given"),
        ({"type": object()}, sgl.InvalidRequest, "no JSON schema"),
        ({"type": int, "retries": 17}, sgl.InvalidRequest, "between 0 and 16"),
        ({"type": int, "choices": ["a"]}, sgl.InvalidRequest, "`choices` and `type`"),
        ({"tools": []}, sgl.InvalidRequest, "one or more functions"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_where_it_is_written(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        sgl.gen("x", **options)


def test_styles_apply_to_types_too() -> None:
    made = sgl.gen("x", type=Person, whitespace="compact", grammar_engine="llguidance")
    assert isinstance(made, object)
    constraint = made.constraint  # type: ignore[union-attr]
    assert constraint is not None
    assert (constraint.whitespace, constraint.engine) == ("compact", "llguidance")
    assert json.loads(constraint.source)["properties"].keys() == {"name", "age"}


def test_equal_types_share_one_constraint() -> None:
    assert form_of_type(list[int]) is form_of_type(list[int])
