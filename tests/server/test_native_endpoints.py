"""SGLang's own endpoints, and those for operators."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from live_server import LiveServer, eventually, fake_text, tokenizer
from prometheus_client.parser import text_string_to_metric_families

IDS = tokenizer.encode("Hi")


def events(server: LiveServer, body: dict[str, Any]) -> list[dict[str, Any]]:
    """What a stream says, which ends with [DONE]."""
    with server.http.stream("POST", "/generate", json={**body, "stream": True}) as answer:
        assert answer.status_code == 200
        lines = [line.removeprefix("data: ") for line in answer.iter_lines() if line]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


def test_a_text(server: LiveServer) -> None:
    sampling = {"max_new_tokens": 5, "temperature": 0}
    answer = server.post("/generate", {"text": "Hi", "sampling_params": sampling}).json()

    said = fake_text(IDS, 5)
    assert answer["text"] == said
    assert answer["output_ids"] == list(said.encode())
    meta = answer["meta_info"]
    assert meta["finish_reason"] == {"type": "length", "length": 5}
    assert (meta["prompt_tokens"], meta["completion_tokens"]) == (3, 5)
    assert meta["e2e_latency"] > 0


def test_ids_and_lists(server: LiveServer) -> None:
    short, long = {"max_new_tokens": 2}, {"max_new_tokens": 4}
    one = server.post("/generate", {"input_ids": IDS, "sampling_params": short}).json()
    two = server.post("/generate", {"input_ids": [IDS, IDS], "sampling_params": [short, long]})
    many = server.post("/generate", {"text": ["Hi"], "sampling_params": {**short, "n": 3}}).json()

    assert one["text"] == fake_text(IDS, 2)
    assert [each["text"] for each in two.json()] == [fake_text(IDS, 2), fake_text(IDS, 4)]
    assert [each["text"] for each in many] == [fake_text(IDS, 2)] * 3


def test_a_stream_holds_all_so_far(server: LiveServer) -> None:
    parts = events(server, {"text": "Hi", "sampling_params": {"max_new_tokens": 4}, "rid": "me"})

    said = fake_text(IDS, 4)
    assert [part["text"] for part in parts] == [said[:1], said[:2], said[:3], said]
    assert {part["meta_info"]["id"] for part in parts} == {"me"}
    assert [part["meta_info"]["finish_reason"] for part in parts[:-1]] == [None] * 3


def test_a_stream_of_several_prompts(server: LiveServer) -> None:
    sampling = {"max_new_tokens": 3, "n": 2}
    parts = events(server, {"text": ["Hi", "Ho"], "sampling_params": sampling})

    last = {part["index"]: part["text"] for part in parts}
    hi, ho = fake_text(IDS, 3), fake_text(tokenizer.encode("Ho"), 3)
    assert last == {0: hi, 1: hi, 2: ho, 3: ho}


def test_logprobs(server: LiveServer) -> None:
    body = {
        "text": "Hi",
        "sampling_params": {"max_new_tokens": 2},
        "return_logprob": True,
        "logprob_start_len": 0,
        "top_logprobs_num": 2,
        "return_text_in_logprobs": True,
    }
    meta = server.post("/generate", body).json()["meta_info"]

    assert [each[1:] for each in meta["input_token_logprobs"]] == [
        [256, "<s>"],
        [72, "H"],
        [105, "i"],
    ]
    assert meta["input_token_logprobs"][0][0] is None
    assert all(each[0] < 0 for each in meta["input_token_logprobs"][1:])
    assert [each[2] for each in meta["output_token_logprobs"]] == list(fake_text(IDS, 2))
    assert [len(each) for each in meta["output_top_logprobs"]] == [2, 2]
    assert events(server, body)[-1]["meta_info"]["input_token_logprobs"]


def test_each_prompt_may_have_its_own_first_logprob(server: LiveServer) -> None:
    body = {
        "text": ["Hi", "Hello"],
        "sampling_params": {"max_new_tokens": 0},
        "return_logprob": True,
        "logprob_start_len": [1, 3],
    }
    answers = server.post("/generate", body).json()
    sizes = [len(answer["meta_info"]["input_token_logprobs"]) for answer in answers]
    assert sizes == [2, 3]

    refused = server.post("/generate", {**body, "logprob_start_len": [1]})
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "logprob_start_len"


@pytest.mark.parametrize(
    ("field", "about"),
    [
        ({"hint": {"prio": 1}}, "no field 'prio'"),
        ({"hint": {"more": 1}}, "more"),
        ({"hint": {"program": True}}, "program"),
        ({"hint": {"retain_ms": 10**9}}, "retain_ms"),
        ({"priority": 10**9}, "priority"),
    ],
)
def test_a_wrong_hint_is_refused_by_name(
    server: LiveServer, field: dict[str, Any], about: str
) -> None:
    answer = server.post("/generate", {"text": "Hi", **field})
    assert answer.status_code == 400
    assert about in answer.json()["error"]["message"]


def test_an_abort_ends_the_named_request_alone(server: LiveServer) -> None:
    answers: dict[str, dict[str, Any]] = {}

    def ask(rid: str, tokens: int) -> None:
        body = {"text": rid, "rid": rid, "sampling_params": {"max_new_tokens": tokens}}
        answers[rid] = server.post("/generate", body).json()

    threads = [
        threading.Thread(target=ask, args=each) for each in (("job-1", 4000), ("job-10", 100))
    ]
    for thread in threads:
        thread.start()
    assert eventually(lambda: server.stats()["running"] == 2)
    taken = server.post("/generate", {"text": "x", "rid": "job-1"})
    aborted = server.post("/abort_request", {"rid": "job-1"})
    for thread in threads:
        thread.join()

    assert taken.status_code == 400
    assert aborted.json() == {"aborted": 1}
    assert answers["job-1"]["meta_info"]["finish_reason"]["type"] == "abort"
    assert answers["job-10"]["text"] == fake_text(tokenizer.encode("job-10"), 100)


def test_all_can_be_aborted(server: LiveServer) -> None:
    body = {"text": "Hi", "sampling_params": {"max_new_tokens": 4000, "n": 3}}
    thread = threading.Thread(target=server.post, args=("/generate", body))
    thread.start()
    assert eventually(lambda: server.stats()["running"] == 3)
    assert server.post("/abort_request", {"abort_all": True}).json() == {"aborted": 1}
    thread.join(5)

    assert not thread.is_alive()


def test_the_cache_is_flushed_when_nothing_runs(server: LiveServer) -> None:
    server.post("/generate", {"text": "flush me", "sampling_params": {"max_new_tokens": 1}})
    assert server.stats()["pages_cached"] > 0
    assert server.http.post("/flush_cache").json() == {"flushed": True}
    assert server.stats()["pages_cached"] == 0

    body = {"text": "Hi", "rid": "long", "sampling_params": {"max_new_tokens": 4000}}
    thread = threading.Thread(target=server.post, args=("/generate", body))
    thread.start()
    assert eventually(lambda: server.stats()["running"] == 1)
    assert server.http.get("/flush_cache").status_code == 400
    server.post("/abort_request", {"rid": "long"})
    thread.join()


@pytest.mark.parametrize("path", ["/get_model_info", "/model_info"])
def test_model_info(server: LiveServer, path: str) -> None:
    about = server.http.get(path).json()

    assert about["served_model_name"] == "fake"
    assert about["model_path"] == ""  # it has no files
    assert about["max_context_length"] == 4096
    assert about["eos_token_ids"] == [257]


def test_health(server: LiveServer) -> None:
    assert server.http.get("/health").json() == {"status": "ok"}


def test_metrics_count_what_happened(server: LiveServer) -> None:
    def read() -> dict[tuple[str, str], float]:
        found = text_string_to_metric_families(server.http.get("/metrics").text)
        return {
            (
                sample.name.removeprefix("sglang_lite_"),
                "".join(sample.labels.values()),
            ): sample.value
            for family in found
            for sample in family.samples
        }

    server.http.get("/flush_cache")
    before = read()
    for _ in range(2):
        server.post("/v1/completions", {"prompt": "count me in", "max_tokens": 3})
    server.post("/v1/completions", {"prompt": ""})
    server.post("/v1/completions", {"prompt": "held", "regex": "(?=a)b"})
    after = read()

    def grown(name: str, label: str = "") -> float:
        return after[name, label] - before[name, label]

    assert after["up", ""] == 1
    assert grown("requests_total", "finished") == 2
    assert grown("requests_total", "refused") == 2
    assert grown("requests_total", "failed") == 0
    assert grown("cached_tokens_total") == 11
    assert grown("computed_prompt_tokens_total") == 12 + 1
    assert grown("generation_tokens_total") == 4  # each first token comes out of its prompt
    assert after["num_running_reqs", ""] == after["num_queue_reqs", ""] == 0
    owners = ("free", "cached", "shared", "leased")
    assert sum(after["kv_pages", owner] for owner in owners) == server.stats()["pages_total"]
