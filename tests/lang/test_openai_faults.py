"""A server behind OpenAI's API on its bad days."""

from __future__ import annotations

import time
from typing import Any

import pytest
from scripted_api import Reply, ScriptedApi, cause, chat, error, events, run

import sglang_lite as sgl
from sglang_lite.errors import InvalidRequest, Overloaded, RequestFailed
from sglang_lite.lang.backends.openai import OpenAI


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
