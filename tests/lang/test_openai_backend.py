"""Programs on OpenAI's API: on a real server with a made-up model, and on one with bad days."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from scripted_api import Reply, ScriptedApi, chat, completion, error, events

import sglang_lite as sgl
from sglang_lite.errors import InvalidConfig, InvalidRequest, Overloaded, RequestFailed, Unsupported
from sglang_lite.lang.backends import providers
from sglang_lite.lang.backends.openai import OpenAI
from sglang_lite.lang.backends.protocol import Ask
from sglang_lite.lang.prompt import Prompt
from sglang_lite.lang.templates import TEMPLATES, get_chat_template
from sglang_lite.loop import shared_loop
from sglang_lite.params import SamplingParams

sys.path.append(str(Path(__file__).parent.parent / "server"))
from live_server import LiveServer, eventually, fake_text, tokenizer


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


def run(body: Any, backend: Any, **options: Any) -> Any:
    return sgl.function(body).run(backend=backend, **options)


def cause(state: Any) -> BaseException:
    found = state.error()
    assert found is not None
    return found.__cause__


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
    ask = Ask(Prompt(("Once",)), SamplingParams(max_tokens=100_000))

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


# -------------------------------------------------------------- what is sent to whom


def asked(owner: str | None, chats: bool, gen: Any) -> Any:
    """The body that a gen becomes, where the models belong to `owner`; or the error."""
    reply = Reply(events((chat if chats else completion)("7")))
    listed = [] if owner is None else [Reply({"data": [{"owned_by": owner}]})]

    def program(s: Any) -> None:
        s += (sgl.user("q") + sgl.assistant(gen)) if chats else "q" + gen

    with ScriptedApi(*listed, reply) as api:
        backend = OpenAI("m", chats, base_url=api.url)
        state = run(program, backend)
        found = cause(state) if state.error() else api.bodies[-1]
        backend.shutdown()
    return found


def test_a_constraint_is_said_in_the_servers_words() -> None:
    gen = sgl.gen("a", regex="[0-9]")
    assert asked("vllm", True, gen)["structured_outputs"] == {"regex": "[0-9]"}
    assert asked("sglang", True, gen)["regex"] == "[0-9]"
    assert asked("sglang_lite", False, gen)["regex"] == "[0-9]"
    refused = asked("somebody", True, gen)
    assert isinstance(refused, Unsupported)
    assert "`regex`" in str(refused)
    assert "dialect" in str(refused)


def test_a_schema_is_said_in_the_servers_words() -> None:
    gen = sgl.gen("a", json_schema={"type": "integer"})
    for owner in ("vllm", "sglang", "somebody"):
        said = asked(owner, True, gen)["response_format"]
        assert said["type"] == "json_schema"
        assert said["json_schema"]["schema"] == {"type": "integer"}
        assert said["json_schema"]["strict"] is True
    assert asked("vllm", False, gen)["structured_outputs"] == {"json": {"type": "integer"}}
    assert asked("sglang", False, gen)["json_schema"] == '{"type":"integer"}'
    assert isinstance(asked("somebody", False, gen), Unsupported)
    spaced = sgl.gen("a", json_schema={"type": "integer"}, whitespace="compact")
    assert isinstance(asked("vllm", True, spaced), Unsupported)


def test_extensions_of_sampling_are_sent_to_those_who_have_them() -> None:
    gen = sgl.gen("a", top_k=5, min_tokens=2)
    body = asked("vllm", False, gen)
    assert (body["top_k"], body["min_tokens"]) == (5, 2)
    refused = asked("somebody", True, gen)
    assert isinstance(refused, Unsupported)
    assert refused.param == "top_k"


def test_what_the_api_itself_has_is_sent_without_asking() -> None:
    gen = sgl.gen("a", max_tokens=5, seed=3, stop=["x", "y"], logit_bias={7: -1.5}, top_p=0.5)
    assert asked(None, True, gen) == {
        "model": "m",
        "messages": [{"role": "user", "content": "q"}],
        "max_tokens": 5,
        "seed": 3,
        "stop": ["x", "y"],
        "logit_bias": {"7": -1.5},
        "temperature": 1.0,
        "top_p": 0.5,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_logprobs_of_a_part_of_the_prompt_are_refused() -> None:
    backend = OpenAI("m", False, base_url="http://127.0.0.1:9/v1")
    ask = Ask(Prompt(("q",)), SamplingParams(logprobs=0), logprob_start=0)

    async def all_of_it() -> list[Any]:
        return [part async for part in backend.generate(ask)]

    with pytest.raises(Unsupported, match="logprob_start_len"):
        shared_loop().run(all_of_it())


def test_our_endpoint_has_logprobs_of_a_part_of_the_prompt(live: LiveServer) -> None:
    backend: Any = sgl.RuntimeEndpoint(live.url)
    params = SamplingParams(max_tokens=2, temperature=0, logprobs=0)

    async def last(start: int) -> Any:
        parts = [
            part
            async for part in backend.generate(Ask(Prompt(("Once",)), params, logprob_start=start))
        ]
        return parts[-1].meta

    scored = shared_loop().run(last(2))["input_token_logprobs"]
    assert [each[1] for each in scored] == [*b"nce"]
    backend.shutdown()


def test_the_key_and_the_address_come_from_the_environment(monkeypatch: Any) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(InvalidConfig, match="OPENAI_API_KEY"):
        OpenAI("gpt-3.5-turbo-instruct")
    with ScriptedApi(Reply(events(completion("ok")))) as api:
        monkeypatch.setenv("OPENAI_API_KEY", "secret")
        monkeypatch.setenv("OPENAI_BASE_URL", api.url)
        backend = OpenAI("gpt-3.5-turbo-instruct")
        assert run(lambda s: s.__iadd__("q" + sgl.gen("a")), backend)["a"] == "ok"
        assert api.seen[0][0] == "/v1/completions"
        assert api.seen[0][2]["authorization"] == "Bearer secret"


def test_kinds_of_models_and_their_templates() -> None:
    def made(name: str, *arguments: Any, **options: Any) -> OpenAI:
        return OpenAI(name, *arguments, base_url="http://127.0.0.1:9", **options)

    assert not made("gpt-3.5-turbo-instruct").is_chat_model
    assert made("gpt-4o").is_chat_model
    assert made("gpt-3.5-turbo-instruct").continues
    assert not made("gpt-4o").continues
    assert made("gpt-4o", continue_final_message=True).continues
    assert made("meta-llama/Llama-3.1-8B-Instruct", False).template is TEMPLATES["llama-3-instruct"]
    assert made("x", False, "chatml").template is TEMPLATES["chatml"]
    backend = made("x", False, get_chat_template("qwen"))
    assert backend.get_chat_template() is backend.chat_template is TEMPLATES["qwen"]
    with pytest.raises(Unsupported, match="base_url"):
        made("gpt-4o", is_azure=True)
    with pytest.raises(InvalidConfig, match="dialect"):
        made("gpt-4o", dialect="klingon")


@pytest.mark.parametrize("name", ["Anthropic", "Crusoe", "LiteLLM", "VertexAI"])
def test_other_providers_name_the_way_to_them(name: str) -> None:
    with pytest.raises(Unsupported, match=rf"{name}.*OpenAI\("):
        getattr(providers, name)("some-model")


# -------------------------------------------------------------- bad days


def outcome(*replies: Reply, n: int = 1, **options: Any) -> tuple[Any, ScriptedApi]:
    """The state of a chat's one gen where the server replies so, and the server."""

    def program(s: Any) -> None:
        s += sgl.user("q") + sgl.assistant(sgl.gen("a", n=n))

    with ScriptedApi(*replies) as api:
        backend = OpenAI("m", base_url=api.url, **options)
        state = run(program, backend)
        state.sync()
        backend.shutdown()
    return state, api


GOOD = Reply(events(chat("ok")))


def test_a_busy_server_is_asked_again_when_it_says() -> None:
    busy = Reply(error("slow down"), 429, {"retry-after": "0.6"})
    began = time.monotonic()
    state, api = outcome(busy, Reply(b"oops", 502), GOOD)
    assert state["a"] == "ok"
    assert len(api.seen) == 3
    assert time.monotonic() - began > 0.6


@pytest.mark.parametrize(
    ("reply", "kind", "tries", "says"),
    [
        (Reply(error("slow down"), 429), Overloaded, 2, "slow down"),
        (Reply(error("later"), 429, {"retry-after": "3600"}), Overloaded, 1, "later"),
        (Reply(error("x", code="insufficient_quota"), 429), Overloaded, 1, "x"),
        (Reply(error("stopping"), 503), sgl.RuntimeUnavailable, 2, "stopping"),
        (Reply(b"<html>", 500), RequestFailed, 2, "<html>"),
        (Reply(error("bad", param="stop"), 400), InvalidRequest, 1, "bad"),
        (Reply(error("no key"), 401), InvalidRequest, 1, "no key"),
        (Reply(error("no model m"), 404), sgl.ModelNotFound, 1, "no model m"),
    ],
)
def test_a_refusal_is_what_the_server_says(
    reply: Reply, kind: type[Exception], tries: int, says: str
) -> None:
    state, api = outcome(*[reply] * 5, max_retries=1)
    assert type(cause(state)) is kind
    assert says in str(cause(state))
    assert len(api.seen) == tries


@pytest.mark.parametrize(
    ("reply", "kind", "says"),
    [
        (Reply(events(chat("o", None), done=False), cut=True), sgl.RuntimeUnavailable, "broke off"),
        (Reply(events(chat("o", None), done=False)), sgl.RuntimeUnavailable, "amid a sample"),
        (Reply(b"data: {oops\n\n"), RequestFailed, "not JSON"),
        (Reply(b'data: {"choices": [5]}\n\n'), RequestFailed, "no answer of OpenAI's API"),
        (Reply(b"data: []\n\n"), RequestFailed, "no answer of OpenAI's API"),
        (Reply(events(chat("o", None), error("engine died"))), RequestFailed, "engine died"),
        (Reply(events({"choices": [{"delta": {"refusal": "never"}, "finish_reason": "stop"}]})),
         RequestFailed, "never"),
        (Reply(b""), sgl.RuntimeUnavailable, "amid a sample"),
    ],
)  # fmt: skip
def test_a_stream_that_goes_wrong(reply: Reply, kind: type[Exception], says: str) -> None:
    state, api = outcome(reply, GOOD)
    assert type(cause(state)) is kind
    assert says in str(cause(state))
    assert len(api.seen) == 1  # what was begun is not asked for again


@pytest.mark.parametrize("body", [b"not json", b"[]", b'{"choices": []}', b'{"choices": null}'])
def test_a_whole_answer_that_is_none(body: bytes) -> None:
    state, _ = outcome(Reply(body), n=2)
    assert isinstance(cause(state), (RequestFailed, sgl.RuntimeUnavailable))


def test_a_server_that_closes_before_it_answers_is_asked_again() -> None:
    with ScriptedApi() as api:  # its script is empty: every connection ends without an answer
        backend = OpenAI("m", base_url=api.url, max_retries=1)
        state = run(lambda s: s.__iadd__(sgl.user("q") + sgl.assistant(sgl.gen("a"))), backend)
        assert isinstance(cause(state), sgl.RuntimeUnavailable)
        assert len(api.seen) == 2


def test_a_silent_server_costs_the_timeout_once() -> None:
    began = time.monotonic()
    state, api = outcome(Reply(hang=30), GOOD, timeout=0.5)
    assert isinstance(cause(state), sgl.RuntimeUnavailable)
    assert "0.5 s" in str(cause(state))
    assert time.monotonic() - began < 5
    assert len(api.seen) == 1


def test_a_dead_server_is_given_up_within_seconds() -> None:
    with ScriptedApi() as api:
        dead = api.url
    began = time.monotonic()
    backend = OpenAI("m", base_url=dead)
    state = run(lambda s: s.__iadd__(sgl.user("q") + sgl.assistant(sgl.gen("a"))), backend)
    assert isinstance(cause(state), sgl.RuntimeUnavailable)
    assert dead in str(cause(state))
    assert time.monotonic() - began < 5


def test_many_programs_at_once(complete: OpenAI) -> None:
    def program(s: Any, i: int) -> None:
        s += f"{i}:" + sgl.gen("a", max_tokens=4, temperature=0)

    states = sgl.function(program).run_batch([{"i": i} for i in range(200)], backend=complete)
    assert [state["a"] for state in states] == [
        fake_text(tokenizer.encode(f"{i}:"), 4) for i in range(200)
    ]
