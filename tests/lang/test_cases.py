"""Programs and what they must do. Numbers in comments are those of the conformance cases."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from typing import Any

import pytest

import sglang_lite as sgl
from sglang_lite.testing import ScriptedBackend as B


def im(role: str, text: str) -> str:
    return f"<|im_start|>{role}\n{text}<|im_end|>\n"


def test_a_stop_ends_the_variable_and_is_not_part_of_it() -> None:  # 01
    @sgl.function
    def tree(s: Any) -> None:
        s += "Name a tree: " + sgl.gen("t", stop="\n") + "\nDone"

    state = tree.run(backend=B(["oak\nelm\n"]))
    assert state["t"] == "oak"
    assert state.text() == "Name a tree: oak\nDone"


def test_each_gen_is_sent_the_text_so_far() -> None:  # 02
    backend = B(["7", "odd"])

    @sgl.function
    def program(s: Any, k: str) -> None:
        s += "n=" + k + " next=" + sgl.gen("x", max_tokens=1)
        s += " parity=" + sgl.gen("y", max_tokens=2)

    state = program.run(k="6", backend=backend)
    assert state.text() == "n=6 next=7 parity=odd"
    assert backend.prompts == ["n=6 next=", "n=6 next=7 parity="]
    assert [params.max_tokens for params in backend.params] == [1, 2]


def test_roles_wrap_text_and_generating_inside_user_closes_the_turn() -> None:  # 04
    @sgl.function
    def program(s: Any) -> None:
        s += sgl.system("be short")
        s += sgl.user("my colour is " + sgl.gen("c"))
        s += sgl.assistant(sgl.gen("a"))

    state = program.run(backend=B(["blue", "ok"], template="chatml"))
    assert state.text() == (
        im("system", "be short") + im("user", "my colour is blue") + im("assistant", "ok")
    )
    assert state.messages()[1] == {"role": "user", "content": "my colour is blue"}


def test_two_gens_in_one_assistant_turn() -> None:  # 05
    backend = B(["3", "4"], template="chatml")

    @sgl.function
    def program(s: Any) -> None:
        s += sgl.user("give x and y")
        s += sgl.assistant("x=" + sgl.gen("x", stop=",") + ", y=" + sgl.gen("y"))

    state = program.run(backend=backend)
    assert state["y"] == "4"
    assert backend.prompts[1].endswith("<|im_start|>assistant\nx=3, y=")
    assert state.messages()[-1] == {"role": "assistant", "content": "x=3, y=4"}


def test_roles_as_context_managers_and_as_begin_and_end() -> None:
    @sgl.function
    def program(s: Any) -> None:
        with s.user():
            s += "Q"
        s += sgl.assistant_begin() + sgl.gen("a") + sgl.assistant_end()

    state = program.run(backend=B(["A"], template="chatml"))
    assert state.text() == im("user", "Q") + im("assistant", "A")


def test_a_fork_starts_from_the_parent_and_is_not_seen_by_it() -> None:  # 07
    @sgl.function
    def program(s: Any) -> Any:
        s += "root:" + sgl.gen("r")
        kids = s.fork(3)
        kids += lambda i: f" k{i}"
        kids += sgl.gen("g")
        texts = [kid.text() for kid in kids]
        seen = [kid["r"] for kid in kids]
        kids.join()
        s += " end"
        return texts, seen

    state = program.run(backend=B.by_prompt(lambda prompt: "<" + prompt[-1] + ">"))
    texts, seen = state.ret_value
    assert texts == [f"root:<:> k{i}<{i}>" for i in range(3)]
    assert seen == ["<:>"] * 3
    assert state.text() == "root:<:> end"
    assert state["g"] == ["<0>", "<1>", "<2>"]


def test_a_group_takes_one_expression_a_list_or_a_function() -> None:  # 08
    @sgl.function
    def program(s: Any) -> Any:
        s += "x"
        group = s.fork(2)
        group += ["1", "2"]
        group += lambda i: "abc"[i]
        out = [child.text() for child in group]
        for wrong in (42, ["1"]):
            with pytest.raises(ValueError, match=r"takes an expression|1 items for 2"):
                group += wrong
        return out

    assert program.run(backend=B()).ret_value == ["x1a", "x2b"]


def test_join_can_append_what_the_children_wrote() -> None:  # 09
    @sgl.function
    def program(s: Any) -> Any:
        s += "docs:"
        group = s.fork(3)
        group += lambda i: f"[{i}]"
        group.join("concate_and_append")
        s += " q"
        return s.text()

    assert program.run(backend=B()).ret_value == "docs:[0][1][2] q"


def test_select_takes_the_highest_mean() -> None:  # 11
    @sgl.function
    def program(s: Any) -> None:
        s += "Q? " + sgl.select("a", ["yes", "certainly it is"])

    for endpoint in (False, True):
        scores = {"yes": [-0.9], "certainly it is": [-0.5] * 4}
        state = program.run(backend=B.scoring(scores, endpoint=endpoint))
        assert state["a"] == "certainly it is"
        assert state.text() == "Q? certainly it is"
        means = state.get_meta_info("a")["normalized_prompt_logprobs"]
        assert means == pytest.approx([-0.9, -0.5])


def test_select_token_by_token() -> None:  # 12
    scores = {"car": [-0.2], "carpet": [-0.2, -0.9], "zebra": [-0.6, 0.0, 0.0]}

    @sgl.function
    def program(s: Any) -> None:
        s += sgl.select("a", [*scores], choices_method=sgl.greedy_token_selection)

    state = program.run(backend=B.scoring(scores))
    assert state["a"] == "car"
    matrix = state.get_meta_info("a")["greedy_logprob_matrix"]
    assert matrix[0] == [-0.2] * 3
    assert matrix[1] == pytest.approx([-0.2, -0.9, -0.55])
    assert matrix[2] == [-0.6, 0.0, 0.0]


def test_select_against_the_likelihood_without_the_prompt() -> None:  # 13
    method = sgl.unconditional_likelihood_normalized

    @sgl.function
    def program(s: Any) -> None:
        s += sgl.select("a", ["common", "rare"], choices_method=method)

    backend = B.scoring(
        {"common": [-1.0, -1.0], "rare": [-2.0]}, uncond={"common": [-1.0, -0.5], "rare": [-9.0]}
    )
    state = program.run(backend=backend)
    assert state["a"] == "rare"
    gains = state.get_meta_info("a")["normalized_unconditional_prompt_logprobs"]
    assert gains == pytest.approx([-0.25, 7.0])


def test_gen_with_choices_is_select_and_a_bad_regex_fails_at_once() -> None:  # 14
    @sgl.function
    def chosen(s: Any) -> None:
        s += sgl.gen("a", choices=["u", "v"])

    assert chosen.run(backend=B.scoring({"u": [-2.0], "v": [-1.0]}))["a"] == "v"

    @sgl.function
    def free(s: Any) -> None:
        s += sgl.gen("a", choices=[])

    assert free.run(backend=B(["free"]))["a"] == "free"
    with pytest.raises(re.error):
        sgl.gen("a", regex="(")


def test_var_scope_names_all_that_is_written_inside() -> None:  # 15
    @sgl.function
    def program(s: Any) -> None:
        s += "json: "
        with s.var_scope("j"):
            s += '{"k": ' + sgl.gen("k") + "}"
        s += " ok"

    state = program.run(backend=B(["1"]))
    assert json.loads(state["j"]) == {"k": 1}
    assert state.text().endswith("} ok")


def test_several_samples_are_a_list_and_the_first_goes_on() -> None:  # 16
    @sgl.function
    def program(s: Any) -> None:
        s += "Q:" + sgl.gen("a", n=3) + "."

    state = program.run(backend=B([["x", "y", "z"]]))
    assert state["a"] == ["x", "y", "z"]
    assert state.text() == "Q:x."


def test_run_does_not_wait_but_reading_does() -> None:  # 17
    release = threading.Event()

    def answer(prompt: str) -> str:
        return "slow"

    backend = B.by_prompt(answer, delay=0.3)

    @sgl.function
    def program(s: Any) -> str:
        s += sgl.gen("x")
        return "ret"

    state = program.run(backend=backend)
    assert state.ret_value == "ret"
    assert not state._branch.cells["x"].done, "the call returned while the model works"
    assert state["x"] == "slow"
    release.set()


def test_branches_overlap_in_time() -> None:  # 18
    active, most = 0, 0

    class Counting(B):
        async def generate(self, *given: Any) -> Any:
            nonlocal active, most
            active += 1
            most = max(most, active)
            async for part in super().generate(*given):
                yield part
            active -= 1

    @sgl.function
    def program(s: Any) -> None:
        s += "x"
        group = s.fork(3)
        group += sgl.gen("y")
        group.join()

    assert program.run(backend=Counting(["a", "b", "c"], delay=0.1)).text() == "x"
    assert most == 3


def test_streams_can_be_read_whole_by_variable_and_twice() -> None:  # 19
    @sgl.function
    def program(s: Any) -> None:
        s += "A:" + sgl.gen("x") + " B:" + sgl.gen("y")

    state = program.run(backend=B(["hello", "world"], chunk=2), stream=True)
    assert list(state.text_iter("x")) == ["he", "ll", "o"]
    assert "".join(state.text_iter()) == "A:hello B:world" == state.text()
    assert list(state.text_iter("y")) == ["wo", "rl", "d"]


def test_one_failing_program_of_a_batch_leaves_the_others_whole() -> None:  # 20
    @sgl.function
    def program(s: Any, q: str) -> None:
        s += q + sgl.gen("x")

    backend = B.by_prompt(lambda prompt: 1 / 0 if "bad" in prompt else "fine")  # type: ignore[arg-type,return-value]
    states = program.run_batch([{"q": "good "}, {"q": "bad "}, {"q": "good2 "}], backend=backend)
    assert states[0]["x"] == states[2]["x"] == "fine"
    assert states[1].error() is not None
    assert states[0].error() is None


def test_the_static_prefix_of_a_batch_is_sent_once_and_first() -> None:  # 21
    head = "Shared instructions. " * 5

    @sgl.function
    def program(s: Any, rules: str, q: str) -> None:
        s += head + rules
        s += "Q: " + q + sgl.gen("a")

    bound = program.bind(rules="Be brief.\n")
    backend = B(["1", "2"])
    bound.run_batch([{"q": "x"}, {"q": "y"}], backend=backend)
    assert backend.cached == [head + "Be brief.\nQ: "]
    assert backend.log[0][0] == "cache"
    single = B(["1"])
    bound.run_batch([{"q": "x"}], backend=single)
    assert single.cached == []

    @sgl.function
    def short(s: Any, q: str) -> None:
        s += "tiny " + q

    none = B()
    short.run_batch([{"q": "x"}, {"q": "y"}], backend=none)
    assert none.cached == []


def test_async_streaming_gives_pairs_with_meta_data() -> None:  # 23
    @sgl.function
    def program(s: Any) -> None:
        s += "A:" + sgl.gen("x")

    async def go() -> list[tuple[str, dict[str, Any]]]:
        state = program.run(backend=B(["hello"], chunk=2, delay=0.01), stream=True)
        return [pair async for pair in state.text_async_iter("x", return_meta_data=True)]

    got = asyncio.run(go())
    assert "".join(text for text, _ in got) == "hello"
    assert all(isinstance(meta, dict) for _, meta in got)


def test_the_callers_stop_list_is_never_changed() -> None:  # 32
    stops = ["\n"]

    @sgl.function
    def program(s: Any) -> None:
        s += sgl.user("q")
        s += sgl.assistant(sgl.gen("x", stop=stops))

    for _ in range(3):
        backend = B(["a"], template="chatml")
        program.run(backend=backend).text()
        assert backend.params[0].stop == ("\n", "<|im_end|>")
    assert stops == ["\n"]


def test_bind_keeps_options_and_leaves_the_callers_dicts_alone() -> None:  # 38
    @sgl.function(num_api_spec_tokens=8)
    def program(s: Any, a: str, b: str) -> None:
        s += a + b

    assert program.bind(a="A").num_api_spec_tokens == 8
    rows = [{"b": "1"}, {"b": "2"}]
    states = program.bind(a="A").run_batch(rows, backend=B())
    assert [state.text() for state in states] == ["A1", "A2"]
    assert rows == [{"b": "1"}, {"b": "2"}]


def test_a_turn_appended_twice_is_said_once() -> None:  # 41
    @sgl.function
    def program(s: Any) -> None:
        s += s.system("S")
        s += sgl.user("U")

    state = program.run(backend=B(template="chatml"))
    assert [message["role"] for message in state.messages()] == ["system", "user"]
