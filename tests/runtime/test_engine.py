"""The offline engine: SGLang's shape of question and answer."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator

import pytest

from sglang_lite.errors import InvalidRequest, RuntimeUnavailable
from sglang_lite.runtime.engine import Engine

FAKE = "sglang_lite.testing:fake_core"


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    with Engine("fake?eos=0", core=FAKE) as engine:
        yield engine


def test_one_prompt_gives_a_dict_and_several_a_list(engine: Engine) -> None:
    params = {"max_new_tokens": 4, "temperature": 0}
    one = engine.generate("hello", params)
    assert len(one["output_ids"]) == 4
    assert one["text"] == bytes(one["output_ids"]).decode()
    meta = one["meta_info"]
    assert (meta["prompt_tokens"], meta["completion_tokens"]) == (6, 4)
    assert meta["finish_reason"] == {"type": "length", "length": 4}

    several = engine.generate(["hello", "help"], params)
    assert several[0]["text"] == one["text"]
    assert several[0]["meta_info"]["cached_tokens"] == 5  # all but the last, which is computed
    by_ids = engine.generate(input_ids=[256, *b"hello"], sampling_params=params)
    assert by_ids["text"] == one["text"]
    each = engine.generate(["hello", "hello"], [{"max_new_tokens": 1}, {"max_new_tokens": 2}])
    assert [len(answer["output_ids"]) for answer in each] == [1, 2]


def test_a_stream_grows_to_the_whole(engine: Engine) -> None:
    params = {"max_new_tokens": 6}
    parts = list(engine.generate("hi", params, stream=True))
    assert [len(part["output_ids"]) for part in parts] == [1, 2, 3, 4, 5, 6]
    assert parts[-1]["text"] == engine.generate("hi", params)["text"]
    assert parts[-1]["meta_info"]["finish_reason"] == {"type": "length", "length": 6}
    assert parts[0]["meta_info"]["finish_reason"] is None


def test_leaving_a_stream_early_aborts_it(engine: Engine) -> None:
    for _ in engine.generate("hi", {"max_new_tokens": 4000}, stream=True):
        break
    engine.generate("x", {"max_new_tokens": 1})
    assert engine.get_server_info()["running"] == 0


def test_a_stop_string_is_cut_off_unless_asked_for(engine: Engine) -> None:
    whole = engine.generate("hello", {"max_new_tokens": 20})["text"]
    stop = whole[7:9]
    cut = engine.generate("hello", {"max_new_tokens": 20, "stop": stop})
    assert cut["text"] == whole[: whole.index(stop)]
    assert cut["meta_info"]["finish_reason"] == {"type": "stop", "matched": stop}
    kept = engine.generate("hello", {"max_new_tokens": 20, "stop": [stop], "no_stop_trim": True})
    assert kept["text"] == whole[: whole.index(stop) + 2]


def test_logprobs_of_output_and_prompt(engine: Engine) -> None:
    answer = engine.generate(
        "abc",
        {"max_new_tokens": 2},
        return_logprob=True,
        logprob_start_len=0,
        top_logprobs_num=2,
    )
    meta = answer["meta_info"]
    assert [entry[1] for entry in meta["output_token_logprobs"]] == answer["output_ids"]
    assert all(entry[0] < 0 for entry in meta["output_token_logprobs"])
    assert [len(entry) for entry in meta["output_top_logprobs"]] == [2, 2]
    prompt = meta["input_token_logprobs"]
    assert [entry[1] for entry in prompt] == [256, *b"abc"]
    assert prompt[0][0] is None
    assert all(entry[0] < 0 for entry in prompt[1:])


def test_async_generate_answers_from_the_callers_loop(engine: Engine) -> None:
    async def go() -> None:
        answers = await asyncio.gather(
            *(engine.async_generate(f"q{i}", {"max_new_tokens": 3}) for i in range(8))
        )
        assert [len(answer["output_ids"]) for answer in answers] == [3] * 8
        parts = [
            part
            async for part in await engine.async_generate("q", {"max_new_tokens": 3}, stream=True)
        ]
        assert len(parts[-1]["output_ids"]) == 3

    asyncio.run(go())


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({}, "either `prompt` or `input_ids`"),
        ({"prompt": "x", "input_ids": [1]}, "either `prompt` or `input_ids`"),
        ({"prompt": ["x", "y"], "sampling_params": [{}]}, "2 prompts need as many"),
        ({"prompt": "x", "sampling_params": {"temprature": 1}}, "unknown name 'temprature'"),
        ({"prompt": "x", "sampling_params": {"max_new_tokens": -1}}, "must be between 0 and"),
        ({"prompt": "x", "sampling_params": {"max_new_tokens": "many"}}, "`max_tokens` is 'many'"),
        ({"input_ids": []}, "the prompt is empty"),
        ({"prompt": "x" * 5000}, "at most 4095 fit"),
    ],
)
def test_a_bad_question_names_its_fault(
    engine: Engine, question: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message):
        engine.generate(**question)  # type: ignore[arg-type]


def test_an_answer_matches_its_constraint(engine: Engine) -> None:
    schema = {"properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "type": "object"}
    each = [{"regex": "[a-c]{3}", "n": 2}, {"json_schema": schema}, {"max_new_tokens": 5}]
    *three, held, free = engine.generate(["x", "y", "z"], each)

    assert all(re.fullmatch("[a-c]{3}", one["text"]) for one in three)
    assert json.loads(held["text"]).keys() == {"ok"}
    assert held["meta_info"]["grammar"]
    assert held["meta_info"]["finish_reason"] == {"type": "stop"}
    assert "grammar" not in free["meta_info"]
    assert free["meta_info"]["fast_forwarded_tokens"] == 0
    parts = list(engine.generate("x", {"regex": "[a-c]{3}"}, stream=True))
    assert re.fullmatch("[a-c]{3}", parts[-1]["text"])
    assert parts[-1]["meta_info"]["grammar"]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"regex": "("}, "regex"),
        ({"json_schema": "{"}, "not JSON"),
        ({"regex": "a", "json_schema": {}}, "both given"),
    ],
)
def test_a_bad_constraint_names_its_fault(
    engine: Engine, said: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message):
        engine.generate("x", said)


def test_an_engine_that_was_shut_down_says_so() -> None:
    engine = Engine("fake", core=FAKE)
    engine.shutdown()
    engine.shutdown()
    with pytest.raises(RuntimeUnavailable, match="was closed"):
        engine.generate("x")


def test_every_option_of_the_cache_can_be_switched_off() -> None:
    with Engine("fake?eos=0", core=FAKE, disable_radix_cache=True, page_size=16) as engine:
        params = {"max_new_tokens": 4}
        first = engine.generate("hello " * 20, params)
        second = engine.generate("hello " * 20, params)
        assert first["text"] == second["text"]
        assert second["meta_info"]["cached_tokens"] == 0


def test_a_table_finds_whole_texts_only() -> None:
    params = {"max_new_tokens": 0}
    found = {}
    for kind in ("tree", "table"):
        with Engine("fake", core=FAKE, prefix_cache=kind, schedule_policy="random") as engine:
            answers = [engine.generate(text, params) for text in ("abcd", "abef", "abcd?")]
        found[kind] = [answer["meta_info"]["cached_tokens"] for answer in answers]
    assert found == {"tree": [0, 3, 5], "table": [0, 0, 5]}
