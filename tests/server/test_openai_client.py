"""The official client against a real server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import openai
import pytest
from live_server import LiveServer, chat_ids, fake_text, tokenizer

HELLO = [{"role": "user", "content": "Hello"}]


@pytest.fixture
def client(server: LiveServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as found:
        yield found


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["fake"]
    assert client.models.retrieve("fake").owned_by == "sglang_lite"
    with pytest.raises(openai.NotFoundError, match="'other/model' is not served"):
        client.models.retrieve("other/model")


def test_a_chat(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="fake", messages=HELLO, max_tokens=9)

    assert answer.id.startswith("chatcmpl-")
    assert answer.choices[0].message.content == fake_text(chat_ids("Hello"), 9)
    assert answer.choices[0].finish_reason == "length"
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == len(chat_ids("Hello"))
    assert answer.usage.completion_tokens == 9
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 9


def test_a_chat_in_a_stream_adds_up_to_the_chat(client: openai.OpenAI) -> None:
    parts = list(
        client.chat.completions.create(
            model="fake",
            messages=HELLO,
            max_completion_tokens=9,
            stream=True,
            stream_options={"include_usage": True},
        )
    )

    text = "".join(part.choices[0].delta.content or "" for part in parts[:-1])
    assert text == fake_text(chat_ids("Hello"), 9)
    assert parts[0].choices[0].delta.role == "assistant"
    assert [part.choices[0].finish_reason for part in parts[:-1]] == [None] * 8 + ["length"]
    assert all(part.usage is None for part in parts[:-1])
    assert parts[-1].choices == []
    assert parts[-1].usage is not None
    assert parts[-1].usage.completion_tokens == 9
    assert len({part.id for part in parts}) == 1


def test_a_long_conversation_may_fill_the_context(client: openai.OpenAI) -> None:
    long = [{"role": "user", "content": "x" * 3900}]
    answer = client.chat.completions.create(model="fake", messages=long)

    assert answer.usage is not None
    assert answer.usage.total_tokens == 4096
    assert answer.choices[0].finish_reason == "length"


def test_cached_tokens_are_reported(server: LiveServer, client: openai.OpenAI) -> None:
    assert server.http.get("/flush_cache").json() == {"flushed": True}

    def cached(n: int = 1) -> int | None:
        usage = client.completions.create(model="fake", prompt="cache me", max_tokens=2, n=n).usage
        assert usage is not None
        assert usage.prompt_tokens == 9  # one prompt, however many answers
        assert usage.prompt_tokens_details is not None
        return usage.prompt_tokens_details.cached_tokens

    assert cached(n=3) == 0  # what the first sample computed was not there before
    assert cached() == 8  # the last token's logits are always computed
    assert cached(n=3) == 8


def test_parts_of_a_content_and_roles(client: openai.OpenAI) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    messages = [{"role": "developer", "content": "d"}, {"role": "user", "content": parts}]
    answer = client.chat.completions.create(model="fake", messages=messages, max_tokens=3)  # type: ignore[arg-type]

    turns = [{"role": "system", "content": "d"}, {"role": "user", "content": "a\nb"}]
    ids = tokenizer.encode(tokenizer.render_chat(turns), add_bos=False)
    assert answer.choices[0].message.content == fake_text(ids, 3)


def test_a_final_message_can_be_continued(client: openai.OpenAI) -> None:
    messages = [*HELLO, {"role": "assistant", "content": "I th"}]
    answer = client.chat.completions.create(
        model="fake",
        messages=messages,  # type: ignore[arg-type]
        max_tokens=3,
        extra_body={"continue_final_message": True, "add_generation_prompt": False},
    )

    text = tokenizer.render_chat(messages, continue_final_message=True)
    ids = tokenizer.encode(text, add_bos=False)
    assert answer.choices[0].message.content == fake_text(ids, 3)


def test_a_stop_string_ends_the_text_before_it(client: openai.OpenAI) -> None:
    whole = fake_text(chat_ids("Hello"), 40)
    stop = whole[20:23]
    kept = whole[: whole.index(stop)]
    asked = {"model": "fake", "messages": HELLO, "max_tokens": 40, "stop": ["@@", stop]}

    answer = client.chat.completions.create(**asked)  # type: ignore[call-overload]
    parts = list(client.chat.completions.create(**asked, stream=True))  # type: ignore[call-overload]

    assert answer.choices[0].message.content == kept
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].matched_stop == stop
    assert "".join(part.choices[0].delta.content or "" for part in parts) == kept


def test_stop_ids_min_tokens_and_untrimmed_stops(client: openai.OpenAI) -> None:
    ids = tokenizer.encode("go")
    whole = fake_text(ids, 60)
    letter = whole[0]
    again = whole.index(letter, 1)

    def text(**extra: object) -> str:
        answer = client.completions.create(
            model="fake", prompt="go", max_tokens=60, extra_body=extra
        )
        return answer.choices[0].text

    assert text(stop=letter) == ""
    assert text(stop=letter, no_stop_trim=True) == letter
    assert text(stop=letter, min_tokens=2) == whole[:again]
    assert text(stop_token_ids=[ord(letter)]) == ""
    assert letter not in text(stop_token_ids=[ord(letter)], min_tokens=2)[:2]


def test_chat_logprobs(client: openai.OpenAI) -> None:
    asked = {"model": "fake", "messages": HELLO, "max_tokens": 3, "logprobs": True}
    answer = client.chat.completions.create(**asked, top_logprobs=2)  # type: ignore[call-overload]
    parts = list(client.chat.completions.create(**asked, top_logprobs=2, stream=True))  # type: ignore[call-overload]

    content = answer.choices[0].logprobs.content
    text = answer.choices[0].message.content
    assert "".join(token.token for token in content) == text
    assert bytes(byte for token in content for byte in token.bytes).decode() == text
    assert all(token.logprob < 0 and len(token.top_logprobs) == 2 for token in content)
    streamed = [token for part in parts for token in part.choices[0].logprobs.content]
    assert streamed == content


def test_completion_logprobs_and_echo(client: openai.OpenAI) -> None:
    asked = {"model": "fake", "prompt": "Hi you", "max_tokens": 2, "logprobs": 1, "echo": True}
    answer = client.completions.create(**asked)  # type: ignore[call-overload]
    parts = list(client.completions.create(**asked, stream=True))  # type: ignore[call-overload]

    said = fake_text(tokenizer.encode("Hi you"), 2)
    choice = answer.choices[0]
    assert choice.text == "Hi you" + said
    assert choice.logprobs.tokens == ["<s>", *"Hi you", *said]
    assert choice.logprobs.token_logprobs[0] is None
    assert all(logprob < 0 for logprob in choice.logprobs.token_logprobs[1:])
    assert choice.logprobs.top_logprobs[0] is None
    assert all(len(top) in (1, 2) for top in choice.logprobs.top_logprobs[1:])
    assert choice.logprobs.text_offset == [0, *range(3, 11)]
    assert "".join(part.choices[0].text for part in parts) == choice.text
    for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
        streamed = [x for part in parts for x in getattr(part.choices[0].logprobs, name)]
        assert streamed == getattr(choice.logprobs, name)


def test_scoring_without_generating(client: openai.OpenAI) -> None:
    answer = client.completions.create(
        model="fake", prompt=[72, 105], max_tokens=0, logprobs=0, echo=True
    )

    logprobs = answer.choices[0].logprobs
    assert answer.choices[0].text == "Hi"
    assert logprobs is not None
    assert logprobs.tokens == ["H", "i"]
    assert logprobs.token_logprobs is not None
    assert logprobs.token_logprobs[0] is None
    assert logprobs.token_logprobs[1] < 0


@pytest.mark.parametrize("stream", [False, True])
def test_several_prompts_and_samples(client: openai.OpenAI, stream: bool) -> None:
    answer = client.completions.create(
        model="fake", prompt=["one", "two"], n=2, max_tokens=5, stream=stream
    )

    texts = {0: "", 1: "", 2: "", 3: ""}
    for part in answer if stream else [answer]:  # type: ignore[attr-defined]
        for choice in part.choices:
            texts[choice.index] += choice.text
    one, two = (fake_text(tokenizer.encode(text), 5) for text in ("one", "two"))
    assert texts == {0: one, 1: one, 2: two, 3: two}


@pytest.mark.parametrize(
    ("prompt", "ids"),
    [
        ("abc", tokenizer.encode("abc")),
        ([97, 98, 99], [97, 98, 99]),
        ([[97, 98, 99]], [97, 98, 99]),
        (["abc"], tokenizer.encode("abc")),
    ],
    ids=str,
)
def test_every_form_of_a_prompt(client: openai.OpenAI, prompt: object, ids: list[int]) -> None:
    answer = client.completions.create(model="fake", prompt=prompt, max_tokens=4)  # type: ignore[call-overload]

    assert answer.choices[0].text == fake_text(ids, 4)


def test_a_completion_has_sixteen_tokens_unless_told(client: openai.OpenAI) -> None:
    assert len(client.completions.create(model="fake", prompt="abc").choices[0].text) == 16


def test_fields_without_effect_are_named(client: openai.OpenAI) -> None:
    raw = client.chat.completions.with_raw_response.create(
        model="fake",
        messages=HELLO,
        max_tokens=1,
        user="me",
        metadata={"a": "b"},
        seed=7,
        tools=[],
    )

    assert raw.headers["x-ignored-fields"] == "metadata, tools, user"


def test_the_asynchronous_client(server: LiveServer) -> None:
    async def one(client: openai.AsyncOpenAI, content: str) -> str:
        stream = await client.chat.completions.create(
            model="fake",
            messages=[{"role": "user", "content": content}],
            max_tokens=20,
            stream=True,
        )
        return "".join([part.choices[0].delta.content or "" async for part in stream])

    async def many() -> list[str]:
        url = f"{server.url}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            return await asyncio.gather(*(one(client, f"number {i}") for i in range(16)))

    assert asyncio.run(many()) == [fake_text(chat_ids(f"number {i}"), 20) for i in range(16)]
