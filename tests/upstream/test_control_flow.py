"""Ordinary Python between the gens, and programs that call programs."""

from __future__ import annotations

import sglang_lite as sgl
from sglang_lite.testing import ScriptedBackend


@sgl.function
def tool_use(s, question):
    s += sgl.assistant(
        "To answer this question: "
        + question
        + ". I need to use a "
        + sgl.gen("tool", choices=["calculator", "search engine"])
        + ". "
    )
    if s["tool"] == "calculator":
        s += sgl.assistant("The math expression is: " + sgl.gen("expression", max_tokens=9))
    elif s["tool"] == "search engine":
        s += sgl.assistant("The key word to search is: " + sgl.gen("word", max_tokens=9))


def test_a_branch_on_a_value(runtime) -> None:
    state = tool_use("What is 2 * 2?")
    if state["tool"] == "calculator":
        assert len(state["expression"]) == 9
        assert "word" not in state
    else:
        assert len(state["word"]) == 9
        assert "expression" not in state
    assert [m["role"] for m in state.messages()] == ["assistant", "assistant"]


@sgl.function
def expand_tip(s, topic, tip):
    s += "Expand a tip.\n\nTopic: " + topic + "\nTip: " + tip + "\nParagraph:"
    s += sgl.gen("paragraph", max_tokens=16, stop=["\n\n"], temperature=0)


@sgl.function
def suggest_tips(s, topic, number=3):
    s += "USER: Give some tips for " + topic + ".\nASSISTANT: Here are some:\n"
    paragraphs = []
    for i in range(1, 1 + number):
        s += f"{i}." + sgl.gen(f"tip_{i}", max_tokens=10, stop=[".", "\n"]) + ".\n"
        paragraphs.append(expand_tip(topic=topic, tip=s[f"tip_{i}"]))
    for i in range(1, 1 + number):
        s += f"Tip {i}:" + paragraphs[i - 1]["paragraph"] + "\n"
    return [paragraph.text() for paragraph in paragraphs]


def test_programs_call_programs(runtime) -> None:
    states = suggest_tips.run_batch(
        [{"topic": "a campfire"}, {"topic": "a blog", "number": 2}], temperature=0, num_threads=4
    )
    assert [len(state.ret_value) for state in states] == [3, 2]
    for state in states:
        for i, text in enumerate(state.ret_value, 1):
            assert "\nTip: " + state[f"tip_{i}"] + "\nParagraph:" in text
            paragraph = text.split("Paragraph:")[1]
            assert f"Tip {i}:{paragraph}\n" in state.text()


def propose(s, question, branches):
    s += sgl.user("Make a plan for: " + question)
    forks = s.fork(branches)
    forks += sgl.assistant(sgl.gen("plan", max_tokens=6, temperature=0.001))
    return forks


def carry_out(s, branches):
    s += sgl.user("Carry it out.")
    forks = s.fork(branches)
    forks += sgl.assistant(sgl.gen("answer", max_tokens=6, temperature=0.001))
    return forks


@sgl.function
def tree_search(s, question, branches):
    solutions = [carry_out(plan, branches) for plan in propose(s, question, branches)]
    return [[solution.text() for solution in forks] for forks in solutions]


def test_plain_functions_take_the_state(runtime) -> None:
    states = tree_search.run_batch([{"question": "Why?", "branches": 2}] * 2, temperature=0)
    for state in states:
        assert [len(texts) for texts in state.ret_value] == [2, 2]
        for texts in state.ret_value:
            assert all("Carry it out." in text for text in texts)


@sgl.function
def skeleton_of_thought(s, topic):
    points = 3
    s += sgl.user("List " + str(points) + " points about " + topic + ".")
    with s.assistant():
        for i in range(1, 1 + points):
            s += f"{i}. " + sgl.gen(f"point_{i}", max_tokens=5, stop="\n") + "\n"
    forks = s.fork(points)
    for i, f in enumerate(forks, 1):
        f += sgl.user(f"Write about point {i}.")
        f += sgl.assistant(sgl.gen("detail", max_tokens=8))
    forks.join()
    s += sgl.user("Put it together.")
    s += sgl.assistant("".join(s["detail"]) + sgl.gen("summary", max_tokens=4))


def test_a_skeleton_is_filled_in_parallel(runtime) -> None:
    state = skeleton_of_thought.run(topic="tea")
    assert len(state["detail"]) == 3
    messages = state.messages()
    assert messages[-1]["content"] == ("".join(state["detail"]) + state["summary"]).lstrip()
    assert messages[-3]["content"].startswith("1. " + state["point_1"])


def test_a_loop_until_the_model_is_done() -> None:
    @sgl.function
    def agent(s, tools):
        for turn in range(5):
            s += f"Action {turn}: " + sgl.gen("action", stop="\n") + "\n"
            if s["action"] == "finish":
                break
            s += "Observation: " + tools[s["action"]]() + "\n"
        return turn

    state = agent.run(
        tools={"weather": lambda: "rain", "time": lambda: "noon"},
        backend=ScriptedBackend(["weather", "time", "finish\nmore"]),
    )
    assert state.ret_value == 2
    assert state.text() == (
        "Action 0: weather\nObservation: rain\nAction 1: time\nObservation: noon\n"
        "Action 2: finish\n"
    )
    assert state["action"] == "finish"


def test_a_program_calls_itself(runtime) -> None:
    @sgl.function
    def summarize(s, text):
        if len(text) > 20:
            half = len(text) // 2
            left, right = summarize(text=text[:half]), summarize(text=text[half:])
            text = left["summary"] + " " + right["summary"]
        s += text + "\nSummary:" + sgl.gen("summary", max_tokens=8)

    state = summarize.run(text="word " * 12)
    assert len(state["summary"]) == 8
    assert len(state.text().split("\n")[0]) == 17


def test_programs_with_any_arguments(runtime) -> None:
    @sgl.function
    def program(s, lhs, rhs, *, sign="+"):
        s += str(lhs) + sign + str(rhs) + "=" + sgl.gen("x", max_tokens=2)

    assert program(2, rhs=3).text().startswith("2+3=")
    assert program.run(2, 3, sign="-").text().startswith("2-3=")
