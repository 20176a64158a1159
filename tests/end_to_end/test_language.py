"""The language on the real small model: what must hold whatever the model writes.

Numbers are those of the conformance cases of `tests/lang`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel

import sglang_lite as sgl

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def engine(smollm2_folder: Path) -> Iterator[sgl.Engine]:
    with sgl.Engine(str(smollm2_folder), dtype="float32", page_size=4) as engine:
        yield engine


@pytest.fixture
def backend(engine: sgl.Engine) -> Any:
    made = engine.as_language_backend()
    made.prompts = []
    made.flush_cache()
    return made


def test_stops_scopes_and_prompts(backend: Any) -> None:  # 01 02 15
    @sgl.function
    def program(s: Any) -> None:
        with s.var_scope("line"):
            s += "Name a tree: " + sgl.gen("t", stop="\n", max_tokens=12)
        s += "\nName a bird:" + sgl.gen("b", max_tokens=3)

    state = program.run(backend=backend, temperature=0)
    assert "\n" not in state["t"]
    assert state["line"] == "Name a tree: " + state["t"]
    assert state.text() == state["line"] + "\nName a bird:" + state["b"]
    first, second = backend.prompts
    assert second[: len(first)] == first, "what was generated is sent as the ids it was"
    assert state.get_meta_info("b")["completion_tokens"] == 3


def test_turns_are_the_models_own(engine: sgl.Engine, backend: Any) -> None:  # 04 05 41
    @sgl.function
    def program(s: Any) -> None:
        s += s.system("Be short.")
        s += sgl.user("Give x and y.")
        s += sgl.assistant("x=" + sgl.gen("x", max_tokens=2) + ", y=" + sgl.gen("y", max_tokens=2))

    state = program.run(backend=backend, temperature=0)
    messages = state.messages()
    assert [m["role"] for m in messages] == ["system", "user", "assistant"]
    assert messages[-1]["content"] == f"x={state['x']}, y={state['y']}"
    rendered = engine.tokenizer.render_chat(messages, add_generation_prompt=False)
    assert state.text() == rendered


def test_forks_compute_what_they_share_once(backend: Any) -> None:  # 07 09 18 26
    @sgl.function
    def judge(s: Any, essay: str) -> list[str]:
        s += "You grade essays.\n" + essay
        group = s.fork(3)
        group += lambda index: f" Aspect {index}:"
        group += sgl.gen("grade", max_tokens=4)
        group.join()
        s += " end"
        return [branch.text() for branch in group]

    before = backend.get_server_info()
    state = judge.run(essay="words " * 50, backend=backend, temperature=0)
    head = "You grade essays.\n" + "words " * 50
    assert state.text() == head + " end"
    grades = state["grade"]
    assert state.ret_value == [f"{head} Aspect {i}:{grades[i]}" for i in range(3)]
    after = backend.get_server_info()
    shared = min(
        next(i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b)
        for left, right in zip(backend.prompts, backend.prompts[1:], strict=False)
    )
    computed = after["computed_prompt_tokens"] - before["computed_prompt_tokens"]
    assert computed == shared + sum(len(ids) - shared for ids in backend.prompts)
    assert after["duplicate_prefill_tokens"] == before["duplicate_prefill_tokens"]
    graph = state.graph()
    assert graph.hit_rate == pytest.approx(graph.optimal_hit_rate)


def test_select_takes_the_likeliest_by_each_method(
    engine: sgl.Engine, backend: Any
) -> None:  # 11 12
    options = [" Paris", " the river Rhine", " the sea"]
    text = "The capital of France is"

    @sgl.function
    def program(s: Any, method: Any) -> None:
        s += text + sgl.select("a", options, choices_method=method)

    def logprobs(prompt: str, start: int) -> list[float]:
        told = engine.generate(prompt, {"max_new_tokens": 0}, return_logprob=True,
                               logprob_start_len=start)  # fmt: skip
        return [each[0] for each in told["meta_info"]["input_token_logprobs"]]

    start = len(backend.encode.tokenizer.encode(text))
    rows = [logprobs(text + option, start) for option in options]
    means = [sum(row) / len(row) for row in rows]
    methods = [sgl.token_length_normalized, sgl.greedy_token_selection,
               sgl.unconditional_likelihood_normalized]  # fmt: skip
    for method in methods:
        state = program.run(method=method, backend=backend)
        meta = state.get_meta_info("a")
        assert meta["normalized_prompt_logprobs"] == pytest.approx(means, abs=1e-4)
        assert sum(meta["probs"]) == pytest.approx(1)
        assert len(meta["greedy_logprob_matrix"]) == 3
        assert state["a"] == " Paris"
        assert set(meta["chosen"]) == {"token_length_normalized", "greedy_token_selection",
                                       "unconditional_likelihood_normalized"}  # fmt: skip
    sampled = {
        sgl.function(
            lambda s: s.__iadd__(text).__iadd__(sgl.select("a", options, temperature=5.0))
        ).run(backend=backend, seed=seed)["a"]
        for seed in range(12)
    }
    assert len(sampled) > 1, "at a high temperature the choice is drawn"


def test_a_beginning_of_several_options_is_scored_once(backend: Any) -> None:
    @sgl.function
    def program(s: Any, options: list[str]) -> None:
        s += "It is" + sgl.select("a", options, all_scores=False)

    long = " a rather long and winding road to"
    before = backend.get_server_info()["computed_prompt_tokens"]
    state = program.run(options=[f"{long} Rome", f"{long} Bern", long], backend=backend)
    state.sync()
    computed = backend.get_server_info()["computed_prompt_tokens"] - before
    assert computed <= max(map(len, backend.prompts)) + 2
    rows = state.get_meta_info("a")["input_token_logprobs"]
    assert rows[0][:-1] == rows[1][:-1] == rows[2]


def test_errors_stay_with_their_program(backend: Any) -> None:  # 20 28 30
    @sgl.function
    def program(s: Any, q: str) -> None:
        s += q + sgl.gen("x", max_tokens=2)
        s += sgl.gen("y", max_tokens=2)

    rows = [{"q": "good "}, {"q": "word " * 9000}, {"q": "good "}]
    states = program.run_batch(rows, backend=backend, temperature=0)
    assert states[0]["x"] == states[2]["x"]
    with pytest.raises(sgl.ProgramError, match=r"gen\('x'\) failed: InvalidRequest.*tokens"):
        states[1]["y"]


def test_streams_and_async_programs(backend: Any) -> None:  # 23 36
    @sgl.function
    async def program(s: Any) -> str:
        s += "A:" + sgl.gen("x", max_tokens=6)
        return "".join([t async for t, _ in s.text_async_iter("x", return_meta_data=True)])

    states = asyncio.run(program.arun_batch([{}] * 3, backend=backend, temperature=0))
    assert [state.ret_value for state in states] == [state["x"] for state in states]
    assert "".join(states[0].text_iter()) == "A:" + states[0]["x"]


def test_seeds_give_the_same_run_again(backend: Any) -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += "Once" + sgl.gen("a", max_tokens=6)
        group = s.fork(2)
        group += sgl.gen("b", max_tokens=6)
        group.join()

    one, again, other = (program.run(backend=backend, seed=seed) for seed in (1, 1, 2))
    assert (one["a"], one["b"]) == (again["a"], again["b"])
    assert (one["a"], one["b"]) != (other["a"], other["b"])
    assert one["b"][0] != one["b"][1]


class Person(BaseModel):
    name: str
    age: int


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_values_tools_and_choices_are_held(backend: Any) -> None:  # 14
    @sgl.function
    def program(s: Any) -> None:
        s += "A person: " + sgl.gen("p", type=Person, max_tokens=60, retries=3)
        s += "\nTheir mood: " + sgl.gen("m", type=Literal["good", "bad"])
        s += "\nDigits: " + sgl.gen("d", regex="[0-9]{3}") + sgl.gen("i", dtype=int, max_tokens=4)
        s += "\nCall: " + sgl.gen("c", tools=[add], max_tokens=60, retries=3)

    state = program.run(backend=backend, seed=3)
    assert isinstance(state.value("p"), Person)
    assert state.value("m") in ("good", "bad")
    assert re.fullmatch("[0-9]{3}", state["d"])
    assert set(json.loads(state["c"])["arguments"]) == {"a", "b"}
    call = state.value("c")
    assert call.run() == call.arguments["a"] + call.arguments["b"]


def test_a_beginning_can_be_cached_ahead_and_usage_is_counted(backend: Any) -> None:  # 38 39
    @sgl.function
    def program(s: Any, rules: str, q: str) -> None:
        s += "Rules of the house. " * 8 + rules + "\nQ: " + q + "\nA:" + sgl.gen("a", max_tokens=3)

    bound = program.bind(rules="Be brief.")
    prefix = bound.cache(backend)
    assert prefix.endswith("Be brief.\nQ: ")
    state = bound.run(q="Why?", backend=backend, temperature=0)
    state.sync()
    size = len(backend.encode.tokenizer.encode(prefix))
    assert state.usage["cached_tokens"] >= size - 4
    assert state.usage_of("a")["completion_tokens"] == 3
    assert state.usage["prompt_tokens"] == len(backend.prompts[0])
    assert program.trace(backend=backend).static_prefix == "Rules of the house. " * 8
