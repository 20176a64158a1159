"""A chat of several turns, in each of the ways in which roles can be written."""

from __future__ import annotations

import pytest

import sglang_lite as sgl
from sglang_lite import assistant, function, gen, system, user
from sglang_lite.lang.chat_template import get_chat_template
from sglang_lite.testing import ScriptedBackend

CHATML = (
    "<|im_start|>system\nYou cook.<|im_end|>\n"
    "<|im_start|>user\nName a soup.<|im_end|>\n"
    "<|im_start|>assistant\nBorscht.<|im_end|>\n"
    "<|im_start|>user\nAnd a cake.<|im_end|>\n"
    "<|im_start|>assistant\nSure: Sachertorte<|im_end|>\n"
)
MESSAGES = [
    {"role": "system", "content": "You cook."},
    {"role": "user", "content": "Name a soup."},
    {"role": "assistant", "content": "Borscht."},
    {"role": "user", "content": "And a cake."},
    {"role": "assistant", "content": "Sure: Sachertorte"},
]


@function
def by_functions(s, soup, cake):
    s += system("You cook.")
    s += user(soup)
    s += assistant(gen("soup", max_tokens=16))
    s += user(cake)
    s += assistant("Sure: " + gen("cake", max_tokens=16, stop="."))


@sgl.function
def by_methods(s, soup, cake):
    s.system("You cook.")
    s.user(soup)
    s.assistant(sgl.gen("soup", max_tokens=16))
    s.user(cake)
    s.assistant("Sure: " + sgl.gen("cake", max_tokens=16, stop="."))


@sgl.function
def by_added_methods(s, soup, cake):
    s += s.system("You cook.")
    s += s.user(soup)
    s += s.assistant(sgl.gen("soup", max_tokens=16))
    s += s.user(cake)
    s += s.assistant("Sure: " + sgl.gen("cake", max_tokens=16, stop="."))


@sgl.function
def by_contexts(s, soup, cake):
    with s.system():
        s += "You cook."
    with s.user():
        s += soup
    with s.assistant():
        s += sgl.gen("soup", max_tokens=16)
    with s.user():
        s += cake
    with s.assistant():
        s += "Sure: "
        s += sgl.gen("cake", max_tokens=16, stop=".")


@sgl.function
def by_ends(s, soup, cake):
    s += sgl.system_begin() + "You cook." + sgl.system_end()
    s += sgl.user_begin()
    s += soup
    s += sgl.user_end()
    s += sgl.assistant_begin()
    s += sgl.gen("soup", max_tokens=16)
    s += sgl.assistant_end()
    s += sgl.user_begin() + cake + sgl.user_end()
    s += sgl.assistant_begin()
    s += "Sure: " + sgl.gen("cake", max_tokens=16, stop=".")
    s += sgl.assistant_end()


PROGRAMS = [by_functions, by_methods, by_added_methods, by_contexts, by_ends]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.func.__name__)
def test_every_way_writes_the_same_chat(program) -> None:
    backend = ScriptedBackend(["Borscht.", "Sachertorte. Enjoy!"], template="chatml")
    state = program.run(soup="Name a soup.", cake="And a cake.", backend=backend)
    assert state.messages() == MESSAGES
    assert state.text() == CHATML
    assert state["soup"] == "Borscht."
    assert state["cake"] == "Sachertorte"
    assert backend.prompts[0].endswith("<|im_start|>assistant\n")
    assert backend.prompts[1].endswith("<|im_start|>assistant\nSure: ")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.func.__name__)
def test_a_runtime_answers_each_turn(runtime, program) -> None:
    state = program(soup="Name a soup.", cake="And a cake.", temperature=0)
    messages = state.messages()
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "user", "assistant"]
    assert messages[2]["content"] == state["soup"].lstrip()
    assert len(state["soup"]) == 16
    assert messages[4]["content"] == "Sure: " + state["cake"]


def test_a_template_brings_its_default_system_prompt() -> None:
    @sgl.function
    def greet(s):
        s += sgl.user("Hello")
        s += sgl.assistant(sgl.gen("answer"))

    state = greet.run(backend=ScriptedBackend(["Hi"], template="qwen"))
    assert state.messages() == [
        {"role": "system", "content": get_chat_template("qwen").default_system_prompt},
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hi"},
    ]


def test_an_empty_system_turn(runtime) -> None:
    @sgl.function
    def bench(s, question_1, question_2):
        s += sgl.system()
        s += sgl.user(question_1)
        s += sgl.assistant(sgl.gen("answer_1"))
        s += sgl.user(question_2)
        s += sgl.assistant(sgl.gen("answer_2"))

    state = bench.run(question_1="Write a poem.", question_2="Now in prose.", max_new_tokens=6)
    assert state.messages()[0] == {"role": "system", "content": ""}
    assert len(state["answer_1"]) == len(state["answer_2"]) == 6


def test_two_samples_of_an_answer_and_the_chat_goes_on_with_the_first(runtime) -> None:
    @sgl.function
    def chat(s, question_1, question_2):
        s += sgl.system("You are brief.")
        s += sgl.user(question_1)
        s += sgl.assistant(sgl.gen("answer_1", max_tokens=10, n=2))
        s += sgl.user(question_2)
        s += sgl.assistant(sgl.gen("answer_2", max_tokens=10))

    for state in [
        chat.run(question_1="One?", question_2="Two?"),
        *chat.run_batch([{"question_1": "A?", "question_2": "B?"}] * 2),
    ]:
        assert isinstance(state["answer_1"], list)
        assert len(state["answer_1"]) == 2
        assert isinstance(state["answer_2"], str)
        assert state.messages()[2]["content"] == state["answer_1"][0].lstrip()


def test_roles_do_not_nest() -> None:
    @sgl.function
    def nested(s):
        with s.user():
            s += sgl.assistant("no")

    with pytest.raises(Exception, match="still open"):
        raise nested.run(backend=ScriptedBackend()).error() or LookupError("no error")
