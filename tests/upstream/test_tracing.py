"""Programs looked at before they run, and the switches around them."""

from __future__ import annotations

import pytest

import sglang_lite as sgl
from sglang_lite.lang.backend.base_backend import BaseBackend
from sglang_lite.lang.chat_template import get_chat_template
from sglang_lite.testing import ScriptedBackend


@sgl.function
def few_shot_qa(s, prompt, question):
    s += prompt
    s += "Q: What is the capital of France?\nA: Paris\n" * 2
    s += "Q: " + question + "\n"
    s += "A:" + sgl.gen("answer", stop="\n", max_tokens=6)


def test_a_trace_can_be_printed() -> None:
    tracer = few_shot_qa.trace()
    graph = tracer.last_node.print_graph_dfs()
    assert isinstance(graph, str)
    assert "Gen" in graph or "gen" in graph
    assert "question" in graph
    assert len(tracer.nodes) >= 5


def test_bound_arguments_are_constants_in_a_trace() -> None:
    tracer = few_shot_qa.bind(prompt="Answer these.\n").trace()
    assert "Answer these." in tracer.last_node.print_graph_dfs()


def test_a_trace_of_forks() -> None:
    @sgl.function
    def tips(s):
        s += "Three tips: sleep, eat, walk.\n"
        forks = s.fork(3)
        for i in range(3):
            forks[i] += f"Expand tip {i + 1}:\n"
            forks[i] += sgl.gen("detailed_tip")
        s += "Tip 1:" + forks[0]["detailed_tip"] + "\n"
        s += "Tip 2:" + forks[1]["detailed_tip"] + "\n"
        s += "In summary" + sgl.gen("summary")

    graph = tips.trace().last_node.print_graph_dfs()
    assert "Expand tip 1" in graph
    assert "summary" in graph


def test_a_trace_of_select() -> None:
    @sgl.function
    def capital(s):
        s += "The capital of France is"
        s += sgl.select("capital", ["Paris. ", "London. "])
        s += "It is a city" + sgl.gen("description", stop=".")

    assert "London" in capital.trace().last_node.print_graph_dfs()


def test_a_trace_of_roles() -> None:
    @sgl.function
    def chat(s):
        s += sgl.user("Who are you?")
        s += sgl.assistant(sgl.gen("answer_1"))
        s += sgl.user("Who made you?")
        s += sgl.assistant(sgl.gen("answer_2"))

    backend = BaseBackend()
    backend.chat_template = get_chat_template("llama-2-chat")
    graph = chat.trace(backend=backend).last_node.print_graph_dfs()
    assert "[INST]" in graph


def test_the_value_of_an_argument_is_unknown_in_a_trace() -> None:
    @sgl.function
    def wrong(s, question):
        s += f"I want to ask {question}"

    tracer = wrong.trace()
    assert "question" in tracer.opaque


def test_programs_in_programs_are_traced_and_compiled() -> None:
    @sgl.function
    def expand(s, tip):
        s += "Expand this tip: " + tip + "\n"
        s += sgl.gen("detailed_tip")

    @sgl.function
    def suggest(s, topic):
        s += "Two tips for " + topic + ".\n"
        s += "1." + sgl.gen("tip_1", stop=["\n", "."]) + "\n"
        s += "2." + sgl.gen("tip_2", stop=["\n", "."]) + "\n"
        first = expand(tip=s["tip_1"])
        second = expand(tip=s["tip_2"])
        s += "Tip 1: " + first["detailed_tip"] + "\n"
        s += "Tip 2: " + second["detailed_tip"] + "\n"
        s += "In summary" + sgl.gen("summary")

    graph = suggest.trace().last_node.print_graph_dfs()
    assert graph.count("Expand this tip: ") == 2
    compiled = suggest.compile()

    def answer(prompt: str) -> str:
        return f"<{len(prompt)}>"

    sgl.set_default_backend(ScriptedBackend.by_prompt(answer))
    state = compiled.run(topic="health")
    assert state["tip_1"] == f"<{len('Two tips for health.') + 3}>"
    assert state.text().endswith("In summary" + state["summary"])
    states = compiled.run_batch([{"topic": "joy"}, {"topic": "money"}], temperature=0)
    sgl.set_default_backend(None)
    assert [state.text().split("\n")[0] for state in states] == [
        "Two tips for joy.",
        "Two tips for money.",
    ]


def test_a_prefix_can_be_cached_ahead(runtime) -> None:
    simple = few_shot_qa.bind(prompt="Answer as if you were five years old.\n\n")
    runtime.flush_cache()
    simple.cache(runtime)
    state = simple.run(question="Why is the sky blue?")
    head = len("Answer as if you were five years old.\n\nQ: What is the capital of France?")
    assert state.get_meta_info("answer")["cached_tokens"] > head


def test_a_default_backend() -> None:
    with pytest.raises(Exception, match="backend"):
        raise few_shot_qa.run(prompt="", question="?").error() or LookupError("no error")
    sgl.set_default_backend(ScriptedBackend(["Rome"]))
    try:
        assert sgl.global_config.default_backend is not None
        assert few_shot_qa.run(prompt="", question="?")["answer"] == "Rome"
    finally:
        sgl.set_default_backend(None)


def test_the_switches(runtime) -> None:
    config = sgl.global_config
    assert config.verbosity == 0
    assert config.enable_precache_with_tracing is True
    assert config.enable_parallel_encoding is True
    assert config.skip_special_tokens_in_output is True
    assert config.spaces_between_special_tokens_in_out is True
    config.enable_precache_with_tracing = False
    try:
        states = few_shot_qa.run_batch([{"prompt": "P\n", "question": "a"}] * 2)
        assert len(states) == 2
    finally:
        config.enable_precache_with_tracing = True


def test_the_cache_and_the_server(runtime) -> None:
    few_shot_qa.run(prompt="x" * 80, question="y").sync()
    sgl.flush_cache()
    sgl.flush_cache(runtime)
    again = few_shot_qa.run(prompt="x" * 80, question="y")
    assert again.get_meta_info("answer")["cached_tokens"] == 0
    info = sgl.get_server_info()
    assert isinstance(info, dict)
    assert sgl.get_server_info(runtime).keys() == info.keys()
