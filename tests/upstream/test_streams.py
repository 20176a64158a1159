"""Texts and variables as they come."""

from __future__ import annotations

import asyncio

import sglang_lite as sgl
from sglang_lite.testing import ScriptedBackend


@sgl.function
def chat(s, question_1, question_2):
    s += sgl.system("You are brief.")
    s += sgl.user(question_1)
    s += sgl.assistant(sgl.gen("answer_1", max_tokens=20))
    s += sgl.user(question_2)
    s += sgl.assistant(sgl.gen("answer_2", max_tokens=20))


QUESTIONS = {"question_1": "What is the capital of Chad?", "question_2": "Name a lake there."}


def test_the_whole_text(runtime) -> None:
    state = chat.run(**QUESTIONS, temperature=0.1, stream=True)
    pieces = list(state.text_iter())
    assert len(pieces) > 3
    assert "".join(pieces) == state.text()
    assert state["answer_2"] in state.text()


def test_a_call_streams_as_well(runtime) -> None:
    state = chat(**QUESTIONS, stream=True)
    assert "".join(state.text_iter()) == state.text()


def test_one_variable(runtime) -> None:
    state = chat.run(**QUESTIONS, stream=True)
    pieces = list(state.text_iter(var_name="answer_2"))
    assert len(pieces) > 3
    assert "".join(pieces) == state["answer_2"]
    assert "".join(state.text_iter("answer_1")) == state["answer_1"]


def test_pieces_come_before_the_end() -> None:
    @sgl.function
    def slow(s):
        s += "A:" + sgl.gen("x")

    state = slow.run(backend=ScriptedBackend(["abcdefgh"], delay=0.02, chunk=2), stream=True)
    pieces = iter(state.text_iter("x"))
    assert next(pieces) == "ab"
    assert "".join(pieces) == "cdefgh"
    assert state["x"] == "abcdefgh"


def test_iterating_in_asyncio(runtime) -> None:
    async def read() -> None:
        state = chat.run(**QUESTIONS, stream=True)
        out = ""
        async for piece in state.text_async_iter(var_name="answer_2"):
            out += piece
        assert out == state["answer_2"]

        state = chat.run(**QUESTIONS, stream=True)
        out = ""
        async for piece in state.text_async_iter():
            out += piece
        assert out == state.text()

    asyncio.run(read())


def test_iterating_with_meta_data(runtime) -> None:
    async def read() -> None:
        state = chat.run(**QUESTIONS, stream=True)
        out, last = "", {}
        async for piece, meta in state.text_async_iter(var_name="answer_1", return_meta_data=True):
            out += piece
            last = meta
        assert out == state["answer_1"]
        assert last["prompt_tokens"] > 0
        assert last["completion_tokens"] > 0

    asyncio.run(read())


def test_two_streams_in_one_loop(runtime) -> None:
    async def read(name: str) -> str:
        state = chat.run(**QUESTIONS, stream=True)
        return "".join([piece async for piece in state.text_async_iter(name)])

    async def both() -> list[str]:
        return await asyncio.gather(read("answer_1"), read("answer_2"))

    assert [len(text) for text in asyncio.run(both())] == [20, 20]


def test_iterating_over_what_was_not_streamed(runtime) -> None:
    state = chat.run(**QUESTIONS)
    assert "".join(state.text_iter()) == state.text()
    assert "".join(state.text_iter("answer_1")) == state["answer_1"]

    async def read() -> str:
        return "".join([piece async for piece in state.text_async_iter("answer_2")])

    assert asyncio.run(read()) == state["answer_2"]
