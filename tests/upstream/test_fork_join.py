"""Branches: fork, groups, both modes of join, copy."""

from __future__ import annotations

import pytest

import sglang_lite as sgl
from sglang_lite.testing import ScriptedBackend


@sgl.function
def judge(s, article):
    dimensions = ["Content", "Structure", "Clarity"]
    s += "Judge the article.\n```\n" + article + "\n```\n"
    forks = s.fork(len(dimensions))
    for i in range(len(dimensions)):
        forks[i] += "Look only at this: " + dimensions[i] + "\nVerdict:"
        forks[i] += sgl.gen("judgement", max_tokens=12, stop="END")
    forks.join()

    s += "Verdicts:\n"
    for i, dimension in enumerate(dimensions):
        s += dimension + ": " + forks[i]["judgement"].strip() + "\n"
    s += "Score: " + sgl.gen("score", max_tokens=2)


def test_branches_are_gathered_into_lists(runtime) -> None:
    state = judge.run(article="Bees dance.", temperature=0)
    assert len(state["judgement"]) == 3
    assert all(isinstance(judgement, str) for judgement in state["judgement"])
    assert "Structure: " + state["judgement"][1].strip() + "\n" in state.text()
    assert "Look only at this" not in state.text()
    assert len(state["score"]) == 2


def test_branches_know_what_was_before_them(runtime) -> None:
    @sgl.function
    def chain(s):
        s += "Pick: " + sgl.gen("pick", max_tokens=3)
        s["note"] = {"any": "object"}
        forks = s.fork(2)
        for f in forks:
            assert f["note"] == {"any": "object"}
            f += " because of " + f["pick"] + sgl.gen("why", max_tokens=4)
        texts = [f.text() for f in forks]
        forks.join()
        return texts

    state = chain.run()
    for text in state.ret_value:
        assert text.startswith("Pick: " + state["pick"] + " because of " + state["pick"])
    assert len(state["why"]) == 2
    assert isinstance(state["pick"], str)
    assert state.text() == "Pick: " + state["pick"]


def test_a_group_takes_an_expression_a_list_and_a_function(runtime) -> None:
    @sgl.function
    def sample(s, question, count):
        s += "Question: " + question + "\n"
        forks = s.fork(count)
        forks += lambda i: f"Attempt {i}. "
        forks += ["first ", "second ", "third "]
        forks += "Reasoning:" + sgl.gen("reasoning", max_tokens=5) + "\n"
        forks += "Tool:" + sgl.gen("tool", choices=["calculator", "browser"]) + "\n"
        forks.join()
        return [f.text() for f in forks]

    state = sample.run(question="5 + 2 + 4?", count=3, temperature=1.0)
    for i, (text, ordinal) in enumerate(
        zip(state.ret_value, ["first", "second", "third"], strict=True)
    ):
        assert text == (
            f"Question: 5 + 2 + 4?\nAttempt {i}. {ordinal} Reasoning:{state['reasoning'][i]}\n"
            f"Tool:{state['tool'][i]}\n"
        )
    assert set(state["tool"]) <= {"calculator", "browser"}


def test_texts_can_be_joined_one_after_the_other(runtime) -> None:
    @sgl.function
    def parallel_encoding(s, question, contexts):
        s += "Remember these statements.\n"
        forks = s.fork(len(contexts))
        forks += lambda i: f"Statement {i}: " + contexts[i] + "\n"
        forks.join(mode="concate_and_append")
        s += "Now, the question: " + question + "\nAnswer:" + sgl.gen("answer", max_tokens=8)

    state = parallel_encoding.run(
        question="Who?", contexts=["Ann is here.", "Bob is there."], temperature=0
    )
    assert state.text() == (
        "Remember these statements.\nStatement 0: Ann is here.\nStatement 1: Bob is there.\n"
        "Now, the question: Who?\nAnswer:" + state["answer"]
    )


def test_join_refuses_other_modes() -> None:
    @sgl.function
    def program(s):
        s.fork(2).join("sideways")

    with pytest.raises(ValueError, match="sideways"):
        program.run(backend=ScriptedBackend())


def test_a_copy_is_a_branch_for_a_moment(runtime) -> None:
    @sgl.function
    def program(s):
        s += "The text so far." + sgl.gen("rest", max_tokens=3)
        with s.copy() as t:
            t += " Summary: " + sgl.gen("summary", max_tokens=6)
        s += " It goes on."

    state = program.run()
    assert state.text() == "The text so far." + state["rest"] + " It goes on."
    assert [len(summary) for summary in state["summary"]] == [6]


def test_a_fork_of_one_that_is_not_joined(runtime) -> None:
    @sgl.function
    def program(s):
        s += "Thought:"
        side = s.fork()
        side[0] += sgl.gen("thought", max_tokens=7)
        s += side[0]["thought"] + "."

    state = program.run()
    assert state.text().startswith("Thought:")
    assert state.text().endswith(".")
    assert len(state.text()) == len("Thought:") + 8
    assert "thought" not in state


def test_forks_of_forks_and_position_offsets(runtime) -> None:
    @sgl.function
    def tree(s):
        s += sgl.user("Plan.")
        leaves = []
        plans = s.fork(2, position_ids_offset=[0, 0])
        plans += sgl.assistant(sgl.gen("plan", max_tokens=4))
        for plan in plans:
            plan += sgl.user("Do it.")
            answers = plan.fork(2)
            answers += sgl.assistant(sgl.gen("answer", max_tokens=4))
            leaves.extend(answers)
        return [leaf.messages() for leaf in leaves]

    chats = tree.run(temperature=0.001).ret_value
    assert len(chats) == 4
    for chat in chats:
        assert [m["role"] for m in chat][-4:] == ["user", "assistant", "user", "assistant"]
        assert chat[-2]["content"] == "Do it."
    assert chats[0][:-1] == chats[1][:-1]


def test_a_fork_inside_an_open_turn(runtime) -> None:
    @sgl.function
    def decode(s, question):
        s += sgl.user("Question: " + question)
        s += sgl.assistant_begin()
        probe = s.fork(1)[0]
        forks = s.fork(3)
        probe += sgl.gen(
            "first",
            max_tokens=0,
            return_logprob=True,
            top_logprobs_num=3,
            return_text_in_logprobs=True,
        )
        tops = probe.get_meta_info("first")["output_top_logprobs"][0]
        for f, (_, _, text) in zip(forks, tops, strict=True):
            f += text + sgl.gen("answer", temperature=0, max_tokens=5)
        return [top[2] for top in tops], [str(f) for f in forks]

    firsts, shown = decode.run(question="How many?").ret_value
    assert len(set(firsts)) == 3
    for first, text in zip(firsts, shown, strict=True):
        assert text.startswith("ProgramState(")
        assert text.endswith(")")
        assert len(text[text.index("assistant\n") + len("assistant\n") : -1]) == 6
        assert text[text.index("assistant\n") + len("assistant\n")] == first
