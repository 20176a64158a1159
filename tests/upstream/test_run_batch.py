"""run_batch with each of its arguments, and bind."""

from __future__ import annotations

import pytest

import sglang_lite as sgl
from sglang_lite.testing import ScriptedBackend


@sgl.function
def text_qa(s, question, hint="none"):
    s += "Q: " + question + " (" + hint + ")\n"
    s += "A:" + sgl.gen("answer", stop="\n")


QUESTIONS = ["What is a fjord?", "What is a delta?", "What is an isthmus?"]


def test_rows_are_dictionaries(runtime) -> None:
    states = text_qa.run_batch(
        [{"question": question} for question in QUESTIONS], max_new_tokens=8, progress_bar=True
    )
    assert isinstance(states, list)
    assert len(states) == 3
    for question, state in zip(QUESTIONS, states, strict=True):
        assert state.text() == f"Q: {question} (none)\nA:" + state["answer"]
        assert len(state["answer"]) == 8
        assert state.error() is None


def test_rows_are_tuples_or_lists(runtime) -> None:
    states = text_qa.run_batch([("Why?", "think"), ["How?"]], max_new_tokens=4)
    assert [state.text().split("\n")[0] for state in states] == [
        "Q: Why? (think)",
        "Q: How? (none)",
    ]
    with pytest.raises(Exception, match="argument"):
        text_qa.run_batch([("a", "b", "c")])


def test_an_empty_batch(runtime) -> None:
    assert list(text_qa.run_batch([])) == []


@pytest.mark.parametrize("threads", ["auto", 1, 2, 64])
def test_any_number_of_threads(runtime, threads) -> None:
    states = text_qa.run_batch(
        [{"question": str(i)} for i in range(10)], num_threads=threads, max_new_tokens=3
    )
    assert [state.text()[3] for state in states] == list("0123456789")


def test_results_one_by_one(runtime) -> None:
    states = text_qa.run_batch(
        [{"question": str(i)} for i in range(7)], generator_style=True, max_new_tokens=3
    )
    first = next(states)
    assert first.text().startswith("Q: 0")
    assert [state.text()[3] for state in states] == list("123456")


def test_every_sampling_option(runtime) -> None:
    states = text_qa.run_batch(
        [{"question": question} for question in QUESTIONS],
        max_new_tokens=6,
        n=2,
        stop=["zzzz"],
        stop_token_ids=[10],
        temperature=0.8,
        top_p=0.95,
        top_k=20,
        min_p=0.01,
        frequency_penalty=0.1,
        presence_penalty=0.1,
        ignore_eos=True,
        return_logprob=True,
        logprob_start_len=0,
        top_logprobs_num=2,
        return_text_in_logprobs=True,
        backend=runtime,
        num_threads="auto",
        progress_bar=False,
        generator_style=False,
    )
    assert all(len(state["answer"]) == 2 for state in states)
    assert all(len(answer) == 6 for state in states for answer in state["answer"])


def test_a_backend_for_one_batch(runtime) -> None:
    backend = ScriptedBackend.by_prompt(lambda prompt: prompt.split()[1] + "!")
    states = text_qa.run_batch([{"question": "A"}, {"question": "B"}], backend=backend)
    assert [state["answer"] for state in states] == ["A!", "B!"]


def test_bound_arguments(runtime) -> None:
    @sgl.function
    def few_shot_qa(s, prompt, question):
        s += prompt
        s += "Q: What is two and two?\nA: Four\n"
        s += "Q: " + question + "\nA:" + sgl.gen("answer", stop="\n", max_tokens=5)

    simple = few_shot_qa.bind(prompt="Answer like a child.\n\n")
    state = simple.run(question="Why is it dark?")
    assert state.text().startswith("Answer like a child.\n\nQ: What is two and two?")
    rows = [{"question": "Why?"}, {"question": "Where?"}]
    states = simple.run_batch(rows)
    assert all(state.text().startswith("Answer like a child.") for state in states)
    assert rows == [{"question": "Why?"}, {"question": "Where?"}]
    plain = few_shot_qa.run(prompt="Plain.\n", question="Why?")
    assert plain.text().startswith("Plain.\n")


def test_what_a_body_raises_stays_with_its_state(runtime) -> None:
    @sgl.function
    def strict(s, number):
        s += "n = " + str(10 // number) + sgl.gen("x", max_tokens=2)

    good, bad = strict.run_batch([{"number": 5}, {"number": 0}])
    assert len(good["x"]) == 2
    assert isinstance(bad.error(), ZeroDivisionError)
    with pytest.raises(ZeroDivisionError):
        strict.run_batch([{"number": 5}, {"number": 0}], on_error="raise")


def test_what_a_backend_raises_stays_with_its_state() -> None:
    def answer(prompt: str) -> str:
        if "bad" in prompt:
            raise ConnectionError("it rained")
        return "fine"

    states = text_qa.run_batch(
        [{"question": "good"}, {"question": "bad"}], backend=ScriptedBackend.by_prompt(answer)
    )
    assert states[0]["answer"] == "fine"
    assert states[0].error() is None
    assert "it rained" in str(states[1].error())
