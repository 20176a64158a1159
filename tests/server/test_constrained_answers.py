"""Answers that must match: every endpoint, the official client, a program over HTTP."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any, Literal

import openai
import pytest
from live_server import LiveServer
from pydantic import BaseModel

import sglang_lite as sgl

HELLO: Any = [{"role": "user", "content": "Hello"}]
CHAT, TEXT, NATIVE = "/v1/chat/completions", "/v1/completions", "/generate"
TAGS = {
    "structures": [{"begin": "<f>", "schema": {"type": "boolean"}, "end": "</f>"}],
    "triggers": ["<f>"],
}


class Grade(BaseModel):
    letter: Literal["a", "b", "c"]
    passed: bool
    scores: tuple[Literal[1, 2], Literal[1, 2]]


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"z": {"enum": ["x", "y"]}, "a": {"type": "boolean"}},
    "required": ["z", "a"],
    "additionalProperties": False,
}


def is_json(text: str) -> bool:
    found = json.loads(text)
    return list(found) == ["z", "a"] and found["z"] in ("x", "y") and found["a"] in (True, False)


def is_compact(text: str) -> bool:
    return is_json(text) and not re.search(r"\s", text)


def is_three(text: str) -> bool:
    return re.fullmatch("[a-c]{3}", text) is not None


def is_chosen(text: str) -> bool:
    return text in ("yes", "no", "perhaps")


def is_anything(text: str) -> bool:
    return bool(text)


def is_an_objects_beginning(text: str) -> bool:
    return text.lstrip().startswith("{")


FORMS: list[tuple[dict[str, Any], Any]] = [
    ({"regex": "[a-c]{3}"}, is_three),
    ({"json_schema": SCHEMA}, is_json),
    ({"json_schema": json.dumps(SCHEMA), "whitespace": "compact"}, is_compact),
    ({"ebnf": "start: /[a-c]{3}/"}, is_three),
    ({"ebnf": 'root ::= "yes" | "no"'}, is_chosen),
    ({"structural_tag": TAGS}, is_anything),
    ({"structured_outputs": {"choice": ["yes", "no", "perhaps"]}}, is_chosen),
    ({"structured_outputs": {"regex": "[a-c]{3}"}, "grammar_engine": "llguidance"}, is_three),
    ({"structured_outputs": {"json": SCHEMA, "disable_any_whitespace": True}}, is_compact),
    ({"structured_outputs": {"grammar": "start: /[a-c]{3}/"}}, is_three),
    (
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "x", "schema": SCHEMA, "strict": True},
            }
        },
        is_json,
    ),
    ({"response_format": {"type": "json_schema", "schema": SCHEMA, "strict": False}}, is_json),
    ({"response_format": {"type": "json_object"}}, is_an_objects_beginning),
    ({"response_format": {"type": "structural_tag", **TAGS}}, is_anything),
]


@pytest.mark.parametrize(("said", "matches"), FORMS, ids=range(len(FORMS)))
def test_every_form_at_every_endpoint(
    server: LiveServer, said: dict[str, Any], matches: Any
) -> None:
    asked = {"max_tokens": 300, **said}
    chat = server.post(CHAT, {"messages": HELLO, **asked})
    text = server.post(TEXT, {"prompt": "Hello", **asked})
    native = server.post(NATIVE, {"text": "Hello", "sampling_params": asked})

    for answer in (chat, text, native):
        assert answer.status_code == 200, answer.text
    assert matches(chat.json()["choices"][0]["message"]["content"])
    assert matches(text.json()["choices"][0]["text"])
    assert matches(native.json()["text"])
    for choice in (chat.json()["choices"][0], text.json()["choices"][0]):
        assert choice["grammar"].startswith(("outlines", "llguidance"))
        if matches not in (is_anything, is_an_objects_beginning):
            assert choice["finish_reason"] == "stop"
    assert native.json()["meta_info"]["grammar"] == text.json()["choices"][0]["grammar"]


def test_free_answers_have_no_grammar(server: LiveServer) -> None:
    free = {"type": "text"}
    chat = server.post(CHAT, {"messages": HELLO, "max_tokens": 2, "response_format": free}).json()
    native = server.post(NATIVE, {"text": "Hi", "sampling_params": {"max_new_tokens": 2}}).json()

    assert "grammar" not in chat["choices"][0]
    assert chat["usage"]["completion_tokens_details"] == {"fast_forwarded_tokens": 0}
    assert "grammar" not in native["meta_info"]
    assert native["meta_info"]["fast_forwarded_tokens"] == 0


def test_forced_tokens_are_counted_over_all_choices(server: LiveServer) -> None:
    asked = {"json_schema": {**SCHEMA, "properties": {"z": {"const": "long" * 20}}}}
    asked["json_schema"]["required"] = ["z"]
    body = {"prompt": ["Hello", "World"], "n": 2, "max_tokens": 300, "whitespace": "compact"}
    answer = server.post(TEXT, {**body, **asked}).json()
    native = server.post(
        NATIVE, {"text": "Hello", "sampling_params": {**asked, "whitespace": "compact", "n": 2}}
    ).json()

    texts = {choice["text"] for choice in answer["choices"]}
    assert texts == {'{"z":"' + "long" * 20 + '"}'}
    assert len(answer["choices"]) == 4
    forwarded = answer["usage"]["completion_tokens_details"]["fast_forwarded_tokens"]
    each = [one["meta_info"]["fast_forwarded_tokens"] for one in native]
    assert 0 < forwarded <= answer["usage"]["completion_tokens"]
    assert each == [forwarded // 4] * 2


@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_a_stream_adds_up_and_ends_with_the_grammar(server: LiveServer, path: str) -> None:
    body: dict[str, Any] = {"messages": HELLO} if path == CHAT else {"prompt": "Hello"}
    body |= {"json_schema": SCHEMA, "stream": True, "stream_options": {"include_usage": True}}
    with server.http.stream("POST", path, json={**body, "max_tokens": 300}) as answer:
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line]

    parts = [json.loads(line) for line in lines[:-1]]
    choices = [part["choices"][0] for part in parts[:-1]]
    assert is_json("".join(_piece(choice) for choice in choices))
    assert ["grammar" in choice for choice in choices] == [False] * (len(choices) - 1) + [True]
    assert parts[-1]["usage"]["completion_tokens_details"]["fast_forwarded_tokens"] >= 0


def test_a_native_stream_of_several_prompts(server: LiveServer) -> None:
    each = [{"regex": "[a-c]{3}", "n": 2}, {"structured_outputs": {"choice": ["yes", "no"]}}]
    body = {"text": ["Hi", "Ho"], "sampling_params": each, "stream": True}
    with server.http.stream("POST", NATIVE, json=body) as answer:
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line]

    last = {part["index"]: part for part in map(json.loads, lines[:-1])}
    assert is_three(last[0]["text"])
    assert is_three(last[1]["text"])
    assert is_chosen(last[2]["text"])
    assert all(part["meta_info"]["grammar"] for part in last.values())


@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_be_held_is_a_status_that_names_the_field(
    server: LiveServer, stream: bool
) -> None:
    for said, param in (
        ({"regex": "(a"}, "regex"),
        ({"json_schema": {"type": "string", "not": {"const": "x"}}}, "json_schema"),
        ({"ebnf": "root ::= ("}, "ebnf"),
    ):
        answer = server.post(TEXT, {"prompt": "Hello", "stream": stream, **said})
        assert answer.status_code == 400, answer.text
        assert answer.json()["error"]["param"] == param


# -------------------------------------------------------------- the official client


@pytest.fixture
def client(server: LiveServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as found:
        yield found


def test_a_model_is_parsed(client: openai.OpenAI) -> None:
    answer = client.chat.completions.parse(
        model="fake", messages=HELLO, response_format=Grade, max_tokens=300
    )
    beta = client.beta.chat.completions.parse(
        model="fake", messages=HELLO, response_format=Grade, max_tokens=300
    )

    parsed = answer.choices[0].message.parsed
    assert isinstance(parsed, Grade)
    assert parsed == Grade.model_validate_json(answer.choices[0].message.content or "")
    assert beta.choices[0].message.parsed == parsed


def test_a_model_is_parsed_from_a_stream(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(
        model="fake", messages=HELLO, response_format=Grade, max_tokens=300
    ) as stream:
        events = [event.type for event in stream]
        answer = stream.get_final_completion()

    assert isinstance(answer.choices[0].message.parsed, Grade)
    assert "content.done" in events


def test_the_asynchronous_client_parses(server: LiveServer) -> None:
    async def parse() -> Grade | None:
        url = f"{server.url}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            answer = await client.chat.completions.parse(
                model="fake", messages=HELLO, response_format=Grade, max_tokens=300
            )
            return answer.choices[0].message.parsed

    assert isinstance(asyncio.run(parse()), Grade)


def test_formats_and_extra_fields_of_the_client(client: openai.OpenAI) -> None:
    held = client.chat.completions.create(
        model="fake",
        messages=HELLO,
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}},
        max_tokens=300,
    )
    chosen = client.completions.create(
        model="fake",
        prompt="Hello",
        n=3,
        extra_body={"structured_outputs": {"choice": ["yes", "no", "perhaps"]}},
    )

    assert is_json(held.choices[0].message.content or "")
    assert held.choices[0].grammar  # type: ignore[attr-defined]
    assert held.usage is not None
    details = held.usage.completion_tokens_details
    assert details is not None
    assert details.fast_forwarded_tokens >= 0  # type: ignore[attr-defined]
    assert all(is_chosen(choice.text) for choice in chosen.choices)


def test_a_refusal_reaches_the_client_with_its_field(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            model="fake", messages=HELLO, extra_body={"regex": "a", "json_schema": {}}
        )

    assert caught.value.param == "json_schema"
    assert "`regex` and `json_schema` are both given" in str(caught.value)


# -------------------------------------------------------------- a program over HTTP


@pytest.fixture
def endpoint(server: LiveServer) -> Iterator[Any]:
    backend: Any = sgl.RuntimeEndpoint(server.url)
    yield backend
    backend.shutdown()


@sgl.function
def typed(s: Any) -> None:
    s += "Three: " + sgl.gen("three", regex="[a-c]{3}", max_tokens=9)
    s += " object: " + sgl.gen("object", json_schema=Grade, whitespace="compact", max_tokens=300)
    s += " number: " + sgl.gen("number", dtype=int, max_tokens=5) + "."
    s += " samples: " + sgl.gen("samples", regex="[a-c]{3}", n=2, max_tokens=9)


def test_a_program_over_http_is_held(endpoint: Any) -> None:
    state = typed.run(backend=endpoint, temperature=0)

    assert is_three(state["three"])
    Grade.model_validate_json(state["object"])
    assert re.fullmatch(r"[-+]?[0-9]+", state["number"])
    assert all(is_three(text) for text in state["samples"])
    assert state.get_meta_info("object")["grammar"]
    assert state.get_meta_info("samples")["completion_tokens"] >= 6
    assert len(state.get_meta_info("samples")["samples"]) == 2


def test_an_error_over_http_keeps_its_field(endpoint: Any) -> None:
    @sgl.function
    def broken(s: Any, n: int) -> None:
        s += "x" + sgl.gen("x", ebnf="root ::= (", n=n)

    for n in (1, 2):
        error = broken.run(n=n, backend=endpoint).error()
        assert error is not None
        assert isinstance(error.__cause__, sgl.InvalidRequest)
        assert error.__cause__.param == "ebnf"


def _piece(choice: dict[str, Any]) -> str:
    found = choice["delta"].get("content") if "delta" in choice else choice["text"]
    return found or ""
