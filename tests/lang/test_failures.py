"""What a program's author sees when something fails. Numbers are those of the conformance cases."""

from __future__ import annotations

import time
from typing import Any

import pytest

import sglang_lite as sgl
from sglang_lite.testing import ScriptedBackend as B


def test_after_a_backend_error_nothing_hangs() -> None:  # 28
    @sgl.function
    def program(s: Any) -> None:
        s += "q" + sgl.gen("a")
        time.sleep(0.05)
        s += " more" + sgl.gen("b")

    state = program.run(backend=B.by_prompt(lambda prompt: 1 / 0))  # type: ignore[arg-type,return-value]
    with pytest.raises(sgl.ProgramError):
        state.text()
    with pytest.raises(sgl.ProgramError):
        state["b"]
    assert isinstance(state.error(), Exception)


def test_appending_late_works() -> None:  # 29
    @sgl.function
    def program(s: Any) -> str:
        s += "a"
        group = s.fork(2)
        group += ["b", "c"]
        group.join()
        group[0] += "late"
        return group[0].text()

    state = program.run(backend=B())
    assert state.ret_value == "ablate"
    state += " later"
    assert state.text() == "a later"


def test_a_failed_variable_shows_the_backends_error_and_the_line() -> None:  # 30
    @sgl.function
    def program(s: Any) -> Any:
        s += "q" + sgl.gen("a")
        return s["a"]

    with pytest.raises(
        sgl.ProgramError, match=r"test_failures\.py:\d+, in program\(\): gen\('a'\) failed"
    ) as caught:
        program.run(backend=B.by_prompt(lambda prompt: 1 / 0))  # type: ignore[arg-type,return-value]
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    line = caught.value.place.line
    with open(__file__, encoding="utf-8") as source:
        assert 'sgl.gen("a")' in source.read().splitlines()[line - 1]


def test_a_fork_of_a_failed_branch_fails_with_its_error() -> None:  # 31
    @sgl.function
    def program(s: Any) -> None:
        s += sgl.gen("a")
        group = s.fork(2)
        group += sgl.gen("b")
        group.join()
        s += sgl.gen("c")

    state = program.run(backend=B.by_prompt(lambda prompt: 1 / 0))  # type: ignore[arg-type,return-value]
    for name in ("a", "b", "c"):
        with pytest.raises(sgl.ProgramError, match=r"gen\('a'\)"):
            state[name]


def test_an_exception_in_a_streamed_body_reaches_the_reader() -> None:  # 36
    @sgl.function
    def program(s: Any) -> None:
        s += "x" + sgl.gen("a")
        raise ValueError("program bug")

    state = program.run(backend=B(["ok"], chunk=1), stream=True)
    with pytest.raises(ValueError, match="program bug"):
        list(state.text_iter())
