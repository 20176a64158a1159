"""select and gen(choices=): the three methods, and the scores in the meta info."""

from __future__ import annotations

import pytest

import sglang_lite as sgl
from sglang_lite.testing import ScriptedBackend

METHODS = [
    sgl.token_length_normalized,
    sgl.greedy_token_selection,
    sgl.unconditional_likelihood_normalized,
]

# Made so that each method has another favourite: one long and safe after its first token,
# one with the best first token, one that is unlikely everywhere but here.
CONDITIONAL = {"steady": [-2.0, -0.1, -0.1], "eager": [-1.0, -3.0], "rare": [-2.5, -2.5]}
ALONE = {"steady": [-1.0, -0.1, -0.1], "eager": [-1.0, -2.0], "rare": [-6.0, -6.0]}


@sgl.function
def capital(s, method):
    s += sgl.user("What is the capital of France?")
    s += sgl.assistant(
        sgl.gen("answer", choices=["steady", "eager", "rare"], choices_method=method)
    )


@pytest.mark.parametrize("winner", [0, 1, 2], ids=["mean", "greedy", "unconditional"])
def test_each_method_has_its_winner(winner: int) -> None:
    method, expected = METHODS[winner], ["steady", "eager", "rare"][winner]
    state = capital.run(method=method, backend=ScriptedBackend.scoring(CONDITIONAL, uncond=ALONE))
    assert state["answer"] == expected
    assert state.messages()[-1] == {"role": "assistant", "content": expected}


def test_the_mean_is_the_default(runtime) -> None:
    @sgl.function
    def true_or_false(s, statement):
        s += "Statement: The moon is a planet.\nAnswer: False\n"
        s += "Statement: " + statement + "\nAnswer:"
        s += sgl.select("answer", [" True", " False", " Unknown"])

    state = true_or_false.run(statement="Rome is in Italy.")
    assert state["answer"] in (" True", " False", " Unknown")
    assert state.text().endswith("Answer:" + state["answer"])
    meta = state.get_meta_info("answer")
    scores = meta["normalized_prompt_logprobs"]
    assert [" True", " False", " Unknown"][scores.index(max(scores))] == state["answer"]
    assert {"normalized_prompt_logprobs", "input_token_logprobs", "output_token_logprobs"} <= set(
        meta
    )


def test_the_scores_of_each_option(runtime) -> None:
    @sgl.function
    def tool_use(s, question):
        s += "To answer this: " + question + ", "
        s += "I need a " + sgl.gen("tool", choices=["calculator", "search engine"])

    for state in [tool_use.run("What is 5 + 5?"), *tool_use.run_batch([{"question": "Who?"}] * 2)]:
        rows = state.get_meta_info("tool")["input_token_logprobs"]
        assert len(rows) == 2
        # one byte is one token here; a server may put the last token of the prompt before them
        assert len(rows[0]) - len("calculator") == len(rows[1]) - len("search engine") in (0, 1)
        assert all(logprob is None or logprob <= 0 for logprob, _, _ in rows[0])
        assert "".join(chr(token) for _, token, _ in rows[0]).endswith("calculator")


@pytest.mark.parametrize("method", METHODS, ids=["mean", "greedy", "unconditional"])
def test_each_method_adds_its_keys(runtime, method) -> None:
    @sgl.function
    def pick(s):
        s += "A or B? " + sgl.select("x", choices=["A", "Bee"], choices_method=method)

    state = pick.run()
    meta = state.get_meta_info("x")
    assert state["x"] in ("A", "Bee")
    assert len(meta["normalized_prompt_logprobs"]) == 2
    if method is sgl.greedy_token_selection:
        matrix = meta["greedy_logprob_matrix"]
        assert [len(row) for row in matrix] == [3, 3]
        assert matrix[0][1] == pytest.approx(matrix[0][0])  # extended by its mean
    if method is sgl.unconditional_likelihood_normalized:
        assert len(meta["normalized_unconditional_prompt_logprobs"]) == 2
        assert len(meta["unconditional_token_logprobs"]) == 2


def test_choices_as_an_argument_of_a_batch(runtime) -> None:
    @sgl.function
    def hellaswag(s, question, choices):
        s += question
        s += sgl.select("answer", choices=choices)

    choices = [["walks.", "sings a song."], ["eats.", "drinks.", "sleeps."]]
    questions = ["A man ", "A cat "]
    states = hellaswag.run_batch(
        [{"question": q, "choices": c} for q, c in zip(questions, choices, strict=True)],
        temperature=0,
        num_threads=2,
    )
    assert all(c.index(state["answer"]) >= 0 for c, state in zip(choices, states, strict=True))


def test_an_empty_list_of_choices_is_a_gen(runtime) -> None:
    @sgl.function
    def free(s):
        s += "Say" + sgl.gen("x", max_tokens=6, choices=[])

    assert len(free.run()["x"]) == 6
