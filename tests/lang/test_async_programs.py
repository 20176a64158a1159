"""`async def` programs, and running programs from an event loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

import sglang_lite as sgl
from sglang_lite.testing import ScriptedBackend as B


@sgl.function
async def judge(s: Any, essay: str) -> tuple[str, list[str], str]:
    s += essay + sgl.gen("topic")
    topic = await s["topic"]
    group = s.fork(2)
    group += lambda index: f" {index}:"
    group += sgl.gen("grade")
    group.join()
    s += " done"
    return topic, await s["grade"], await s.text()


def echo(prompt: str) -> str:
    return prompt[-2:].upper()


EXPECTED = ("AY", ["0:", "1:"], "an essayAY done")


def test_it_runs_from_threads_and_from_loops_alike() -> None:
    state = judge.run(essay="an essay", backend=B.by_prompt(echo))
    assert state.ret_value == EXPECTED
    assert (state["topic"], state.text()) == ("AY", "an essayAY done")
    state = asyncio.run(judge.arun(essay="an essay", backend=B.by_prompt(echo)))
    assert state.ret_value == EXPECTED
    assert state["grade"] == ["0:", "1:"]


def test_batches_run_from_threads_and_from_loops_alike() -> None:
    rows = [{"essay": f"an essay {index:02}"} for index in range(20)]
    expected = [f"{index:02}" for index in range(20)]
    backend = B.by_prompt(echo, delay=0.001)
    assert [s["topic"] for s in judge.run_batch(rows, backend=backend)] == expected
    states = asyncio.run(judge.arun_batch(rows, backend=backend, max_concurrency=3))
    assert [s["topic"] for s in states] == expected


def test_a_body_runs_in_the_callers_loop() -> None:
    @sgl.function
    async def program(s: Any) -> Any:
        s += sgl.gen("x")
        await s["x"]
        return asyncio.get_running_loop()

    async def main() -> bool:
        state = await program.arun(backend=B(["1"], delay=0.01))
        return state.ret_value is asyncio.get_running_loop()

    assert asyncio.run(main())


def test_max_concurrency_bounds_what_is_unfinished() -> None:
    now, most = 0, 0

    @sgl.function
    async def program(s: Any) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        s += sgl.gen("x")
        await s["x"]
        now -= 1

    rows: list[dict[str, Any]] = [{} for _ in range(12)]
    backend = B.by_prompt(lambda prompt: "x", delay=0.005)
    asyncio.run(program.arun_batch(rows, backend=backend, max_concurrency=4))
    assert most == 4


def test_plain_programs_can_be_awaited_too() -> None:
    @sgl.function
    def program(s: Any, q: str) -> str:
        s += q + sgl.gen("x")
        return s["x"] + "!"

    async def main() -> list[Any]:
        backend = B.by_prompt(echo, delay=0.01)
        one = await program.arun(q="one", backend=backend)
        many = await program.arun_batch([("two",), {"q": "three"}], backend=backend)
        return [one.ret_value, *(state.ret_value for state in many)]

    assert asyncio.run(main()) == ["NE!", "WO!", "EE!"]


def test_errors_are_those_of_other_programs() -> None:
    @sgl.function
    async def program(s: Any, fails: bool) -> None:
        s += sgl.gen("x")
        if fails:
            raise LookupError("program bug")
        await s["x"]

    async def main() -> Any:
        broken = B.by_prompt(lambda prompt: 1 / 0)  # type: ignore[arg-type,return-value]
        with pytest.raises(LookupError, match="program bug"):
            await program.arun(fails=True, backend=B(["x"]))
        with pytest.raises(sgl.ProgramError, match=r"gen\('x'\) failed: ZeroDivisionError"):
            await program.arun(fails=False, backend=broken)
        rows = [{"fails": True}, {"fails": False}]
        states = await program.arun_batch(rows, backend=B(["x", "y"]))
        return [type(state.error()) for state in states]

    assert asyncio.run(main()) == [LookupError, type(None)]


def test_results_are_told_as_they_come_to_coroutines_as_well() -> None:
    told = []

    async def on_result(index: int, state: Any) -> None:
        await asyncio.sleep(0)
        told.append((index, state["topic"]))

    rows = [{"essay": "abc"}, {"essay": "abd"}]
    asyncio.run(judge.arun_batch(rows, backend=B.by_prompt(echo), on_result=on_result))
    assert sorted(told) == [(0, "BC"), (1, "BD")]


def test_events_of_a_stream_reach_an_event_loop() -> None:
    @sgl.function
    async def program(s: Any) -> str:
        s += "A:" + sgl.gen("x")
        return "".join([piece async for piece in s.text_async_iter("x")])

    state = program.run(backend=B(["hello"], chunk=2, delay=0.001), stream=True)
    assert "".join(state.text_iter()) == "A:hello"


def test_branches_and_programs_take_no_threads() -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += "x"
        group = s.fork(20)
        group += sgl.gen("y")
        group.join()

    before = threading.active_count()
    most = 0

    def answer(prompt: str) -> str:
        nonlocal most
        most = max(most, threading.active_count())
        return "y"

    rows: list[dict[str, Any]] = [{} for _ in range(50)]
    states = program.run_batch(rows, backend=B.by_prompt(answer, delay=0.002))
    assert all(state["y"] == ["y"] * 20 for state in states)
    assert most - before <= 8
