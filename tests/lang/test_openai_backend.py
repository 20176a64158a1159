"""Programs on OpenAI's API: on a real server with a made-up model, and on one with bad days."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import aclosing
from typing import Any

import pytest
from live_server import LiveServer, eventually, fake_text, tokenizer
from scripted_api import Reply, ScriptedApi, cause, chat, completion, events, run

import sglang_lite as sgl
from sglang_lite.errors import InvalidRequest, Unsupported
from sglang_lite.lang.backends.openai import OpenAI
from sglang_lite.lang.backends.protocol import Ask
from sglang_lite.lang.prompt import Prompt
from sglang_lite.loop import shared_loop
from sglang_lite.params import SamplingParams


@pytest.fixture(scope="module")
def live() -> Iterator[LiveServer]:
    with LiveServer("fake?eos=0") as live:
        yield live


@pytest.fixture
def complete(live: LiveServer) -> Iterator[OpenAI]:
    backend = OpenAI("fake", is_chat_model=False, base_url=live.url + "/v1", timeout=20)
    yield backend
    backend.shutdown()


@pytest.fixture
def converse(live: LiveServer) -> Iterator[OpenAI]:
    backend = OpenAI("fake", base_url=live.url + "/v1", timeout=20)
    yield backend
    backend.shutdown()


# -------------------------------------------------------------- completions, for real


def test_a_completion_continues_all_the_text(complete: OpenAI) -> None:
    def program(s: Any) -> None:
        s += "Once" + sgl.gen("a", max_tokens=9, temperature=0)
        s += " and " + sgl.gen("b", max_tokens=3, temperature=0)

    state = run(program, complete)
    assert state["a"] == fake_text(tokenizer.encode("Once"), 9)
    assert state["b"] == fake_text(tokenizer.encode(f"Once{state['a']} and "), 3)
    meta = state.get_meta_info("b")
    assert meta["finish_reason"] == {"type": "length"}
    assert (meta["prompt_tokens"], meta["completion_tokens"]) == (1 + 4 + 9 + 5, 3)
    assert meta["cached_tokens"] >= 4 + 9
    assert state.usage["completion_tokens"] == 12


def test_a_stop_is_named_and_cut(complete: OpenAI) -> None:
    def program(s: Any, stop: Any = None) -> None:
        s += "Once" + sgl.gen("a", max_tokens=30, temperature=0, stop=stop) + "|"

    whole = run(program, complete)["a"]
    stop = whole[10:13]
    state = run(program, complete, stop=stop)
    assert state["a"] == whole[: whole.index(stop)]
    assert state.text() == f"Once{state['a']}|"
    assert state.get_meta_info("a")["finish_reason"] == {"type": "stop", "matched": stop}


def test_an_answer_arrives_in_pieces(complete: OpenAI) -> None:
    def program(s: Any) -> None:
        s += "Once" + sgl.gen("a", max_tokens=40, temperature=0)

    state = sgl.function(program).run(backend=complete, stream=True)
    pieces = list(state.text_iter("a"))
    assert len(pieces) > 1
    assert "".join(pieces) == fake_text(tokenizer.encode("Once"), 40)


@pytest.mark.parametrize("stream", [True, False])
def test_logprobs_have_the_runtimes_shape(live: LiveServer, stream: bool) -> None:
    backend = OpenAI("fake", False, base_url=live.url + "/v1", stream=stream)

    def program(s: Any) -> None:
        s += "Once" + sgl.gen("a", max_tokens=5, return_logprob=True, top_logprobs_num=2)

    state = run(program, backend)
    meta = state.get_meta_info("a")
    assert "".join(text for _, _, text in meta["output_token_logprobs"]) == state["a"]
    assert all(logprob <= 0 for logprob, _, _ in meta["output_token_logprobs"])
    assert [len(each) >= 2 for each in meta["output_top_logprobs"]] == [True] * 5
    backend.shutdown()


def test_several_samples(complete: OpenAI) -> None:
    def program(s: Any) -> None:
        s += "Once" + sgl.gen("a", max_tokens=5, n=3)

    state = run(program, complete)
    assert [len(text) for text in state["a"]] == [5, 5, 5]
    meta = state.get_meta_info("a")
    assert meta["completion_tokens"] == 15
    assert len(meta["samples"]) == 3


def test_constraints_and_other_extensions_reach_a_server_that_has_them(complete: OpenAI) -> None:
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}

    def program(s: Any) -> None:
        s += "Codes: " + sgl.gen("code", regex="[0-9]{3}-[a-c]") + "\n"
        s += sgl.gen("json", json_schema=schema, max_tokens=64, whitespace="compact") + "\n"
        s += sgl.gen("int", dtype=int, max_tokens=8) + sgl.gen("b", dtype=bool)
        s += sgl.gen("least", max_tokens=6, min_tokens=4, top_k=1, ignore_eos=True)

    state = run(program, complete)
    assert state.error() is None
    assert re.fullmatch("[0-9]{3}-[a-c]", state["code"])
    assert re.fullmatch('{"x":-?[0-9]+}?', state["json"])
    assert state["b"] in ("True", "False")


@pytest.mark.parametrize("kind", ["completion", "endpoint"])
def test_an_answer_that_nobody_waits_for_is_aborted(live: LiveServer, kind: str) -> None:
    backend: Any = sgl.RuntimeEndpoint(live.url)
    if kind == "completion":
        backend = OpenAI("fake", False, base_url=live.url + "/v1")
    ask = Ask(Prompt().add("Once"), SamplingParams(max_tokens=100_000))

    async def first_of() -> str:
        async with aclosing(backend.generate(ask)) as parts:
            return str((await anext(parts)).text)

    assert shared_loop().run(first_of())
    assert eventually(live.idle)
    backend.shutdown()


def test_select_scores_exactly_the_options(live: LiveServer, complete: OpenAI) -> None:
    """The same numbers as over our own endpoint, ids or none."""

    def program(s: Any) -> None:
        s += "a question: " + sgl.select("a", ["yes", "no", "né"], all_scores=True)

    ours = sgl.RuntimeEndpoint(live.url)
    theirs, here = run(program, complete), run(program, ours)
    assert theirs["a"] == here["a"]
    left, right = theirs.get_meta_info("a"), here.get_meta_info("a")
    for name in ("input_token_logprobs", "unconditional_token_logprobs"):
        for row, expected in zip(left[name], right[name], strict=True):
            assert [x[0] for x in row] == pytest.approx([x[0] for x in expected])
    ours.shutdown()


def test_select_first_thing_in_a_program(complete: OpenAI) -> None:
    state = run(lambda s: s.__iadd__(sgl.select("a", ["yes", "no"])), complete)
    assert state["a"] in ("yes", "no")


# -------------------------------------------------------------- chats, for real


def test_a_chat_is_sent_as_messages(live: LiveServer, converse: OpenAI) -> None:
    def program(s: Any) -> None:
        s += sgl.system("be short") + sgl.user("hi")
        s += sgl.assistant(sgl.gen("a", max_tokens=6, temperature=0))
        s += sgl.user("and?") + sgl.assistant(sgl.gen("b", max_tokens=4, temperature=0))

    state = run(program, converse)
    turns = [{"role": "system", "content": "be short"}, {"role": "user", "content": "hi"}]
    ids = tokenizer.encode(tokenizer.render_chat(turns), add_bos=False)
    assert state["a"] == fake_text(ids, 6)
    turns += [{"role": "assistant", "content": state["a"]}, {"role": "user", "content": "and?"}]
    ids = tokenizer.encode(tokenizer.render_chat(turns), add_bos=False)
    assert state["b"] == fake_text(ids, 4)
    assert state.messages()[-1] == {"role": "assistant", "content": state["b"]}


def test_text_that_begins_an_assistant_turn_is_continued(converse: OpenAI) -> None:
    """By a server that is known to: this one says that it is ours."""

    def program(s: Any) -> None:
        s += sgl.user("hi") + sgl.assistant("Sure: " + sgl.gen("a", max_tokens=6, temperature=0))

    turns = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Sure: "}]
    text = tokenizer.render_chat(turns, continue_final_message=True)
    state = run(program, converse)
    assert state["a"] == fake_text(tokenizer.encode(text, add_bos=False), 6)


def test_a_chat_answer_has_logprobs_samples_and_a_schema(converse: OpenAI) -> None:
    def program(s: Any) -> None:
        s += sgl.user("hi")
        s += sgl.assistant(sgl.gen("a", max_tokens=4, return_logprob=True, top_logprobs_num=1))
        s += sgl.user("b") + sgl.assistant(sgl.gen("b", max_tokens=4, n=2))
        s += sgl.user("c") + sgl.assistant(sgl.gen("c", json_schema={"const": {"ok": True}}))

    state = run(program, converse)
    meta = state.get_meta_info("a")
    assert "".join(text for _, _, text in meta["output_token_logprobs"]) == state["a"]
    assert len(meta["output_top_logprobs"]) == 4
    assert len(state["b"]) == 2
    assert json.loads(state["c"]) == {"ok": True}


# -------------------------------------------------------------- what a chat cannot do


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (lambda s: "Once " + sgl.gen("a"), "outside of any turn"),
        (lambda s: sgl.user("my colour is " + sgl.gen("a")), "in the user turn"),
        (lambda s: "Be nice. " + sgl.user("hi") + sgl.assistant(sgl.gen("a")), "outside of its"),
        (lambda s: sgl.assistant(sgl.gen("a")), "needs a turn before"),
    ],
)
def test_places_that_a_chat_has_no_message_for(body: Any, says: str) -> None:
    backend = OpenAI("m", base_url="http://127.0.0.1:9/v1")
    found = cause(run(lambda s: s.__iadd__(body(s)), backend))
    assert isinstance(found, InvalidRequest)
    assert says in str(found)


def test_a_turn_that_has_begun_is_refused_where_it_would_be_lost() -> None:
    def program(s: Any) -> None:
        s += sgl.user("hi") + sgl.assistant("Sure: " + sgl.gen("a"))

    with ScriptedApi(Reply({"data": [{"owned_by": "somebody"}]})) as api:
        found = cause(run(program, OpenAI("m", base_url=api.url)))
    assert isinstance(found, Unsupported)
    assert "num_api_spec_tokens" in str(found)
    found = cause(run(program, OpenAI("m", api_key="k", base_url="https://api.openai.com/v1")))
    assert isinstance(found, Unsupported)
    with ScriptedApi(Reply(events(chat("ok")))) as api:
        state = run(program, OpenAI("m", base_url=api.url, continue_final_message=True))
        assert state["a"] == "ok"
        (body,) = api.bodies
    assert body["continue_final_message"] is True
    assert body["add_generation_prompt"] is False
    assert body["messages"][-1] == {"role": "assistant", "content": "Sure: "}


@pytest.mark.parametrize(
    ("chats", "url"), [(True, "http://127.0.0.1:9/v1"), (False, "https://api.openai.com/v1")]
)
def test_select_is_refused_with_a_way_out(chats: bool, url: str) -> None:
    backend = OpenAI("m", chats, base_url=url, api_key="k")
    found = cause(run(lambda s: s.__iadd__("q" + sgl.select("a", ["x", "y"])), backend))
    assert isinstance(found, Unsupported)
    assert "regex=" in str(found)


def test_select_on_a_server_that_does_not_echo() -> None:
    with ScriptedApi(Reply(completion("text"))) as api:
        backend = OpenAI("m", False, base_url=api.url)
        found = cause(run(lambda s: s.__iadd__("q" + sgl.select("a", ["x", "y"])), backend))
    assert isinstance(found, Unsupported)
    assert "does not echo" in str(found)


def test_an_option_with_other_tokens_alone_has_no_unconditional_scores() -> None:
    def echo(*texts: list[str]) -> Reply:
        choices = [
            {"index": i, "logprobs": {"tokens": t, "token_logprobs": [None] + [-1.0] * len(t[1:])}}
            for i, t in enumerate(texts)
        ]
        return Reply({"choices": choices})

    replies = echo(["q"], ["q", " x"], ["q", " y", "y"]), echo([" x"], [" yy"])
    with ScriptedApi(*replies) as api:
        backend = OpenAI("m", False, base_url=api.url)
        state = run(lambda s: s.__iadd__("q" + sgl.select("a", [" x", " yy"])), backend)
        meta = state.get_meta_info("a")
    assert [[x[0] for x in row] for row in meta["input_token_logprobs"]] == [[-1.0], [-1.0, -1.0]]
    assert "unconditional_token_logprobs" not in meta


def test_our_endpoint_has_logprobs_of_a_part_of_the_prompt(live: LiveServer) -> None:
    backend: Any = sgl.RuntimeEndpoint(live.url)
    params = SamplingParams(max_tokens=2, temperature=0, logprobs=0)

    async def last(start: int) -> Any:
        parts = [
            part
            async for part in backend.generate(
                Ask(Prompt().add("Once"), params, logprob_start=start)
            )
        ]
        return parts[-1].meta

    scored = shared_loop().run(last(2))["input_token_logprobs"]
    assert [each[1] for each in scored] == [*b"nce"]
    backend.shutdown()


def test_many_programs_at_once(complete: OpenAI) -> None:
    def program(s: Any, i: int) -> None:
        s += f"{i}:" + sgl.gen("a", max_tokens=4, temperature=0)

    states = sgl.function(program).run_batch([{"i": i} for i in range(200)], backend=complete)
    assert [state["a"] for state in states] == [
        fake_text(tokenizer.encode(f"{i}:"), 4) for i in range(200)
    ]
