"""The whole path on the real small model: options, programs, the server and OpenAI's client."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openai import OpenAI

import sglang_lite as sgl

pytestmark = pytest.mark.model

PROMPT = "The three primary colours are red,"
GREEDY = {"max_new_tokens": 12, "temperature": 0}


@pytest.fixture(scope="module")
def expected(smollm2_folder: Path) -> str:
    with sgl.Engine(str(smollm2_folder), dtype="float32") as engine:
        text: str = engine.generate(PROMPT, GREEDY)["text"]
    assert "yellow" in text
    return text


@pytest.mark.parametrize(
    "options",
    [
        {
            "page_size": 16,
            "max_total_tokens": 512,
            "chunked_prefill_size": 3,
            "schedule_policy": "fcfs",
            "max_running_requests": 2,
            "threads": 1,
        },
        {
            "deterministic": True,
            "disable_radix_cache": True,
            "context_length": 64,
            "mem_fraction_static": 0.3,
            "max_queued_requests": 4,
            "device": "cpu",
            "attention_backend": "reference",
        },
    ],
    ids=["small", "plain"],
)
def test_options_change_how_and_not_what(
    smollm2_folder: Path, expected: str, options: dict[str, Any]
) -> None:
    with sgl.Engine(str(smollm2_folder), dtype="float32", **options) as engine:
        answers = engine.generate([PROMPT] * 4, GREEDY)
        assert [answer["text"] for answer in answers] == [expected] * 4
        cached = sum(answer["meta_info"]["cached_tokens"] for answer in answers)
        assert (cached > 0) is not bool(options.get("disable_radix_cache"))


def test_bfloat16_is_close(smollm2_folder: Path, expected: str) -> None:
    with sgl.Engine(str(smollm2_folder), dtype="bfloat16") as engine:
        answer = engine.generate(PROMPT, {"max_new_tokens": 3, "temperature": 0})
    assert expected.startswith(answer["text"])


def test_a_context_ends_with_length(smollm2_folder: Path) -> None:
    with sgl.Engine(str(smollm2_folder), context_length=16) as engine:
        meta = engine.generate(PROMPT, {"max_new_tokens": 100, "ignore_eos": True})["meta_info"]
        assert meta["prompt_tokens"] + meta["completion_tokens"] == 16
        assert meta["finish_reason"] == {"type": "length", "length": meta["completion_tokens"]}


@sgl.function
def quiz(s: Any, country: str) -> None:
    s += sgl.user("What is the capital of " + country + "? Answer with one word.")
    s += sgl.assistant(sgl.gen("city", max_tokens=6, temperature=0, stop="."))
    s += sgl.user("Is that city in Europe?")
    s += sgl.assistant(sgl.select("europe", ["Yes", "No"]))


def test_a_program_on_a_runtime_of_its_own(smollm2_folder: Path) -> None:
    with sgl.Runtime(str(smollm2_folder), dtype="float32") as runtime:
        rows = [{"country": "France"}, {"country": "Italy"}]
        states = quiz.run_batch(rows, backend=runtime)
        assert "Paris" in states[0]["city"]
        assert "Rome" in states[1]["city"]
        assert all(state["europe"] in ("Yes", "No") for state in states)
        assert states[0].text().startswith("<|im_start|>system\n")
        assert states[0].messages()[0]["role"] == "user"
        info = runtime.get_server_info()
        assert info["duplicate_prefill_tokens"] == 0
        assert info["pages_leased"] == 0


@pytest.fixture(scope="module")
def server(smollm2_folder: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "sglang_lite", "serve", "--model", str(smollm2_folder)]
    command += ["--port", "0", "--served-model-name", "small", "--max-total-tokens", "2048"]
    command += ["--dtype", "float32"]  # a greedy answer depends on it
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if found := re.search(r"http://\S+", line):
                break
        else:
            raise AssertionError("the server did not start")
        yield found[0]
        process.terminate()
        process.communicate(timeout=20)


def test_the_openai_client_gets_an_answer(server: str) -> None:
    with OpenAI(base_url=f"{server}/v1", api_key="none") as client:
        messages: list[Any] = [{"role": "user", "content": "What is the capital of France?"}]
        whole = client.chat.completions.create(
            model="small", messages=messages, temperature=0, max_tokens=12
        )
        said = whole.choices[0].message.content or ""
        assert "Paris" in said
        assert whole.usage is not None
        assert whole.usage.prompt_tokens > 30, "the template's own system turn is in it"
        streamed = client.chat.completions.create(
            model="small", messages=messages, temperature=0, max_tokens=12, stream=True
        )
        text = "".join(part.choices[0].delta.content or "" for part in streamed if part.choices)
        assert text == said
        again = client.completions.create(model="small", prompt=PROMPT, temperature=0, max_tokens=4)
        assert again.choices[0].text
