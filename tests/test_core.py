"""Requests come, go and are cut short at any moment; every text is still the right one."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sglang_lite.errors import EngineFailed
from sglang_lite.params import Hint, SamplingParams
from sglang_lite.runtime.core import EngineCore
from sglang_lite.runtime.scheduling.cache import PrefixCache
from sglang_lite.runtime.scheduling.intake import Limits
from sglang_lite.runtime.scheduling.policy import POLICIES
from sglang_lite.runtime.scheduling.retention import RetentionLimits
from sglang_lite.runtime.scheduling.scheduler import Scheduler
from sglang_lite.testing import START, FakeRunner, draw, extend, score
from sglang_lite.wire import Finish, FinishReason, Submit, pack

VOCAB, EOS = 6, 5
BYTES = [b"a", b"b", b"c", b"d", b"e", b"."]


def make_core(
    page_size: int = 1,
    tokens: int = 32,
    *,
    chunk: int = 8,
    rows: int = 4,
    overlap: bool = False,
    policy: str = "lpm",
    fail_at: tuple[int, ...] = (),
    cached: bool = True,
    whole_only: bool = False,
    queue: int = 100,
    retention: RetentionLimits | None = None,
) -> EngineCore:
    pages = tokens // page_size
    limits = Limits(
        vocab_size=VOCAB,
        context_length=pages * page_size,
        max_queued_requests=queue,
        eos_token_ids=frozenset({EOS}),
    )
    scheduler = Scheduler(
        PrefixCache(pages, page_size, enabled=cached, whole_only=whole_only, retention=retention),
        limits,
        BYTES,
        policy=policy,
        chunk=chunk,
        max_running=rows,
        share_from=4,
    )
    runner = FakeRunner(page_size, range(VOCAB), fail_at=fail_at)
    return EngineCore(scheduler, runner, overlap=overlap)


class Listener:
    """Hears what a core says, and holds it to the rules of a conversation."""

    def __init__(self, core: EngineCore) -> None:
        self.core = core
        self.prompts: dict[int, tuple[list[int], SamplingParams]] = {}
        self.tokens: dict[int, list[int]] = {}
        self.scores: dict[int, list[float]] = {}
        self.last: dict[int, Finish] = {}
        self.failed: dict[int, str] = {}
        self.clients: dict[int, bytes] = {}
        self.scored: dict[int, int] = {}
        self.aborted: set[int] = set()

    def live(self, kind: str, what: Any) -> None:
        """One event of a random life."""
        if kind == "submit":
            self.submit(**what)
        elif kind == "abort" and what in self.clients:
            self.core.abort(self.clients[what], what)
            self.aborted.add(what)
        elif kind == "drop":
            self.core.drop(what)
            self.aborted |= {id for id, client in self.clients.items() if client == what}
        elif kind == "end":
            self.core.end_program(*what)
        elif kind == "step":
            for _ in range(what):
                self.step()

    def compare(self, id: int, context: int) -> None:
        """What a request got is what it would have got alone, or the beginning of it."""
        prompt, params = self.prompts[id]
        want = alone(prompt, params, context)
        if self.last[id].reason is FinishReason.ABORT:
            assert id in self.aborted
            assert self.tokens[id] == want[: len(self.tokens[id])]
            return
        assert self.tokens[id] == want
        if id in self.scored:
            expected = alone_scores(prompt, self.scored[id])
            assert self.scores.get(id, []) == pytest.approx(expected, abs=1e-6)

    def submit(self, prompt: list[int], client: bytes = b"c", **options: Any) -> int:
        id = len(self.prompts)
        logits_from = options.pop("logits_from", None)
        hint = options.pop("hint", None)
        params = SamplingParams(**options)
        message = Submit(id, pack(prompt), params, logits_from=logits_from, hint=hint)
        self.core.submit(client, message)
        self.prompts[id], self.clients[id] = (prompt, params), client
        if logits_from is not None:
            self.scored[id] = logits_from
        self.tokens[id] = []
        return id

    def step(self) -> None:
        outputs = self.core.step()
        self.core.check()
        for output in outputs.values():
            at = 0
            for id, count in zip(output.ids, output.counts, strict=True):
                assert id not in self.last, "nothing may follow the last word"
                self.tokens[id] += output.tokens[at : at + count]
                at += count
            for id, scores in output.scores.items():
                self.scores.setdefault(id, []).extend(scores)
            for id, finish in output.finishes.items():
                assert id not in self.last | self.failed
                self.last[id] = finish
            for id, _, reason, _ in output.failures:
                assert id not in self.last | self.failed
                self.failed[id] = reason

    def run(self, limit: int = 2000) -> None:
        for _ in range(limit):
            if self.core.idle:
                return
            self.step()
        raise AssertionError("the core does not come to rest")


def alone(prompt: list[int], params: SamplingParams, context: int) -> list[int]:
    """What the request would get if it were the only one."""
    state = START
    for token in prompt:
        state = extend(state, token)
    text: list[int] = []
    while len(text) < params.max_tokens and len(prompt) + len(text) < context:
        banned = [EOS] if len(text) < params.min_tokens and not params.ignore_eos else []
        text.append(draw(state, range(VOCAB), banned))
        state = extend(state, text[-1])
        if text[-1] == EOS and not params.ignore_eos:
            break
        joined = b"".join(BYTES[token] for token in text).decode()
        if len(text) >= params.min_tokens and any(joined.endswith(s) for s in params.stop):
            break
    return text


def alone_scores(prompt: list[int], logits_from: int) -> list[float]:
    state, scores = START, []
    for position, token in enumerate(prompt):
        if position >= max(1, logits_from):
            scores.append(score(state, token))
        state = extend(state, token)
    return scores


prompts = st.lists(st.integers(0, 1), min_size=1, max_size=20)
hints = st.builds(
    Hint,
    program=st.integers(0, 2),
    group=st.integers(0, 2),
    more=st.booleans(),
    retain_ms=st.sampled_from([0, 2_000]),
    steps_to_next=st.integers(0, 2),
    priority=st.integers(-1, 1),
)
submits = st.fixed_dictionaries(
    {"prompt": prompts, "max_tokens": st.integers(0, 8)},
    optional={
        "min_tokens": st.integers(0, 4),
        "ignore_eos": st.booleans(),
        "stop": st.sampled_from([("a",), ("ab", "c")]),
        "logits_from": st.integers(0, 1),
        "client": st.sampled_from([b"c", b"d"]),
        "hint": hints,
    },
)
events = st.lists(
    st.tuples(st.just("submit"), submits)
    | st.tuples(st.just("abort"), st.integers(0, 6))
    | st.tuples(st.just("step"), st.integers(1, 4))
    | st.tuples(st.just("drop"), st.sampled_from([b"d"]))
    | st.tuples(st.just("end"), st.tuples(st.sampled_from([b"c", b"d"]), st.integers(0, 2))),
    max_size=25,
)


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("page_size", [1, 4, 16])
@settings(max_examples=120, deadline=None)
@given(
    events=events,
    chunk=st.integers(1, 12),
    pool=st.sampled_from([32, 48]),
    policy=st.sampled_from(sorted(POLICIES)),
    cache=st.sampled_from(["tree", "table", "none"]),
    share=st.sampled_from([0.5, 1.0]),
)
def test_every_text_is_what_it_would_be_alone(
    page_size: int,
    overlap: bool,
    events: list[tuple[str, Any]],
    chunk: int,
    pool: int,
    policy: str,
    cache: str,
    share: float,
) -> None:
    times = itertools.count()  # a second passes at each look
    core = make_core(
        page_size,
        pool,
        chunk=chunk,
        overlap=overlap,
        policy=policy,
        cached=cache != "none",
        whole_only=cache == "table",
        retention=RetentionLimits(share=share, seconds=5.0, clock=lambda: float(next(times))),
    )
    listener = Listener(core)
    for kind, what in events:
        listener.live(kind, what)
    listener.run()

    silent = {id for id in listener.aborted if listener.clients[id] == b"d"}
    assert listener.last.keys() | silent == listener.clients.keys(), "everyone gets a last word"
    assert not listener.failed
    for id in listener.last:
        listener.compare(id, pool)
    assert not core.scheduler.cache.leases, "all pages are given back"
    if not any("logits_from" in what for kind, what in events if kind == "submit"):
        assert core.scheduler.counters["duplicate_prefill_tokens"] == 0


@pytest.mark.parametrize("overlap", [False, True])
@settings(max_examples=100, deadline=None)
@given(
    waves=st.lists(st.lists(prompts, min_size=1, max_size=4), min_size=2, max_size=3),
    fail_at=st.integers(1, 12),
    page_size=st.sampled_from([1, 4]),
)
def test_a_failed_launch_fails_its_rows_and_the_engine_goes_on(
    overlap: bool, waves: list[list[list[int]]], fail_at: int, page_size: int
) -> None:
    core = make_core(page_size, 48, overlap=overlap, fail_at=(fail_at,))
    listener = Listener(core)
    for wave in waves:
        for prompt in wave:
            listener.submit(prompt, max_tokens=6)
        for _ in range(3):
            listener.step()
    listener.run()
    assert listener.last.keys() | listener.failed.keys() == listener.prompts.keys()
    for id in listener.last:
        prompt, params = listener.prompts[id]
        assert listener.tokens[id] == alone(prompt, params, 48)
    for reason in listener.failed.values():
        assert "told to fail" in reason


@pytest.mark.parametrize("overlap", [False, True])
def test_two_failed_launches_in_a_row_end_the_engine(overlap: bool) -> None:
    core = make_core(overlap=overlap, fail_at=(1, 2))
    listener = Listener(core)
    for _ in range(6):  # more than there are rows
        listener.submit([0, 1, 1], max_tokens=6)
    with pytest.raises(EngineFailed, match=r"two forward passes.*told to fail"):
        listener.run()


def test_what_a_program_waits_for_is_there_when_it_goes_on() -> None:
    def found(more: bool) -> int:
        core = make_core(tokens=32)
        listener = Listener(core)
        text = [0, 1] * 7
        listener.submit(text, max_tokens=0, hint=Hint(program=1, more=more))
        listener.run()
        for other in range(1, 4):
            listener.submit([other + 1] * 14, max_tokens=0)
            listener.run()
        last = listener.submit([*text, 1, 1], max_tokens=0, hint=Hint(program=1, step=1))
        listener.run()
        assert core.stats()["pages_retained"] == 0
        return listener.last[last].cached_tokens

    assert (found(False), found(True)) == (0, 14)


@pytest.mark.parametrize("outcome", ["abort", "drop", "end", "flush"])
def test_nothing_is_retained_for_who_is_gone(outcome: str) -> None:
    core = make_core()
    listener = Listener(core)
    listener.submit([0, 1, 1], max_tokens=2, hint=Hint(program=7, more=True))
    if outcome == "abort":
        listener.step()
        core.abort(b"c", 0)
    listener.run()
    assert core.stats()["pages_retained"] == (0 if outcome == "abort" else 4)
    if outcome == "drop":
        core.drop(b"c")
    elif outcome == "end":
        core.end_program(b"c", 7)
    elif outcome == "flush":
        core.flush()
    assert core.stats()["pages_retained"] == 0
    core.check()


def test_retention_ends_with_its_time_at_the_next_plan() -> None:
    now = 0.0
    core = make_core(retention=RetentionLimits(clock=lambda: now))
    listener = Listener(core)
    listener.submit([0, 1, 1], max_tokens=0, hint=Hint(program=1, more=True, retain_ms=500))
    listener.run()
    assert core.stats()["pages_retained"] == 3
    now = 0.5
    listener.submit([1], max_tokens=0)
    listener.run()
    assert core.stats()["pages_retained"] == 0


def test_a_retracted_request_has_not_ended() -> None:
    core = make_core(tokens=32, rows=8)
    listener = Listener(core)
    for first in range(4):
        prompt = [first, 0, 1, 1, 0, 1]
        listener.submit(prompt, max_tokens=20, ignore_eos=True, hint=Hint(program=1, more=True))
    while not core.stats()["retractions"]:
        listener.step()
        assert core.stats()["finished"] == core.stats()["pages_retained"] == 0
    listener.run()


@pytest.mark.parametrize("page_size", [1, 4])
def test_a_table_shares_nothing_with_who_is_still_here(page_size: int) -> None:
    core = make_core(page_size, 64, chunk=64, whole_only=True)
    listener = Listener(core)
    for _ in range(3):
        listener.submit([1] * 6, max_tokens=2)
    listener.run()
    assert [listener.last[id].cached_tokens for id in range(3)] == [0, 0, 0]
    last = listener.submit([1] * 6 + listener.tokens[0] + [1], max_tokens=0)
    other = listener.submit([1] * 3 + [2] * 3, max_tokens=0)
    listener.run()
    assert listener.last[last].cached_tokens == 7 // page_size * page_size
    assert listener.last[other].cached_tokens == 0


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_a_fork_computes_what_its_branches_share_once(policy: str) -> None:
    core = make_core(4, 400, rows=8, policy=policy)
    listener = Listener(core)
    for branch in range(6):
        listener.submit([1] * 13 + [2, branch % 2], max_tokens=3, hint=Hint(program=1, group=1))
        listener.submit([branch % 2, 3] * 4, max_tokens=3)
    listener.run()
    assert core.scheduler.counters["duplicate_prefill_tokens"] == 0
    assert core.scheduler.counters["cached_tokens"] >= 5 * 12
