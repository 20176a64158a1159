"""Whatever a body holds, it is answered, or refused: it never breaks anything."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from live_server import LiveServer

from sglang_lite.params import SamplingParams
from sglang_lite.runtime.constraints import FIELDS

PATHS = ["/v1/chat/completions", "/v1/completions", "/generate"]
PARAMS = {field.name for field in msgspec.structs.fields(SamplingParams)} - {"max_tokens"}

Strategy = st.SearchStrategy[Any]

short = st.text(max_size=9)
ids = st.lists(st.integers(0, 257), max_size=9)
turns = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "system"]), "content": short}
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | short,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(short, inner, max_size=3),
    max_leaves=6,
)
sampling: dict[str, Strategy] = {
    "n": st.integers(1, 3),
    "temperature": st.floats(0, 2),
    "top_k": st.integers(1, 2**70),
    "stop": short | st.lists(short, max_size=3),
    "stop_token_ids": ids,
    "logit_bias": st.dictionaries(st.integers(0, 257).map(str), st.floats(-100, 100), max_size=3),
    "seed": st.integers(0, 2**40),
    "regex": st.sampled_from(["[a-c]{3}", "(yes|no)", "(", ""]),
    "structured_outputs": st.just({"choice": ["yes", "no"]}),
}
openai_only: dict[str, Strategy] = {
    **sampling,
    "model": st.just("fake"),
    "stream": st.booleans(),
    "user": short,
}
# endpoint -> what its body must have, and what it may have: mostly sensible
KNOWN: dict[str, tuple[dict[str, Strategy], dict[str, Strategy]]] = {
    "/v1/chat/completions": (
        {"messages": st.lists(turns, max_size=3), "max_tokens": st.integers(0, 4)},
        {**openai_only, "logprobs": st.just(True), "tools": st.just([])},
    ),
    "/v1/completions": (
        {"prompt": short | ids | st.lists(short | ids), "max_tokens": st.integers(0, 4)},
        {**openai_only, "logprobs": st.integers(0, 5), "echo": st.booleans()},
    ),
    "/generate": (
        {
            "text": short | st.lists(short, max_size=3),
            "sampling_params": st.fixed_dictionaries(
                {"max_new_tokens": st.integers(0, 4)}, optional=sampling
            ),
        },
        {
            "stream": st.booleans(),
            "return_logprob": st.booleans(),
            "logprob_start_len": st.integers(-2, 4) | st.lists(st.integers(-2, 4), max_size=3),
            "priority": st.integers(-2_000, 2_000),
            "hint": st.dictionaries(
                st.sampled_from(["program", "more", "retain_ms", "size", "odd"]),
                st.booleans() | st.integers(),
            ),
            "top_logprobs_num": st.integers(0, 3),
        },
    ),
}


@st.composite
def requests(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A path and a body, in which sometimes one field is anything at all."""
    path = draw(st.sampled_from(PATHS))
    must, may = KNOWN[path]
    body = draw(st.fixed_dictionaries(must, optional=may))
    names = sorted({*must, *may, *PARAMS, *FIELDS, "rid", "best_of"} - {"max_tokens"})
    odd = draw(st.dictionaries(st.sampled_from(names), anything, max_size=1))
    return path, {**body, **odd}


@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(requests())
def test_no_body_is_ever_our_fault(server: LiveServer, request_: tuple[str, Any]) -> None:
    path, body = request_
    answer = server.http.post(path, content=json.dumps(body))  # NaN and all

    assert answer.status_code < 500, answer.text
    assert ('"error"' in answer.text) == (answer.status_code >= 400), answer.text
