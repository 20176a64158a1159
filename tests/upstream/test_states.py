"""What can be asked of a state while a program runs and after it."""

from __future__ import annotations

import pytest

import sglang_lite as sgl
from sglang_lite.lang.interpreter import ProgramState
from sglang_lite.testing import ScriptedBackend


def test_a_scope_is_a_variable_of_what_is_written_in_it() -> None:
    @sgl.function
    def city(s):
        s += "As JSON:\n"
        with s.var_scope("json_output"):
            s += "{\n"
            s += '  "name": ' + sgl.gen("name") + ",\n"
            s += '  "population": ' + sgl.gen("population") + "\n"
            s += "}"
        s += "\nDone."

    state = city.run(backend=ScriptedBackend(['"Paris"', "2100000"]))
    assert state["json_output"] == '{\n  "name": "Paris",\n  "population": 2100000\n}'
    assert state.text() == "As JSON:\n" + state["json_output"] + "\nDone."


def test_a_scope_of_computed_text(runtime) -> None:
    def calculate(expression: str) -> str:
        return str(len(expression))

    @sgl.function
    def tool_use(s):
        s += "The answer is calculate(" + sgl.gen("expression", max_tokens=6) + ") = "
        with s.var_scope("answer"):
            s += calculate(s["expression"])

    state = tool_use(temperature=0)
    assert int(state["answer"]) == 6


def test_variables(runtime) -> None:
    @sgl.function
    def program(s):
        s += "x" + sgl.gen("text", max_tokens=4)
        s["count"] = 3
        s.set_var("items", ["a", "b"])
        assert s["count"] == 3
        assert s.get_var("items") == ["a", "b"]
        assert "missing" not in s
        assert "count" in s
        s += "count " + str(s["count"])
        s.set_var("length", len(s.get_var("text")))
        assert "text" in s

    state = program.run()
    assert isinstance(state, ProgramState)
    assert state["length"] == 4
    assert state.get_var("items") == ["a", "b"]
    assert "length" in state
    with pytest.raises(KeyError):
        state["missing"]


def test_texts_messages_and_the_end(runtime) -> None:
    @sgl.function
    def program(s, name):
        s += sgl.user("I am " + name + ".")
        early = s.text()
        s += sgl.assistant(sgl.gen("reply", max_tokens=5))
        s.sync()
        assert "reply" in s
        return early, s.messages()

    state = program.run(name="Ada")
    state.sync()
    early, messages = state.ret_value
    assert "I am Ada." in early
    assert state.text().startswith(early)
    assert messages == state.messages()
    assert messages[-1]["role"] == "assistant"
    assert str(state) == f"ProgramState({state.text()})"
    assert state.error() is None


def test_meta_info(runtime) -> None:
    @sgl.function
    def program(s):
        s += "Count" + sgl.gen("x", max_tokens=3)

    state = program.run()
    meta = state.get_meta_info("x")
    assert isinstance(meta, dict)
    assert meta["completion_tokens"] == 3
    assert state.get_meta_info("x", timeout=5.0) == meta


def test_a_program_returns_what_it_likes(runtime) -> None:
    @sgl.function
    def program(s):
        s += "y" + sgl.gen("x", max_tokens=3)
        return {"x": s["x"], "length": len(s["x"])}

    @sgl.function
    def itself(s):
        s += "y" + sgl.gen("x", max_tokens=3)
        return s

    state = program.run()
    assert state.ret_value == {"x": state["x"], "length": 3}
    state = itself()
    assert len(state["x"]) == 3
    assert state.ret_value["x"] == state["x"]
    assert sgl.function(lambda s: None).run().ret_value is None


def test_an_error_of_the_backend() -> None:
    def fail(prompt: str) -> str:
        raise ConnectionError("no route")

    @sgl.function
    def program(s):
        s += "a" + sgl.gen("x")
        s += "b" + sgl.gen("y")

    state = program.run(backend=ScriptedBackend.by_prompt(fail))
    assert isinstance(state.error(), Exception)
    assert "no route" in str(state.error())
    with pytest.raises(Exception, match="x"):
        state["x"]
    state.sync()
    with pytest.raises(sgl.ProgramError, match="no route"):
        state.text()
    assert repr(state) == "ProgramState(a)"


def test_wrong_things_are_refused_at_once() -> None:
    @sgl.function
    def nothing(s):
        s += None

    with pytest.raises(ValueError, match="None"):
        nothing.run(backend=ScriptedBackend())


def test_without_threads(runtime) -> None:
    @sgl.function
    def program(s):
        s += "z" + sgl.gen("x", max_tokens=3)

    assert len(program.run(use_thread=False)["x"]) == 3


def test_functions_keep_their_names() -> None:
    @sgl.function()
    def named(s, first, second=2):
        s += str(first)

    assert named.func.__name__ == "named"
    assert named.run(first=1, backend=ScriptedBackend()).text() == "1"
