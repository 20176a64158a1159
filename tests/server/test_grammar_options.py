"""Each option about grammars, away from its default, through the command line to an answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from live_server import LiveServer

OPTIONS = [
    "--grammar-engine", "llguidance", "--grammar-whitespace", "compact", "--no-jump-forward",
    "--grammar-limit", "repeat=50", "--grammar-limit", "choices=3",
    "--grammar-compile-seconds", "1", "--grammar-queue", "2", "--grammar-cache-mb", "1",
]  # fmt: skip
SLOW = "(a|b)*a(a|b){18}"
PAIR = {
    "type": "object",
    "properties": {"first": {"type": "null"}, "second": {"type": "null"}},
    "required": ["first", "second"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    live = LiveServer("fake?eos=0", *OPTIONS)
    yield live
    live.stop()


def ask(server: LiveServer, **fields: Any) -> httpx.Response:
    body = {"prompt": "x", "max_tokens": 60, **fields}
    return httpx.post(f"{server.url}/v1/completions", json=body, timeout=60)


def test_the_engine_whitespace_and_jumps_are_the_operators(server: LiveServer) -> None:
    answer = ask(server, json_schema=PAIR).json()
    choice = answer["choices"][0]
    assert choice["text"] == '{"first":null,"second":null}'
    assert choice["grammar"] == "llguidance"
    assert answer["usage"]["completion_tokens_details"]["fast_forwarded_tokens"] == 0


def test_a_request_may_choose_for_itself(server: LiveServer) -> None:
    choice = ask(server, regex="abc", grammar_engine="outlines").json()["choices"][0]
    assert (choice["text"], choice["grammar"]) == ("abc", "outlines")


@pytest.mark.parametrize(
    ("fields", "limit"),
    [
        ({"regex": "a{51}"}, "--grammar-limit repeat"),
        ({"structured_outputs": {"choice": ["a", "b", "c", "d"]}}, "--grammar-limit choices"),
        ({"regex": SLOW, "grammar_engine": "outlines"}, "--grammar-compile-seconds"),
    ],
)
def test_limits_are_the_operators(server: LiveServer, fields: dict[str, Any], limit: str) -> None:
    answer = ask(server, **fields)
    assert answer.status_code == 400
    assert limit in answer.json()["error"]["message"]


def test_a_full_queue_is_an_answer(server: LiveServer) -> None:
    """Two are compiled, two wait; the others are told to come again, and all hear something."""
    answers: list[httpx.Response] = []

    def run(at: int) -> None:
        answers.append(ask(server, regex=f"{SLOW}{'b' * at}", grammar_engine="outlines"))

    threads = [threading.Thread(target=run, args=(at,)) for at in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {answer.status_code for answer in answers} == {400, 429}
    full = next(answer for answer in answers if answer.status_code == 429)
    assert "--grammar-queue" in full.json()["error"]["message"]
    assert ask(server, regex="ab").status_code == 200
    assert server.idle()


def test_compiled_grammars_are_bounded_in_memory(server: LiveServer) -> None:
    for size in range(1, 12):
        assert ask(server, regex=f"a{{{size}}}").status_code == 200
    stats = server.stats()
    assert stats["grammar_bytes"] <= 1 << 20
    assert stats["grammars"] < 8
    assert stats["grammars_compiled"] >= 11


def test_too_little_memory_to_compile_is_said_and_harms_nobody() -> None:
    live = LiveServer("fake?eos=0", "--grammar-compile-mb", "60")
    try:
        answer = ask(live, regex="a{3}")
        assert answer.status_code == 400
        assert "--grammar-compile-mb" in answer.json()["error"]["message"]
        assert ask(live, max_tokens=3).status_code == 200
    finally:
        live.stop()
