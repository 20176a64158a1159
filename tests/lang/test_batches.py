"""Many runs of one program: order, results as they come, errors, going on after a break."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

import sglang_lite as sgl
from sglang_lite.global_config import global_config
from sglang_lite.testing import ScriptedBackend as B


@sgl.function
def ask(s: Any, q: str, tail: str = "") -> str:
    s += q + tail + sgl.gen("a")
    return q


def echo(prompt: str) -> str:
    if "bad" in prompt:
        raise LookupError(prompt)
    return prompt.upper()


ROWS = [{"q": "one"}, {"q": "two"}, {"q": "bad"}, {"q": "four"}]


def test_rows_are_dicts_or_tuples_and_common_arguments_go_to_all() -> None:
    states = ask.run_batch([("one",), ("two", "!"), {"q": "x"}], backend=B.by_prompt(echo))
    assert [state["a"] for state in states] == ["ONE", "TWO!", "X"]
    states = ask.run_batch([{"q": "one"}], backend=B.by_prompt(echo), tail="?", temperature=0.5)
    assert states[0]["a"] == "ONE?"
    bound = ask.bind(q="fixed ")
    assert bound.run_batch([("a",)], backend=B.by_prompt(echo))[0]["a"] == "FIXED A"


@pytest.mark.parametrize(
    ("batch", "options", "message"),
    [
        ([{"Q": "x"}], {}, "no argument 'Q'.*its arguments: q, tail"),
        ([{"q": "x"}], {"temprature": 1}, "temprature"),
        (["x"], {}, "list of dicts or tuples"),
        ([("x", "y", "z")], {}, "3 values for the arguments q, tail"),
    ],
)
def test_what_no_run_can_take_is_refused_before_any(
    batch: Any, options: dict[str, Any], message: str
) -> None:
    backend = B.by_prompt(echo)
    with pytest.raises(TypeError, match=message):
        ask.run_batch(batch, backend=backend, **options)
    assert backend.prompts == []
    with pytest.raises(ValueError, match="on_error"):
        ask.run_batch([], backend=backend, on_error="ignore")


def test_results_come_in_order_or_as_they_end() -> None:
    @sgl.function
    def wait(s: Any, seconds: float) -> None:
        s += str(seconds)
        time.sleep(seconds)

    rows = [{"seconds": 0.15}, {"seconds": 0.0}]
    assert [s.text() for s in wait.run_batch(rows, backend=B())] == ["0.15", "0.0"]
    assert [s.text() for s in wait.run_batch(rows, backend=B(), ordered=False)] == ["0.0", "0.15"]
    lazily = wait.run_batch(rows, backend=B(), ordered=False, generator_style=True)
    assert next(lazily).text() == "0.0"
    lazily.close()


def test_each_result_is_told_once() -> None:
    told = []
    states = ask.run_batch(
        ROWS, backend=B.by_prompt(echo), on_result=lambda index, state: told.append((index, state))
    )
    assert sorted(told, key=lambda each: each[0]) == list(enumerate(states))


def test_errors_are_returned_or_raised() -> None:
    states = ask.run_batch(ROWS, backend=B.by_prompt(echo))
    assert [state.error() is None for state in states] == [True, True, False, True]
    with pytest.raises(sgl.ProgramError, match=r"in ask\(\): gen\('a'\) failed: LookupError: bad"):
        ask.run_batch(ROWS, backend=B.by_prompt(echo), on_error="raise")


def test_the_first_error_cancels_the_rest() -> None:
    def answer(prompt: str) -> str:
        return echo(prompt) and "x"

    backend = B.by_prompt(answer, delay=0.01)

    @sgl.function
    def slow(s: Any, q: str) -> None:
        s += q + sgl.gen("a")
        if q != "bad":
            for _ in range(500):
                s += sgl.gen("b")

    with pytest.raises(sgl.ProgramError, match="bad"):
        slow.run_batch(ROWS, backend=backend, on_error="raise")
    asked = len(backend.prompts)
    time.sleep(0.1)
    assert len(backend.prompts) <= asked + 3, "what ran was cancelled"


def test_bodies_that_sleep_run_side_by_side() -> None:
    @sgl.function
    def wait(s: Any) -> None:
        time.sleep(0.2)
        s += "x"

    began = time.monotonic()
    rows: list[dict[str, Any]] = [{} for _ in range(40)]
    wait.run_batch(rows, backend=B())
    assert time.monotonic() - began < 40 * 0.2 / 4


def test_bodies_that_read_run_side_by_side() -> None:
    @sgl.function
    def chain(s: Any) -> str:
        for index in range(3):
            s += sgl.gen(f"x{index}")
            s[f"x{index}"]
        return s.text()

    began = time.monotonic()
    rows: list[dict[str, Any]] = [{} for _ in range(100)]
    states = chain.run_batch(rows, backend=B.by_prompt(lambda prompt: "x", delay=0.05))
    assert [state.ret_value for state in states] == ["xxx"] * 100
    assert time.monotonic() - began < 100 * 0.15 / 10


def test_seeds_count_up_from_the_batchs() -> None:
    def seeds(seed: int) -> list[int | None]:
        backend = B.by_prompt(lambda prompt: "x")
        ask.run_batch([("a",), ("b",)], backend=backend, seed=seed)
        return sorted(params.seed or 0 for params in backend.params)

    assert seeds(5) == seeds(5)
    assert len(set(seeds(5))) == 2
    assert set(seeds(5)) & set(seeds(6)), "the second row of one is the first of the other"


def test_a_batch_goes_on_after_a_break(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    backend = B.by_prompt(echo)
    first = ask.run_batch(ROWS[:3], backend=backend, resume=path)
    assert first[2].error() is not None
    assert len(path.read_text().splitlines()) == 2, "only what ended well is kept"
    again = B.by_prompt(lambda prompt: prompt.upper())
    states = ask.run_batch(ROWS, backend=again, resume=str(path))
    assert sorted(again.prompts) == ["bad", "four"]
    assert [state["a"] for state in states] == ["ONE", "TWO", "BAD", "FOUR"]
    assert [state.text() for state in states] == ["oneONE", "twoTWO", "badBAD", "fourFOUR"]
    assert [state.ret_value for state in states] == ["one", "two", "bad", "four"]
    assert "".join(states[0].text_iter()) == "oneONE"
    changed = B.by_prompt(echo)
    ask.run_batch([{"q": "uno"}, *ROWS[1:]], backend=changed, resume=path)
    assert changed.prompts == ["uno"], "a row is known by its place and its arguments"


def test_a_file_of_results_may_end_in_the_middle_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    ask.run_batch(ROWS[:2], backend=B.by_prompt(echo), resume=path)
    whole = path.read_text()
    path.write_text(whole[:-10])
    backend = B.by_prompt(echo)
    ask.run_batch(ROWS[:2], backend=backend, resume=path)
    assert len(backend.prompts) == 1
    assert [json.loads(line)["text"] for line in path.read_text().splitlines()] == [
        json.loads(line)["text"] for line in whole.splitlines()
    ]
    path.write_text("nothing of ours\n" + whole)
    with pytest.raises(ValueError, match=r"results\.jsonl, line 1"):
        ask.run_batch(ROWS[:2], backend=backend, resume=path)


def test_what_json_cannot_hold_cannot_be_kept(tmp_path: Path) -> None:
    @sgl.function
    def program(s: Any) -> object:
        return object()

    with pytest.raises(TypeError, match="let the program set and return only"):
        program.run_batch([{}], backend=B(), resume=tmp_path / "results.jsonl")


def test_the_progress_line_has_rates(capsys: pytest.CaptureFixture[str]) -> None:
    ask.run_batch(ROWS, backend=B.by_prompt(echo), progress_bar=True)
    shown = capsys.readouterr().err
    assert "4/4" in shown
    assert "program" in shown
    assert "tok/s" in shown
    assert "hit rate" in shown


def test_the_common_beginning_is_sent_ahead_unless_that_is_off() -> None:
    @sgl.function
    def program(s: Any, q: str) -> None:
        s += sgl.system("word " * 20)
        s += sgl.user(q)
        s += sgl.assistant(sgl.gen("a"))

    backend = B.by_prompt(lambda prompt: "x", template="chatml")
    program.run_batch([("a",), ("b",)], backend=backend)
    head = "<|im_start|>system\n" + "word " * 20 + "<|im_end|>\n<|im_start|>user\n"
    assert backend.cached == [head]
    global_config.enable_precache_with_tracing = False
    try:
        program.run_batch([("a",), ("b",)], backend=backend)
    finally:
        global_config.enable_precache_with_tracing = True
    assert backend.cached == [head]


def test_branches_can_be_made_to_wait_for_each_other() -> None:
    now, most = 0, 0

    class Counting(B):
        async def generate(self, ask: Any) -> Any:
            nonlocal now, most
            now += 1
            most = max(most, now)
            async for part in super().generate(ask):
                yield part
            now -= 1

    @sgl.function
    def program(s: Any) -> None:
        s += "x"
        group = s.fork(4)
        group += sgl.gen("y")
        group.join()

    program.run(backend=Counting(["a"] * 4, delay=0.005), parallel=False).sync()
    assert most == 1
    program.run(backend=Counting(["a"] * 4, delay=0.005)).sync()
    assert most == 4
