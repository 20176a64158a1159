"""Every option of gen, and what they leave in the meta info."""

from __future__ import annotations

import re

import pytest

import sglang_lite as sgl
from sglang_lite.testing import ScriptedBackend

IP_ADDRESS = r"((25[0-5]|2[0-4]\d|[01]?\d\d?).){3}(25[0-5]|2[0-4]\d|[01]?\d\d?)"


def test_lengths(runtime) -> None:
    @sgl.function
    def lengths(s):
        s += "Once upon a time"
        s += sgl.gen("default")
        s += sgl.gen("short", max_tokens=5)
        s += sgl.gen("positional", 7)
        s += sgl.gen("none", max_tokens=0)
        s += sgl.gen("long", min_tokens=20, max_tokens=24)

    state = lengths.run()
    assert len(state["default"]) == 128
    assert len(state["short"]) == 5
    assert len(state["positional"]) == 7
    assert state["none"] == ""
    assert 20 <= len(state["long"]) <= 24
    meta = state.get_meta_info("short")
    assert meta["completion_tokens"] == 5
    assert meta["prompt_tokens"] > len("Once upon a time")
    assert meta["cached_tokens"] >= 0
    assert meta["finish_reason"]["type"] == "length"
    assert isinstance(meta["id"], str)


def test_stops_are_cut(runtime) -> None:
    @sgl.function
    def sentence(s):
        s += "The list: " + sgl.gen("item", max_tokens=300, stop="e") + ";"
        s += sgl.gen("other", max_tokens=300, stop=["a", "o"]) + "."

    state = sentence.run(temperature=0)
    assert "e" not in state["item"]
    assert not set("ao") & set(state["other"])
    assert state.text() == f"The list: {state['item']};{state['other']}."
    assert state.get_meta_info("item")["finish_reason"] == {"type": "stop", "matched": "e"}
    assert state.get_meta_info("other")["finish_reason"]["matched"] in ("a", "o")


def test_a_stop_of_gen_replaces_the_stop_of_run() -> None:
    @sgl.function
    def two(s):
        s += sgl.gen("own", stop="|")
        s += sgl.gen("inherited")

    backend = ScriptedBackend(["a.b|c", "d.e|f"])
    state = two.run(stop=".", backend=backend)
    assert (state["own"], state["inherited"]) == ("a.b", "d")
    stops = ["|"]

    @sgl.function
    def kept(s):
        s += sgl.user("q") + sgl.assistant(sgl.gen("x", stop=stops))

    kept.run(backend=ScriptedBackend(["1|2"])).sync()
    assert stops == ["|"]


def test_a_stop_token(runtime) -> None:
    @sgl.function
    def until_a_letter(s):
        s += "go" + sgl.gen("x", max_tokens=400, stop_token_ids=[ord("k")])

    state = until_a_letter.run(temperature=0)
    assert "k" not in state["x"]
    assert state.get_meta_info("x")["finish_reason"] == {"type": "stop", "matched": ord("k")}


def test_sampling_options_by_gen_and_by_run(runtime) -> None:
    @sgl.function
    def sampled(s):
        s += "Give a name: " + sgl.gen(
            "name",
            max_tokens=8,
            temperature=0.7,
            top_p=0.9,
            top_k=10,
            min_p=0.05,
            frequency_penalty=0.1,
            presence_penalty=0.1,
            ignore_eos=True,
        )
        s += " and a place: " + sgl.gen("place")

    state = sampled.run(
        max_new_tokens=6,
        temperature=0.5,
        top_p=0.8,
        top_k=4,
        min_p=0.0,
        frequency_penalty=0.2,
        presence_penalty=0.2,
        ignore_eos=True,
        stop=[],
        stop_token_ids=[],
    )
    assert len(state["name"]) == 8
    assert len(state["place"]) == 6


def test_logprobs(runtime) -> None:
    @sgl.function
    def scored(s):
        s += "Say it" + sgl.gen(
            "x",
            max_tokens=4,
            temperature=0,
            return_logprob=True,
            logprob_start_len=0,
            top_logprobs_num=3,
            return_text_in_logprobs=True,
        )

    state = scored.run()
    meta = state.get_meta_info("x")
    outputs = meta["output_token_logprobs"]
    assert "".join(text for _, _, text in outputs) == state["x"]
    assert all(logprob <= 0 and isinstance(token, int) for logprob, token, _ in outputs)
    assert [len(row) for row in meta["output_top_logprobs"]] == [3] * 4
    logprob, token, text = meta["output_top_logprobs"][0][0]
    assert logprob <= 0
    assert text == chr(token)
    assert len(meta["input_token_logprobs"]) == meta["prompt_tokens"]


def test_samples(runtime) -> None:
    @sgl.function
    def sample(s):
        s += "Ideas: " + sgl.gen("ideas", n=3, max_tokens=9) + "!"

    state = sample.run()
    assert len(state["ideas"]) == 3
    assert state.text() == "Ideas: " + state["ideas"][0] + "!"


def test_a_regular_expression(runtime) -> None:
    @sgl.function
    def dns(s):
        s += "Q: What is the address of a name server?\nA: "
        s += sgl.gen("answer", temperature=0, regex=IP_ADDRESS)

    assert re.fullmatch(IP_ADDRESS, dns.run()["answer"])
    with pytest.raises(re.error):
        sgl.gen("x", regex="(unclosed")


def test_types(runtime) -> None:
    @sgl.function
    def typed(s):
        s += "Full name: " + sgl.gen("str_res", max_tokens=20, dtype=str, stop="\n") + "\n"
        s += "Year: " + sgl.gen("int_res", max_tokens=20, dtype=int) + "\n"
        s += "Ratio: " + sgl.gen("float_res", max_tokens=20, dtype=float) + "\n"
        s += "Blue: " + sgl.gen("bool_res", dtype=bool) + "\n"
        s += "Again: " + sgl.gen_int("hours", max_tokens=4) + sgl.gen_string("text", max_tokens=9)

    state = typed.run()
    assert re.fullmatch(r'"[\w\d\s]*("|$)', state["str_res"])
    assert re.fullmatch(r"[-+]?[0-9]+", state["int_res"])
    assert re.match(r"[-+]?[0-9]*\.?[0-9]*", state["float_res"])
    assert state["bool_res"] in ("True", "False")
    assert isinstance(state["int_res"], str)
    int(state["hours"])
    state["int_res"] = int(state["int_res"])
    assert isinstance(state["int_res"], int)
    with pytest.raises(sgl.InvalidRequest, match="dtype"):
        sgl.gen("x", dtype=list)


def test_names_are_optional(runtime) -> None:
    @sgl.function
    def react(s, question):
        s += "Question: " + question + "\n"
        for i in range(1, 4):
            s += f"Thought {i}:" + sgl.gen(stop=["a", "e", "\n"]) + ".\n"
            s += f"Action {i}: " + sgl.select(f"action_{i}", ["Search", "Finish"])
            if s[f"action_{i}"] == "Search":
                s += " [" + sgl.gen(stop="n") + "].\n"
            else:
                s += " [" + sgl.gen("answer", stop="n") + "].\n"
                break

    state = react.run(question="Who wrote it?", temperature=0.1)
    assert state.text().startswith("Question: Who wrote it?\nThought 1:")
    assert state["action_1"] in ("Search", "Finish")
    assert ("answer" in state) == ("Finish" in state.text())
