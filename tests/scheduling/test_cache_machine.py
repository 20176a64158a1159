"""The page cache against the simplest truth: any calls, in any order, at any time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from sglang_lite.params import Hint
from sglang_lite.runtime.scheduling.cache import Lease, PrefixCache
from sglang_lite.runtime.scheduling.retention import RetentionLimits

PAGES = 12
texts = st.lists(st.integers(0, 1), min_size=1, max_size=12)
spaces = st.sampled_from(["", "a"])
clients = st.sampled_from([b"c", b"d"])
hints = st.builds(
    Hint,
    program=st.integers(0, 2),
    group=st.integers(0, 1),
    more=st.booleans(),
    retain_ms=st.sampled_from([0, 1_000, 9_000]),
    steps_to_next=st.integers(0, 2),
)


class CacheMachine(RuleBasedStateMachine):
    """`holds` is the truth: which text was written up to each page, and for whom."""

    page_size = 1

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        limits = RetentionLimits(seconds=5.0, clock=lambda: self.now)
        self.cache = PrefixCache(PAGES, self.page_size, retention=limits)
        self.running: list[tuple[Lease, np.ndarray, int]] = []
        self.holds: dict[int, tuple[str, bytes]] = {}
        self.seq = 0

    def prefixes(self, space: str, text: np.ndarray) -> list[tuple[str, bytes]]:
        ends = range(self.page_size, len(text) + 1, self.page_size)
        return [(space, text[:end].tobytes()) for end in ends]

    def cached(self) -> set[tuple[str, bytes]]:
        return {self.holds[page] for node in self.cache.tree for page in node.pages.tolist()}

    @rule(tokens=texts, space=spaces)
    def start(self, tokens: list[int], space: str) -> None:
        """A prompt is looked up, computed whole, and published at once."""
        text = np.array(tokens, np.int32)
        self.seq += 1
        known, wanted = self.cached(), self.prefixes(space, text)
        assert self.cache.peek(text, space) == self.page_size * sum(p in known for p in wanted)

        lease = self.cache.acquire(text, space)

        assert [self.holds[p] for p in lease.pages.tolist()] == [p for p in wanted if p in known]
        if self.cache.extend(lease, len(wanted) - lease.count):
            self.holds |= dict(zip(lease.pages.tolist(), wanted, strict=True))
            self.cache.publish(lease, text, self.seq)
            self.running.append((lease, text, self.seq))
        else:
            self.cache.release(lease)

    @rule(data=st.data(), more=texts)
    def grow(self, data: st.DataObject, more: list[int]) -> None:
        """A running text grows; the new pages may turn out to be in the tree already."""
        if not self.running:
            return
        at = data.draw(st.integers(0, len(self.running) - 1))
        lease, text, _ = self.running[at]
        longer = np.concatenate((text, np.array(more, np.int32)))
        wanted = self.prefixes(lease.namespace, longer)
        if self.cache.extend(lease, len(wanted) - lease.count):
            self.seq += 1
            fresh = zip(lease.pages[lease.shared :].tolist(), wanted[lease.shared :], strict=True)
            self.holds |= dict(fresh)
            self.cache.publish(lease, longer, self.seq)
            self.running[at] = lease, longer, self.seq
            assert [self.holds[page] for page in lease.pages.tolist()] == wanted

    @rule(data=st.data(), times=st.integers(1, 2), hint=hints, client=clients)
    def end(self, data: st.DataObject, times: int, hint: Hint, client: bytes) -> None:
        """Finish, or finish and then hear of an abort that was already on its way."""
        if self.running:
            lease, *_ = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
            self.cache.retention.note(client, hint, lease.node)
            for _ in range(times):
                self.cache.release(lease)

    @rule(tokens=texts, space=spaces)
    def borrow(self, tokens: list[int], space: str) -> None:
        """A copied slot comes from a page that agrees with the text up to it."""
        text = np.array(tokens, np.int32)
        lease = self.cache.acquire(text, space)
        if self.cache.extend(lease, 1):
            first = lease.shared * self.page_size
            source, target = self.cache.borrow(lease, text, first)
            for offset, (out, into) in enumerate(zip(source, target, strict=True)):
                held = np.frombuffer(self.holds[int(out) // self.page_size][1], np.int32)
                assert int(out) % self.page_size == offset
                assert into == lease.pages[lease.shared] * self.page_size + offset
                end = first + offset + 1
                assert np.array_equal(held[:end], text[:end])
        self.cache.settle()
        self.cache.release(lease)

    @rule(back=st.integers(0, 3))
    def fail(self, back: int) -> None:
        """Batches from `since` on failed: their readers go, and so does what they filled."""
        since = max(1, self.seq - back)
        kept = []
        for lease, text, seq in self.running:
            filled = any(node.filled >= since for node in lease.node.ancestry())
            if filled:
                self.cache.release(lease)
            else:
                kept.append((lease, text, seq))
        self.running = kept
        self.cache.drop(since)
        assert all(node.filled < since for node in self.cache.tree)

    @rule(client=clients, program=st.none() | st.integers(0, 2))
    def end_program(self, client: bytes, program: int | None) -> None:
        self.cache.retention.end(client, program)
        for node in self.cache.tree:
            for branch in node.marks:
                assert branch.client != client or program not in (None, branch.program)

    @rule(seconds=st.integers(1, 6))
    def wait(self, seconds: int) -> None:
        self.now += seconds
        self.cache.retention.lapse()
        marks = [mark for node in self.cache.tree for mark in node.marks.values()]
        assert all(self.now < mark.until <= self.now + 5.0 for mark in marks)

    @rule()
    def flush(self) -> None:
        self.cache.flush()
        assert self.cache.tree.evictable == 0

    @rule(pages=st.integers(1, PAGES))
    def allocate(self, pages: int) -> None:
        """Whatever is retained, every page that no lease reads can be had."""
        lease = Lease("", self.cache.tree.root)
        self.cache.leases.add(lease)
        assert self.cache.extend(lease, pages) == (lease.count == pages)
        assert lease.count or pages > self.cache.available
        self.cache.release(lease)

    @invariant()
    def every_page_has_one_owner(self) -> None:
        self.cache.check()
        for lease, text, _ in self.running:
            wanted = self.prefixes(lease.namespace, text)
            assert [self.holds[page] for page in lease.pages.tolist()] == wanted


@pytest.mark.parametrize("page_size", [1, 2, 3])
def test_any_sequence_of_calls_keeps_every_page(page_size: int) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    machine = type("Machine", (CacheMachine,), {"page_size": page_size})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=150, stateful_step_count=30, deadline=None)
    )
