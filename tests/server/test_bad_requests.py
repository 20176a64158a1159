"""What a caller can get wrong: each is a 4xx that names the value and the limit."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from live_server import LiveServer, fake_text, tokenizer

CHAT, TEXT, NATIVE = "/v1/chat/completions", "/v1/completions", "/generate"


def chat(**fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2, **fields}


def text(**fields: Any) -> dict[str, Any]:
    return {"prompt": "Hi", "max_tokens": 2, **fields}


def native(**fields: Any) -> dict[str, Any]:
    return {"text": "Hi", "sampling_params": {"max_new_tokens": 2}, **fields}


CASES: list[tuple[str, Any, str | None, list[str]]] = [
    # endpoint, body, param, what the message names
    (TEXT, text(prompt="x" * 5000), "prompt", ["5001 tokens", "4096"]),
    (CHAT, chat(messages=[{"role": "user", "content": "x" * 5000}]), "prompt", ["tokens", "4096"]),
    (TEXT, text(prompt=[97] * 4096), "prompt", ["4096 tokens", "at most 4095"]),
    (TEXT, text(prompt=[97] * 9999, n=128), "prompt", ["9999 tokens", "at most 4096"]),
    (CHAT, chat(model="gpt-9"), "model", ["'gpt-9'", "'fake'"]),
    (TEXT, text(max_tokens=-1), "max_tokens", ["-1", "between 0"]),
    (CHAT, chat(max_tokens=2**80), "max_tokens", [str(2**80), "1048576"]),
    (CHAT, chat(max_tokens=1, max_completion_tokens=1), "max_tokens", ["max_completion_tokens"]),
    (TEXT, text(prompt=[258]), "prompt", ["258", "between 0 and 257"]),
    (TEXT, text(prompt=[-1]), "prompt", ["-1", "between 0 and 257"]),
    (TEXT, text(prompt=[[97], [10**30]]), "prompt", ["1.000e+30", "257"]),
    (TEXT, text(prompt=""), "prompt", ["empty"]),
    (TEXT, text(prompt=[]), "prompt", ["empty"]),
    (TEXT, text(prompt=[[]]), "prompt", ["empty"]),
    (TEXT, text(prompt=["a", ""]), "prompt", ["empty"]),
    (TEXT, text(prompt=[True]), "prompt", ["got True"]),
    (TEXT, text(prompt=["a", 1]), "prompt", ["list"]),
    (TEXT, text(prompt={"a": 1}), "prompt", ["{'a': 1}"]),
    (TEXT, {"max_tokens": 2}, "prompt", ["`prompt`"]),
    (TEXT, text(prompt=["a"] * 1025), "prompt", ["1025", "1024"]),
    (TEXT, text(prompt=["a"] * 10, n=128), "prompt", ["1280", "1024"]),
    (TEXT, text(n=100_000), "n", ["100000", "128"]),
    (CHAT, chat(n=0), "n", ["0", "between 1 and 128"]),
    (CHAT, chat(temperature="hot"), "temperature", ["'hot'", "number"]),
    (CHAT, chat(temperature=-1), "temperature", ["-1", "100"]),
    (CHAT, chat(top_p=0), "top_p", ["0", "at most 1"]),
    (CHAT, chat(top_k=0), "top_k", ["0", "-1 (off)"]),
    (CHAT, chat(max_tokens="5"), "max_tokens", ["'5'", "integer"]),
    (CHAT, chat(max_tokens=True), "max_tokens", ["True", "integer"]),
    (CHAT, chat(stream="yes"), "stream", ["'yes'", "boolean"]),
    (CHAT, chat(stop=[""]), "stop", ["0 bytes", "1024"]),
    (CHAT, chat(stop=["a"] * 10_000), "stop", ["10000", "32"]),
    (CHAT, chat(stop=5), "stop", ["5", "string"]),
    (CHAT, chat(stop_token_ids=[-5]), "stop_token_ids", ["-5"]),
    (CHAT, chat(stop_token_ids=[2**70]), "stop_token_ids", [str(2**70), "2147483647"]),
    (CHAT, chat(logit_bias={"999999999": 1}), "logit_bias", ["999999999", "257"]),
    (CHAT, chat(logit_bias={str(10**30): 1}), "logit_bias", [str(10**30), "2147483647"]),
    (CHAT, chat(logit_bias={"x": 1}), "logit_bias", ["'x'", "integer"]),
    (CHAT, chat(logit_bias={"1": 101}), "logit_bias", ["101", "100"]),
    (CHAT, chat(logprobs=True, top_logprobs=1_000_000), "top_logprobs", ["1000000", "20"]),
    (CHAT, chat(top_logprobs=1), "top_logprobs", ["logprobs"]),
    (TEXT, text(logprobs=101), "logprobs", ["101", "100"]),
    (CHAT, chat(seed=2**80), "seed", [str(2**80)]),
    (CHAT, chat(messages=[]), "messages", ["empty"]),
    (CHAT, {"max_tokens": 2}, "messages", ["`messages`", "required"]),
    (CHAT, chat(messages=[{"role": "robot", "content": "x"}]), "messages", ["'robot'", "'user'"]),
    (CHAT, chat(messages=[{"role": "user"}]), "messages", ["messages.0.content"]),
    (CHAT, chat(messages=[{"role": "user", "content": 5}]), "messages", ["5", "string"]),
    (
        CHAT,
        chat(messages=[{"role": "user", "content": [{"type": "image_url"}]}]),
        "messages",
        ["'image_url'"],
    ),
    (CHAT, chat(chat_template_kwargs={"messages": []}), "chat_template_kwargs", ["'messages'"]),
    (CHAT, chat(tools=[{"type": "function"}]), "tools", ["`tools` is not available"]),
    (CHAT, chat(tool_choice="required"), "tool_choice", ["not available"]),
    (CHAT, chat(response_format={"type": "xml"}), "response_format", ["'xml'", "json_schema"]),
    (CHAT, chat(response_format="json"), "response_format", ["'json'", "object"]),
    (CHAT, chat(regex="a", ebnf="b"), "ebnf", ["`regex` and `ebnf`"]),
    (CHAT, chat(json_schema=[1]), "json_schema", ["[1]", "schema"]),
    (CHAT, chat(guided_json={}), "guided_json", ["not available", "`json_schema`"]),
    (CHAT, chat(structured_outputs={"choice": []}), "structured_outputs", ["[]", "texts"]),
    (TEXT, text(whitespace="single"), "whitespace", ["none is given"]),
    (TEXT, text(regex="a", grammar_engine="x"), "grammar_engine", ["'x'", "llguidance"]),
    (TEXT, text(regex=5), "regex", ["5", "text"]),
    (TEXT, text(regex="("), "regex", ["regex"]),
    (TEXT, text(json_schema={"type": 5}), "json_schema", ["type"]),
    (TEXT, text(stop_regex="a"), "stop_regex", ["not available"]),
    (TEXT, text(suffix="x"), "suffix", ["not available"]),
    (TEXT, text(best_of=5), "best_of", ["5"]),
    (CHAT, chat(temprature=1), "temprature", ["`temprature`", "`temperature`"]),
    (CHAT, chat(stream_options={"include_usage": True}), "stream_options", ["`stream`"]),
    (CHAT, chat(stream=True, stream_options={"x": 1}), "x", ["`x`", "include_usage"]),
    (CHAT, [1], None, ["object"]),
    (CHAT, None, None, ["object"]),
    (NATIVE, native(text=None), "text", ["`text`", "`input_ids`"]),
    (NATIVE, native(input_ids=[1]), "input_ids", ["exactly one"]),
    (NATIVE, {"input_ids": [258]}, "prompt", ["258", "257"]),
    (NATIVE, {"input_ids": "abc"}, "input_ids", ["'abc'"]),
    (NATIVE, native(sampling_params={"max_tokenz": 1}), "max_tokenz", ["'max_tokenz'"]),
    (NATIVE, native(sampling_params={"temperature": "hot"}), "temperature", ["'hot'"]),
    (NATIVE, native(sampling_params={"regex": "["}), "regex", ["regex"]),
    (NATIVE, native(sampling_params={"json_schema": "{"}), "json_schema", ["not JSON"]),
    (NATIVE, native(sampling_params={"guided_regex": "a"}), "guided_regex", ["`regex`"]),
    (NATIVE, native(sampling_params={"regex": "a", "ebnf": "b"}), "ebnf", ["both"]),
    (NATIVE, native(sampling_params=[{}, {"regex": 1}], text=["a", "b"]), "regex", ["1", "text"]),
    (NATIVE, native(sampling_params={"n": 1000}), "n", ["1000", "128"]),
    (NATIVE, native(sampling_params=[{}, {}]), "sampling_params", ["1 prompts", "2"]),
    (NATIVE, native(top_logprobs_num=101, return_logprob=True), "logprobs", ["101", "100"]),
    (NATIVE, native(logprob_start_len=50, return_logprob=True), "logits_from", ["50", "3"]),
    (NATIVE, native(rid=5), "rid", ["5", "string"]),
    ("/abort_request", {"rid": ""}, "rid", ["empty"]),
    ("/abort_request", {"rid": "nobody"}, "rid", ["'nobody'"]),
]


@pytest.fixture
def control(server: LiveServer) -> Iterator[None]:
    """After a bad request the server answers a good one as ever."""
    yield
    good = server.post(TEXT, {"prompt": "Hello", "max_tokens": 4, "temperature": 0})
    assert good.json()["choices"][0]["text"] == fake_text(tokenizer.encode("Hello"), 4)


def refusal(answer: httpx.Response) -> dict[str, Any]:
    assert 400 <= answer.status_code < 500, answer.text
    error: dict[str, Any] = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    assert error["code"] == answer.status_code
    assert len(error["message"]) < 1000
    return error


@pytest.mark.usefixtures("control")
@pytest.mark.parametrize(
    ("path", "body", "param", "named"),
    CASES,
    ids=[f"{number}-{case[2]}" for number, case in enumerate(CASES)],
)
def test_a_bad_value_is_refused_by_name(
    server: LiveServer, path: str, body: Any, param: str | None, named: list[str]
) -> None:
    answer = server.post(path, body)
    error = refusal(answer)

    missing = param == "model" or body == {"rid": "nobody"}
    assert answer.status_code == (404 if missing else 400)
    assert error["param"] == param
    assert all(word in error["message"] for word in named), error["message"]


@pytest.mark.usefixtures("control")
@pytest.mark.parametrize("stream", [False, True])
def test_what_the_runtime_refuses_is_a_status_in_a_stream_too(
    server: LiveServer, stream: bool
) -> None:
    error = refusal(server.post(TEXT, text(prompt="x" * 5000, stream=stream)))

    assert error["param"] == "prompt"


@pytest.mark.usefixtures("control")
@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b'{"prompt": NaN}', 400),
        (b'{"prompt": "a", "temperature": NaN}', 400),
        (b'{"prompt": "a", "temperature": 1e400}', 400),
        (b'{"prompt": "a", "logit_bias": {"1": NaN}}', 400),
        (b'{"prompt": "\xff\xfe"}', 400),
        (b'{"prompt": "\\ud800"}', 400),
        (b'{"prompt": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400),
        (b'{"prompt": "a", "user": ' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}", 400),
        (b'{"prompt": "a", "max_tokens": ' + b"9" * 100_000 + b"}", 400),
        (json.dumps({"prompt": "x" * (17 << 20)}).encode(), 413),
    ],
    ids=range(12),
)
def test_what_is_not_json_is_refused(server: LiveServer, data: bytes, status: int) -> None:
    for path in (TEXT, CHAT, NATIVE):
        answer = server.http.post(path, content=data)

        refusal(answer)
        if path == TEXT:
            assert answer.status_code == status


@pytest.mark.usefixtures("control")
def test_a_body_without_a_length_is_bounded_too(server: LiveServer) -> None:
    answer = server.http.post(TEXT, content=(b" " * (1 << 20) for _ in range(18)))

    assert answer.status_code == 413
    assert "16777216" in refusal(answer)["message"]


def test_unknown_routes_and_methods(server: LiveServer) -> None:
    assert server.http.get("/v1/nothing").status_code == 404
    assert refusal(server.http.get("/v1/nothing"))["type"] == "invalid_request_error"
    assert server.http.get(CHAT).status_code == 405
    assert refusal(server.http.get(CHAT))["message"].endswith("GET /v1/chat/completions")


@pytest.mark.usefixtures("control")
def test_huge_headers_are_not_read_to_the_end(server: LiveServer) -> None:
    with httpx.Client(base_url=server.url) as client, contextlib.suppress(httpx.TransportError):
        # It may hang up on us before we have said it all.
        answer = client.get("/health", headers={"x": "y" * (5 << 20)})
        assert answer.status_code in (400, 431)
