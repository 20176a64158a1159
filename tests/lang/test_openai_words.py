"""What is said to which server behind OpenAI's API."""

from __future__ import annotations

from typing import Any

import pytest
from scripted_api import Reply, ScriptedApi, cause, chat, completion, events, run

import sglang_lite as sgl
from sglang_lite.errors import InvalidConfig, Unsupported
from sglang_lite.lang.backends import providers
from sglang_lite.lang.backends.openai import OpenAI
from sglang_lite.lang.backends.protocol import Ask
from sglang_lite.lang.prompt import Prompt
from sglang_lite.lang.templates import TEMPLATES, get_chat_template
from sglang_lite.loop import shared_loop
from sglang_lite.params import SamplingParams


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
    ask = Ask(Prompt().add("q"), SamplingParams(logprobs=0), logprob_start=0)

    async def all_of_it() -> list[Any]:
        return [part async for part in backend.generate(ask)]

    with pytest.raises(Unsupported, match="logprob_start_len"):
        shared_loop().run(all_of_it())


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
