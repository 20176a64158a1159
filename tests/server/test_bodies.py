"""Bodies without a server: what each field becomes, and that none is forgotten."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from openai.types.chat.completion_create_params import CompletionCreateParamsBase as Chat
from openai.types.completion_create_params import CompletionCreateParamsBase as Completion

from sglang_lite.errors import InvalidRequest, Unsupported
from sglang_lite.params import Constraint, SamplingParams
from sglang_lite.runtime.constraints import FIELDS, INSTEAD
from sglang_lite.runtime.server.bodies import ChatBody, CompletionBody, GenerateBody
from sglang_lite.runtime.server.prompts import chat_params, completion_params, constraint_of

PARAMS = {field.name for field in msgspec.structs.fields(SamplingParams)}
# Every parameter with a value that is not its default, as a body gives it.
VALUES: dict[str, Any] = {
    "max_tokens": 7,
    "min_tokens": 3,
    "temperature": 0.5,
    "top_p": 0.5,
    "top_k": 5,
    "min_p": 0.1,
    "frequency_penalty": 0.3,
    "presence_penalty": 0.4,
    "repetition_penalty": 1.2,
    "logit_bias": {"5": 2},
    "stop": ["a", "b"],
    "stop_token_ids": [3],
    "ignore_eos": True,
    "seed": 11,
    "logprobs": 4,
}
MESSAGES = [{"role": "user", "content": "x"}]


def plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def test_the_values_cover_every_parameter() -> None:
    assert VALUES.keys() == PARAMS


@pytest.mark.parametrize("name", sorted(PARAMS))
def test_every_parameter_reaches_the_runtime(name: str) -> None:
    given_value = VALUES[name]
    expected = {5: 2.0} if name == "logit_bias" else given_value

    completion = completion_params(_completion({name: given_value}))
    chat_fields = (
        {"logprobs": True, "top_logprobs": 4} if name == "logprobs" else {name: given_value}
    )
    chat = chat_params(_chat(chat_fields), 4096)

    for params in (completion, chat):
        assert plain(getattr(params, name)) == expected
        for other in PARAMS - {name, "max_tokens"}:
            assert getattr(params, other) == getattr(SamplingParams(), other)


def test_nulls_mean_left_out() -> None:
    nothing = dict.fromkeys(PARAMS)

    assert completion_params(_completion(nothing)) == SamplingParams(max_tokens=16)
    assert chat_params(_chat(nothing), 4096) == SamplingParams(max_tokens=4096)


@pytest.mark.parametrize("kind", [ChatBody, CompletionBody, GenerateBody])
def test_a_name_means_one_thing(kind: type[ChatBody | CompletionBody | GenerateBody]) -> None:
    fields, ignored, refused = set(kind.model_fields), set(kind.ignored), set(kind.refused)

    assert not fields & ignored
    assert not fields & refused
    assert not ignored & refused


def test_every_field_of_openai_is_known() -> None:
    for kind, official in ((ChatBody, Chat), (CompletionBody, Completion)):
        known = {*kind.model_fields, *kind.ignored, *kind.refused}  # type: ignore[attr-defined]
        assert set(official.__annotations__) - known == set()


def test_every_name_of_a_constraint_is_a_field() -> None:
    for kind in (ChatBody, CompletionBody):
        assert set(FIELDS) <= kind.model_fields.keys()
    said = {"json_schema": {"b": 1, "a": 2}, "whitespace": "single", "grammar_engine": "outlines"}
    held = Constraint("json_schema", '{"b":1,"a":2}', whitespace="single", engine="outlines")
    for body in (_completion(said), _chat(said)):
        assert body.judge() == []
        assert constraint_of(body) == held
    assert constraint_of(_chat(dict.fromkeys(FIELDS))) is None


@pytest.mark.parametrize("name", sorted(INSTEAD))
def test_old_names_of_vllm_are_refused_with_the_new_ones(name: str) -> None:
    for make in (_chat, _completion):
        make({name: None}).judge()
        with pytest.raises(Unsupported) as caught:
            make({name: ["x"]}).judge()
        assert f"use {INSTEAD[name]}" in str(caught.value)


def test_judging_extra_fields() -> None:
    harmless = {"user": "me", "store": None, "suffix": ""}
    assert _completion(harmless).judge() == ["suffix", "user"]
    with pytest.raises(Unsupported, match="`suffix` is not available"):
        _completion({"suffix": "end"}).judge()
    with pytest.raises(InvalidRequest, match="unknown field `zzz`; known are best_of, "):
        _completion({"zzz": 1}).judge()


def _completion(fields: dict[str, Any]) -> CompletionBody:
    return CompletionBody.model_validate_json(msgspec.json.encode(fields))


def _chat(fields: dict[str, Any]) -> ChatBody:
    return ChatBody.model_validate_json(msgspec.json.encode({"messages": MESSAGES, **fields}))
