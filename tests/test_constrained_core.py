"""Constrained and free requests side by side, cut short at any moment: each text is the right one,
and matches."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import pytest
from grammars import EOS, TABLE, TOKENS, Grammars, compiled, encode
from hypothesis import given, settings
from hypothesis import strategies as st
from test_core import Listener

from sglang_lite.errors import InvalidRequest
from sglang_lite.params import Constraint, SamplingParams
from sglang_lite.runtime.core import EngineCore
from sglang_lite.runtime.grammar.protocol import Matcher
from sglang_lite.runtime.scheduling.cache import PrefixCache
from sglang_lite.runtime.scheduling.intake import Limits
from sglang_lite.runtime.scheduling.scheduler import Scheduler
from sglang_lite.testing import START, FakeRunner, draw, extend
from sglang_lite.wire import FinishReason, Submit, pack

ALPHABET = range(len(TOKENS))
REGEXES = ["a*b", "(?:ab){3}c?", "abcabcabcabc", "a|ab|abc", "(?:a|b|c)*", "(?:\u00e9)+b", "c{2,4}"]


def make_core(
    tokens: int = 64, page_size: int = 1, *, jump: bool = True, delay: int = 0, **options: Any
) -> EngineCore:
    overlap = options.pop("overlap", False)
    limits = Limits(
        vocab_size=len(TOKENS),
        context_length=tokens,
        max_queued_requests=100,
        eos_token_ids=frozenset({EOS}),
    )
    scheduler = Scheduler(
        PrefixCache(tokens // page_size, page_size),
        limits,
        TOKENS,
        max_running=4,
        share_from=4,
        grammars=Grammars(delay),
        jump_forward=jump,
        **{"chunk": 8, **options},
    )
    return EngineCore(scheduler, FakeRunner(page_size, ALPHABET), overlap=overlap)


class Constrained(Listener):
    def __init__(self, core: EngineCore) -> None:
        super().__init__(core)
        self.regexes: dict[int, str | None] = {}

    def submit(self, prompt: list[int], client: bytes = b"c", **options: Any) -> int:
        id = len(self.prompts)
        regex = options.pop("regex", None)
        params = SamplingParams(**options)
        constraint = Constraint("regex", regex) if regex else None
        self.core.submit(client, Submit(id, pack(prompt), params, constraint))
        self.prompts[id], self.clients[id] = (prompt, params), client
        self.tokens[id], self.regexes[id] = [], regex
        return id

    def text(self, id: int) -> str:
        return b"".join(TOKENS[token] for token in self.tokens[id]).decode(errors="replace")


def stopped(out: list[int], params: SamplingParams) -> bool:
    """Whether a stop string ends within the last token, or it is EOS, if that may end it."""
    if len(out) < params.min_tokens:
        return False
    if out[-1:] == [EOS] and not params.ignore_eos:
        return True
    before = b"".join(TOKENS[token] for token in out[:-1])
    text = b"".join(TOKENS[token] for token in out)
    stops = (stop.encode() for stop in params.stop)
    return any(text.find(each, max(0, len(before) - len(each) + 1)) >= 0 for each in stops)


@dataclass
class Alone:
    """A request that is the only one, token after token."""

    prompt: list[int]
    params: SamplingParams
    matcher: Matcher | None
    most: int
    jump: bool
    out: list[int] = field(default_factory=list)

    def run(self) -> list[int]:
        if self.most <= 0 or self.grow([]):
            return self.out
        while len(self.out) < self.most:
            state = reduce(extend, [*self.prompt, *self.out], START)
            if self.grow([draw(state, ALPHABET, *self.may_draw())]):
                break
        return self.out

    def grow(self, drawn: list[int]) -> bool:
        """Take what was drawn and what it forces; whether that is the end."""
        tokens = drawn
        if self.matcher is not None and self.jump:
            tokens = self.matcher.jump_forward([*self.prompt, *self.out][-8:], *drawn)
        for token in tokens:
            assert self.matcher is None or self.matcher.advance(token)
            self.out.append(token)
            if len(self.out) >= self.most or stopped(self.out, self.params):
                return True
        return self.matcher is not None and self.matcher.must_stop()

    def may_draw(self) -> tuple[list[int], set[int] | None]:
        """What is banned, and what alone is allowed."""
        early = len(self.out) < self.params.min_tokens
        ending = {EOS} if self.params.ignore_eos or early else set[int]()
        if self.matcher is None:
            return [] if self.params.ignore_eos else sorted(ending), None
        only = {id for id in ALPHABET if self.matcher.validate([id])} - ending
        return [], only or {EOS}


def alone(
    prompt: list[int], params: SamplingParams, regex: str | None, context: int, jump: bool
) -> list[int]:
    """What the request gets if it is the only one."""
    matcher = compiled(regex).matcher() if regex else None
    most = min(params.max_tokens, context - len(prompt))
    return Alone(prompt, params, matcher, most, jump).run()


prompts = st.lists(st.integers(0, 2), min_size=1, max_size=12)
submits = st.fixed_dictionaries(
    {"prompt": prompts, "max_tokens": st.integers(0, 12)},
    optional={
        "regex": st.sampled_from(REGEXES),
        "min_tokens": st.integers(0, 3),
        "ignore_eos": st.booleans(),
        "stop": st.sampled_from([("bc",), ("ca", "bb")]),
        "frequency_penalty": st.just(0.5),
    },
)
events = st.lists(
    st.tuples(st.just("submit"), submits)
    | st.tuples(st.just("abort"), st.integers(0, 6))
    | st.tuples(st.just("step"), st.integers(1, 4))
    | st.tuples(st.just("drop"), st.sampled_from([b"d"])),
    max_size=20,
)


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("page_size", [1, 4])
@settings(max_examples=80, deadline=None)
@given(
    events=events,
    chunk=st.integers(1, 12),
    pool=st.sampled_from([32, 64]),
    jump=st.booleans(),
    delay=st.integers(0, 6),
)
def test_every_text_is_what_it_would_be_alone_and_matches(
    page_size: int,
    overlap: bool,
    events: list[tuple[str, Any]],
    chunk: int,
    pool: int,
    jump: bool,
    delay: int,
) -> None:
    core = make_core(pool, page_size, jump=jump, delay=delay, overlap=overlap, chunk=chunk)
    listener = Constrained(core)
    for kind, what in events:
        listener.live(kind, what)
    listener.run()

    assert listener.last.keys() == listener.clients.keys() - listener.failed.keys()
    assert not listener.failed
    for id, finish in listener.last.items():
        prompt, params = listener.prompts[id]
        regex = listener.regexes[id]
        want = alone(prompt, params, regex, pool, jump)
        if finish.reason is FinishReason.ABORT:
            assert listener.tokens[id] == want[: len(listener.tokens[id])]
            continue
        assert listener.tokens[id] == want
        if regex and finish.reason is FinishReason.STOP and not isinstance(finish.matched, str):
            text = listener.text(id)
            assert re.fullmatch(regex, text)
            assert finish.grammar == "outlines"
    assert not core.scheduler.cache.leases


@pytest.mark.parametrize("jump", [False, True])
def test_forced_tokens_are_taken_without_a_step_for_each(jump: bool) -> None:
    listener = Constrained(make_core(jump=jump))
    id = listener.submit([0, 2], regex="abcabcabcabc", max_tokens=20)
    listener.run()
    assert listener.text(id) == "abcabcabcabc"
    if jump:
        assert listener.tokens[id] == encode("abcabcabcabc")
        assert listener.last[id].fast_forwarded == 4
    assert listener.last[id].fast_forwarded == (4 if jump else 0)
    assert listener.core.scheduler.stats()["fast_forwarded_tokens"] == (4 if jump else 0)


def test_a_jump_leaves_the_last_token_to_the_model() -> None:
    """After "abcab" comes "c" or "b": the last token may be "ab" or "abc"."""
    listener = Constrained(make_core())
    id = listener.submit([2], regex="abcab(?:c|b)", max_tokens=20)
    listener.run()
    assert listener.last[id].fast_forwarded == 1
    assert listener.text(id) in ("abcabc", "abcabb")


def test_a_drawn_token_is_spelled_anew_with_what_it_forces() -> None:
    """ "a" and the "bc" it forces are one token of the vocabulary, and the text ends with it."""
    listener = Constrained(make_core())
    ids = [listener.submit([prompt], regex="abc|c", max_tokens=9) for prompt in (0, 1, 2)]
    listener.run()
    for id in ids:
        assert listener.tokens[id] in ([5], [2])
    listener = Constrained(make_core(jump=False))
    for prompt in (0, 1, 2, 3, 4):
        listener.submit([prompt], regex="abc|c", max_tokens=9)
    listener.run()
    assert any(len(tokens) > 1 for tokens in listener.tokens.values())


def test_a_stop_string_inside_forced_text_ends_the_request() -> None:
    listener = Constrained(make_core())
    id = listener.submit([0], regex="abcabcabcabc", max_tokens=20, stop=("ca",))
    listener.run()
    assert listener.last[id].matched == "ca"
    assert listener.text(id) == "abcabc"
    assert listener.last[id].cut == 4  # "cabc"


def test_max_tokens_ends_a_jump() -> None:
    listener = Constrained(make_core())
    id = listener.submit([0], regex="abcabcabcabc", max_tokens=3)
    listener.run()
    assert listener.last[id].reason is FinishReason.LENGTH
    assert len(listener.tokens[id]) == 3


def test_with_logprobs_every_token_is_drawn_and_has_one() -> None:
    core = make_core()
    listener = Constrained(core)
    id = listener.submit([0], regex="abcabcabcabc", max_tokens=20, logprobs=0)
    logprobs = 0
    while not core.idle:
        for output in core.step().values():
            logprobs += len(output.logprobs)
            listener.tokens[id] += output.tokens
            listener.last |= output.finishes
    assert logprobs == len(listener.tokens[id])
    assert listener.last[id].fast_forwarded == 0


def test_a_refused_grammar_fails_its_request_alone() -> None:
    listener = Constrained(make_core(delay=3))
    bad = listener.submit([0], regex="(?=a)b", max_tokens=4)
    good = listener.submit([0], max_tokens=4)
    listener.run()
    assert "regex" in listener.failed[bad]
    assert listener.last.keys() == {good}


def test_who_waits_for_a_grammar_holds_up_nobody() -> None:
    core = make_core(delay=10_000)
    listener = Constrained(core)
    waiting = listener.submit([0], regex="a*b", max_tokens=4)
    free = listener.submit([0], max_tokens=4)
    for _ in range(20):
        listener.step()
    assert free in listener.last
    assert waiting not in listener.last
    assert core.stalled
    assert not core.idle
    core.abort(b"c", waiting)
    listener.run()
    assert listener.last[waiting].reason is FinishReason.ABORT


def test_without_engines_a_constraint_is_refused() -> None:
    core = make_core()
    core.scheduler.compiling.source = None
    message = Submit(1, pack([0]), SamplingParams(), Constraint("regex", "a"))
    with pytest.raises(InvalidRequest, match="no grammar engine"):
        core.submit(b"c", message)


def test_special_tokens_are_in_no_mask() -> None:
    assert TABLE.eos == (EOS,)
    matcher = compiled("(?:a|b|c)*").matcher()
    assert [id for id in ALPHABET if matcher.validate([id])] == [0, 1, 2, 3, 4, 5, EOS, 9]
