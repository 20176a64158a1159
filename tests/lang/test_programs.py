"""Running programs: options, names, batches, seeds, nesting."""

from __future__ import annotations

from typing import Any

import pytest

import sglang_lite as sgl
from sglang_lite.testing import ScriptedBackend as B


@sgl.function
def ask(s: Any, q: str) -> None:
    s += q + sgl.gen("a", max_tokens=5)


def test_options_of_run_are_defaults_for_gens() -> None:
    backend = B(["x"])
    ask.run(q="?", backend=backend, temperature=0.3, max_new_tokens=9, stop="\n", top_k=4).text()
    params = backend.params[0]
    assert (params.temperature, params.top_k, params.stop) == (0.3, 4, ("\n",))
    assert params.max_tokens == 5, "what the gen says counts more"


def test_every_sampling_option_of_gen_reaches_the_backend() -> None:
    values: dict[str, Any] = {
        "max_tokens": 7,
        "min_tokens": 2,
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "min_p": 0.1,
        "frequency_penalty": 0.2,
        "presence_penalty": -0.3,
        "repetition_penalty": 1.1,
        "logit_bias": {5: -1.0},
        "stop": ("a", "b"),
        "stop_token_ids": (3,),
        "ignore_eos": True,
        "seed": 42,
    }
    backend = B(["x"])

    @sgl.function
    def program(s: Any) -> None:
        s += sgl.gen("x", return_logprob=True, top_logprobs_num=3, **values)

    program.run(backend=backend).text()
    for name, value in values.items():
        assert getattr(backend.params[0], name) == value
    assert backend.params[0].logprobs == 3


def test_an_unknown_name_is_refused_where_it_is_used() -> None:
    with pytest.raises(TypeError, match="temprature"):
        ask.run(q="?", backend=B(["x"]), temprature=1)
    with pytest.raises(KeyError, match=r"no expression sets 'b'; the variables are: 'a'"):
        ask.run(q="?", backend=B(["x"]))["b"]


def test_a_value_out_of_range_is_the_programs_error_with_its_line() -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += sgl.gen("x", temperature=-1)

    error = program.run(backend=B(["x"])).error()
    assert isinstance(error, sgl.ProgramError)
    assert "`temperature` must be between" in str(error)


def test_no_backend_is_said_with_the_remedy() -> None:
    with pytest.raises(sgl.InvalidRequest, match="set_default_backend"):
        ask.run(q="?")


def test_a_batch_of_many_and_its_bounds() -> None:
    rows = [{"q": f"{i} "} for i in range(200)]
    states = ask.run_batch(rows, backend=B.by_prompt(lambda p: p.strip()), progress_bar=False)
    assert [state["a"] for state in states] == [str(i) for i in range(200)]
    lazily = ask.run_batch(rows[:3], backend=B.by_prompt(len_of), generator_style=True)
    assert [state["a"] for state in lazily] == ["2", "2", "2"]
    assert ask.run_batch([], backend=B()) == []
    with pytest.raises(TypeError, match="list of dicts"):
        ask.run_batch(["x"], backend=B())
    with pytest.raises(ValueError, match="num_threads"):
        ask.run_batch(rows, backend=B(), num_threads=0)


def len_of(prompt: str) -> str:
    return str(len(prompt))


def test_one_thread_runs_one_program_after_the_other() -> None:
    backend = B.by_prompt(lambda prompt: "x", delay=0.01)
    ask.run_batch([{"q": f"{i}"} for i in range(5)], backend=backend, num_threads=1)
    assert backend.prompts == ["0", "1", "2", "3", "4"]


def test_seeds_follow_from_the_runs_seed_and_the_place() -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += sgl.gen("a") + sgl.gen("b")
        group = s.fork(2)
        group += sgl.gen("c")
        group.join()

    def seeds(seed: int) -> list[int | None]:
        backend = B(["x"] * 4)
        program.run(backend=backend, seed=seed).sync()
        return sorted(params.seed or 0 for params in backend.params)

    assert seeds(1) == seeds(1)
    assert len(set(seeds(1))) == 4
    assert not set(seeds(1)) & set(seeds(2))


def test_a_program_can_continue_another_ones_state() -> None:
    @sgl.function
    def outer(s: Any) -> None:
        s += "outer "
        ask(s, q="inner ")
        s += " end"

    assert outer.run(backend=B(["x"])).text() == "outer inner x end"


def test_a_copy_is_a_branch_of_its_own() -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += "a"
        with s.copy() as draft:
            draft += "b" + sgl.gen("x")
        s += "c"

    state = program.run(backend=B(["!"]))
    assert state.text() == "ac"
    assert state["x"] == ["!"]


def test_assigning_a_variable_twice_keeps_the_last() -> None:
    @sgl.function
    def program(s: Any) -> Any:
        s += sgl.gen("x")
        first = s["x"]
        s += sgl.gen("x")
        return first, s["x"]

    assert program.run(backend=B(["1", "2"])).ret_value == ("1", "2")


@pytest.mark.parametrize("wrong", [["user"], ["user", "user"]])
def test_turns_that_do_not_match_are_errors(wrong: list[str]) -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += sgl.user_begin() + sgl.assistant("x")

    assert "still open" in str(program.run(backend=B(template="chatml")).error())


def test_public_names_are_pinned() -> None:
    assert {"Engine", "Runtime", "RuntimeEndpoint", "function", "gen", "select", "system"} <= set(
        sgl.__all__
    )
    for name in sgl.__all__:
        assert getattr(sgl, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        sgl.nothing  # noqa: B018
