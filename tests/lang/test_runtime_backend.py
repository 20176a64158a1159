"""Programs on a real runtime process with a made-up model: ids, sharing, deaths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import sglang_lite as sgl
from sglang_lite.lang.backends.encoder import Encoder
from sglang_lite.lang.model_template import ModelTemplate
from sglang_lite.lang.prompt import Generated, Prompt
from sglang_lite.lang.templates import Opening
from sglang_lite.testing import ByteTokenizer

FAKE = "sglang_lite.testing:fake_core"


@pytest.fixture(scope="module")
def runtime() -> Iterator[sgl.Runtime]:
    with sgl.Runtime("fake?eos=0", core=FAKE) as runtime:
        runtime.prompts = []
        yield runtime


@sgl.function
def judge(s: Any, essay: str) -> None:
    s += "You grade essays.\n" + essay
    group = s.fork(4)
    group += lambda i: f"\naspect {i}: "
    group += sgl.gen("grade", max_tokens=4)
    group.join()
    s += "\nsummary: " + sgl.gen("summary", max_tokens=6)


def test_a_judge_shares_its_prefix(runtime: sgl.Runtime) -> None:
    essay = "words " * 40
    before = runtime.get_server_info()
    state = judge.run(essay=essay, backend=runtime)
    assert len(state["grade"]) == 4
    assert all(len(grade) == 4 for grade in state["grade"])
    assert len(state["summary"]) == 6
    after = runtime.get_server_info()
    prompts = [tuple(ids) for ids in runtime.prompts or []][-5:]
    distinct = {ids[: end + 1] for ids in prompts for end in range(len(ids))}
    computed = after["computed_prompt_tokens"] - before["computed_prompt_tokens"]
    assert computed == len(distinct)
    assert state.usage["cached_tokens"] == sum(map(len, prompts)) - computed


def test_generated_ids_come_back_as_they_were(runtime: sgl.Runtime) -> None:
    """The second gen's prompt is the first one's, its ids, and the literal: and it is cached."""

    @sgl.function
    def program(s: Any) -> None:
        s += "Once" + sgl.gen("a", max_tokens=40, temperature=0)
        s += " and " + sgl.gen("b", max_tokens=3, temperature=0)

    state = program.run(backend=runtime)
    text = state.text()
    first, second = (runtime.prompts or [])[-2:]
    assert bytes(second[1:]).decode() == text[: len(text) - 3]
    assert second[: len(first)] == first
    cached = state.get_meta_info("b")["cached_tokens"]
    assert cached >= len(first) + 39


def test_stops_and_the_text_after_them(runtime: sgl.Runtime) -> None:
    @sgl.function
    def program(s: Any, stop: str) -> None:
        s += "Once" + sgl.gen("a", max_tokens=40, temperature=0, stop=stop) + "|"

    whole = program.run(stop="\n", backend=runtime)["a"]
    stop = whole[10:13]
    state = program.run(stop=stop, backend=runtime)
    assert state["a"] == whole[: whole.index(stop)]
    assert state.text() == "Once" + state["a"] + "|"


def test_select_scores_only_the_options_tokens(runtime: sgl.Runtime) -> None:
    from sglang_lite.testing import START, extend, score

    @sgl.function
    def program(s: Any) -> None:
        s += "Is it? " + sgl.select("a", ["yes", "no", "perhaps"])

    state = program.run(backend=runtime)
    base = START
    for token in ByteTokenizer().encode("Is it? "):
        base = extend(base, token)
    expected = []
    for option in ("yes", "no", "perhaps"):
        at, row = base, []
        for byte in option.encode():
            row.append(score(at, byte))
            at = extend(at, byte)
        expected.append(sum(row) / len(row))
    meta = state.get_meta_info("a")
    assert meta["normalized_prompt_logprobs"] == pytest.approx(expected, abs=1e-6)
    best = max(range(3), key=expected.__getitem__)
    assert state["a"] == ["yes", "no", "perhaps"][best]


def test_streaming_gives_pieces_and_the_whole(runtime: sgl.Runtime) -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += "Go" + sgl.gen("x", max_tokens=20)

    state = program.run(backend=runtime, stream=True, seed=3)
    pieces = list(state.text_iter("x"))
    assert len(pieces) > 5
    assert "".join(pieces) == state["x"]


def test_samples_differ_by_seed_and_share_the_prompt(runtime: sgl.Runtime) -> None:
    @sgl.function
    def program(s: Any) -> None:
        s += "Say" + sgl.gen("x", n=3, max_tokens=4)

    state = program.run(backend=runtime)
    assert len(state["x"]) == 3
    assert state.get_meta_info("x")["completion_tokens"] == 12


def test_an_engine_is_a_backend() -> None:
    with sgl.Engine("fake?eos=0", core=FAKE) as engine:
        state = judge.run(essay="short", backend=engine)
        assert len(state["summary"]) == 6


def test_an_endpoint_reaches_a_runtime_that_runs_already(runtime: sgl.Runtime) -> None:
    endpoint = sgl.RuntimeEndpoint(runtime.address)
    state = judge.run(essay="short", backend=endpoint)
    assert len(state["summary"]) == 6


def test_a_killed_runtime_is_an_error_for_each_program() -> None:
    runtime = sgl.Runtime("fake?eos=0&delay=0.02", core=FAKE)

    @sgl.function
    def program(s: Any, q: str) -> None:
        s += q + sgl.gen("x", max_tokens=3000)

    states = [program.run(q=str(i), backend=runtime) for i in range(3)]
    next(states[0].text_iter("x"))
    runtime._worker.process.kill()
    for state in states:
        error = state.error()
        assert isinstance(error, sgl.ProgramError)
        assert isinstance(error.__cause__, sgl.RuntimeUnavailable)
    runtime.shutdown()


class Pairs:
    """A tokenizer that would encode generated text in another way than it was generated."""

    add_bos, bos_token_id = True, 999

    def encode(self, text: str, *, add_bos: bool = True) -> list[int]:
        pairs = [text[i : i + 2] for i in range(0, len(text), 2)]
        return [999] * add_bos + [sum(map(ord, pair)) for pair in pairs]


def test_generated_text_is_never_encoded_again() -> None:
    encode = Encoder(Pairs())
    prompt = Prompt().add("ab").add("cd").add(Generated("xyz", (1, 2, 3))).add("!")
    assert encode(prompt) == [999, ord("a") + ord("b"), ord("c") + ord("d"), 1, 2, 3, ord("!")]


def test_the_kept_bytes_of_a_cut_token_join_the_next_literal() -> None:
    encode = Encoder(Pairs())
    prompt = Prompt().add("ab").add(Generated("xy", (1,), b"y"))
    assert encode(prompt)[-1] == ord("y")
    assert encode(prompt.add("z"))[-1] == ord("y") + ord("z")


def test_a_template_that_rewrites_the_past_is_followed_afresh() -> None:
    seen = []

    def render(messages: list[dict[str, Any]], add_generation_prompt: bool = False) -> str:
        body = "".join(f"[{m['role']}:{m['content']}]" for m in messages)
        return f"{len(messages)} turns " + body + ("[assistant:" if add_generation_prompt else "")

    template = ModelTemplate(render, lambda before, after: seen.append((before, after)))
    opening = template.begin([], "user", "")
    assert opening == Opening("1 turns [user:")
    messages = [{"role": "user", "content": "hi"}]
    assert template.end(messages, "user") == "]"
    again = template.begin(messages, "user", "1 turns [user:hi]")
    assert again == Opening("2 turns [user:hi][user:", afresh=True)
    assert seen == [("1 turns [user:hi]", "2 turns [user:hi][user:")]
