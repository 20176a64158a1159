"""Functions that a model calls."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Literal

import pytest
from jsonschema import Draft202012Validator

import sglang_lite as sgl
from sglang_lite.lang.tools import form_of_tools, tools_of
from sglang_lite.testing import ScriptedBackend as B


def add(a: int, b: int = 2) -> int:
    """Add two numbers."""
    return a + b


def look_up(name: str, kind: Literal["city", "river"]) -> dict[str, Any]:
    """Find a thing."""
    if name == "Atlantis":
        raise KeyError(name)
    return {"name": name, "kind": kind}


async def fetch(url: str) -> str:
    await asyncio.sleep(0)
    return f"page of {url}"


def call(tool: str, **arguments: Any) -> str:
    return json.dumps({"name": tool, "arguments": arguments})


def test_a_call_is_held_by_the_signature() -> None:
    backend = B([call("look_up", name="Po", kind="river")])

    @sgl.function
    def program(s: Any) -> None:
        s += sgl.gen("call", tools=[add, look_up])

    state = program.run(backend=backend)
    made = state.value("call")
    assert (made.name, made.arguments) == ("look_up", {"name": "Po", "kind": "river"})
    assert made.run() == {"name": "Po", "kind": "river"}
    constraint = backend.constraints[0]
    assert constraint is not None
    judge = Draft202012Validator(json.loads(constraint.source))
    assert judge.is_valid({"name": "add", "arguments": {"a": 1}})
    for wrong in (
        {"name": "add", "arguments": {"a": "x"}},
        {"name": "add", "arguments": {"a": 1, "c": 1}},
        {"name": "look_up", "arguments": {"name": "Po", "kind": "lake"}},
        {"name": "other", "arguments": {}},
    ):
        assert not judge.is_valid(wrong)


def test_a_loop_goes_on_until_there_is_an_answer() -> None:
    script = [call("add", a=1), call("look_up", name="Atlantis", kind="city"),
              call("fetch", url="u"), call("answer", answer="42")]  # fmt: skip

    @sgl.function
    def program(s: Any) -> str:
        s += sgl.system(sgl.describe([add, look_up]))
        s += sgl.user("go")
        return s.tool_loop([add, look_up, fetch], max_tokens=50)

    backend = B(script, template="chatml")
    state = program.run(backend=backend)
    assert state.ret_value == state["answer"] == "42"
    told = [m["content"] for m in state.messages() if m["role"] == "tool"]
    assert told == ["3", "error: KeyError: 'Atlantis'", "page of u"]
    assert state.value("answer_call_0").arguments == {"a": 1, "b": 2}
    assert [params.max_tokens for params in backend.params] == [50] * 4
    assert "Add two numbers." in state.messages()[0]["content"]


def test_a_loop_can_be_awaited() -> None:
    @sgl.function
    async def program(s: Any) -> str:
        s += sgl.user("go")
        return await s.tool_loop([add, fetch], "found")

    script = [call("fetch", url="u"), call("add", a=1), call("answer", answer="yes")]
    state = program.run(backend=B(script, template="chatml"))
    assert state["found"] == "yes"
    assert [m["content"] for m in state.messages() if m["role"] == "tool"] == ["page of u", "3"]


def test_a_loop_without_an_answer_ends() -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += sgl.user("go")
        s.tool_loop([add], max_steps=2)

    with pytest.raises(RuntimeError, match=r"no answer after 2 steps \(max_steps=2\)"):
        program.run(backend=B([call("add", a=1)] * 3, template="chatml"))


def test_a_call_that_was_cut_off_is_an_error_with_its_text() -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += sgl.user("go")
        s.tool_loop([add])

    with pytest.raises(sgl.InvalidOutput, match=r"ToolCall.*max_tokens"):
        program.run(backend=B(['{"name": "add", "argu'], template="chatml"))


def test_the_time_of_a_tool_is_remembered() -> None:
    tool = sgl.Tool(add)
    tool.took(1.0)
    tool.took(3.0)
    assert (tool.calls, tool.seconds) == (2, 2.0)
    assert tools_of([tool])["add"] is tool
    assert form_of_tools(tools_of([tool])).parse(call("add", a=4)).run() == 6


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ([lambda x: x], "argument 'x'.*has no type"),
        ([print], "any number of arguments"),
        ([add, add], "a name of its own"),
    ],
)
def test_functions_that_cannot_be_held_are_refused(tools: Any, message: str) -> None:
    with pytest.raises(sgl.InvalidRequest, match=message):
        sgl.gen("x", tools=tools)
