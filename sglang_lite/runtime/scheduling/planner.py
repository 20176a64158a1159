"""Who computes what in the next forward pass, and which pages that takes.

Decoding rows come first, one token each, or a few where a grammar forced some; then prompts share
what is left of the token budget, in the order of their admission, each to its end; then waiting
requests are admitted. When pages run out the youngest row goes back to wait (it is *retracted*):
its KV stays cached as long as there is room, and its text is the same as if nothing had happened.
"""

from __future__ import annotations

import heapq
from itertools import count

from sglang_lite.runtime.scheduling.assemble import Row
from sglang_lite.runtime.scheduling.batch import Int
from sglang_lite.runtime.scheduling.cache import PrefixCache
from sglang_lite.runtime.scheduling.estimate import Estimate
from sglang_lite.runtime.scheduling.queues import PATIENCE, Queues
from sglang_lite.runtime.scheduling.request import Request

PUBLISH_EVERY = 16  # generated tokens enter the tree in blocks of at least this many
MISFITS = 8  # requests tried in vain before admission rests until the next plan


class Planner:
    def __init__(
        self, cache: PrefixCache, queues: Queues, counters: dict[str, int], chunk: int, rows: int
    ) -> None:
        self.cache, self.queues, self.counters, self.chunk = cache, queues, counters, chunk
        self.running: list[Request] = []  # in the order of admission
        self.retracted: list[tuple[int, Request]] = []  # a heap, the first to arrive on top
        self.estimate = Estimate(cache.page_size)
        self.seq = 0  # of the latest plan
        self._slots = list(range(rows - 1, -1, -1))
        self._admissions = count(1)
        self._rows: list[Row] = []
        self._copies: list[tuple[Int, Int]] = []

    def plan(self) -> tuple[list[Row], list[tuple[Int, Int]]]:
        """The rows to compute, and the KV slots to copy."""
        self.seq += 1
        self.cache.retention.lapse()
        self._rows, self._copies = [], []
        before = self.counters["retractions"]
        for request in list(self.running):
            # Where a request stands in its grammar is known once its last draw is.
            known = request.matcher is None or not request.in_flight
            if request.lease and request.decoding and request.left > 0 and known:
                self._decode(request)
        decoding = sum(row.length for row in self._rows)
        budget = max(self.chunk - decoding, self.chunk // 8, 1)
        for request in list(self.running):
            if request.lease and not request.decoding and request.computed < request.target:
                budget -= self._prefill(request, budget)
        if self.counters["retractions"] == before:
            self._admit(budget)
            self.estimate.relax()
        self.cache.settle()
        return self._rows, self._copies

    def retract(self, request: Request, *, publish: bool = True) -> None:
        """Send a running request back to wait."""
        self.leave(request, publish=publish)
        request.computed, request.fresh = 0, True
        request.retractions += 1
        self.counters["retractions"] += 1
        self.estimate.tighten()
        heapq.heappush(self.retracted, (request.arrival, request))

    def leave(self, request: Request, *, publish: bool) -> None:
        """Take a request out, wherever it is; `publish` keeps what it computed in the cache."""
        if request.lease is not None:
            if publish:
                self._publish(request, leaving=True)
            if publish and request.ended:
                self.cache.retention.note(request.key[0], request.hint, request.lease.node)
            self.cache.release(request.lease)
            self._slots.append(request.slot)
            self.running.remove(request)
            request.lease, request.slot = None, -1
        elif request.retractions:
            self.retracted = [entry for entry in self.retracted if entry[1] is not request]
            heapq.heapify(self.retracted)
        else:
            self.queues.remove(request)

    def check(self) -> None:
        self.cache.check()
        assert {r.lease for r in self.running} == self.cache.leases, "a lease without a row"
        slots = [r.slot for r in self.running] + self._slots
        assert len(set(slots)) == len(slots), "a slot is taken twice"

    # -------------------------------------------------------------- rows

    def _decode(self, request: Request) -> None:
        lease = request.lease
        assert lease is not None
        length = request.target - request.computed  # the last draw, and what it forced
        wanted = self._pages(request.target) - lease.count
        while not self.cache.extend(lease, wanted):
            # Rows are visited in the order of admission: the youngest has no row in this plan.
            youngest = self.running[-1]
            self.retract(youngest)
            if youngest is request:
                return
        self._rows.append(Row(request, request.computed, length, draws=True))
        request.computed += length
        self.counters["computed_decode_tokens"] += length
        size = self.cache.page_size
        if (request.written // size - lease.shared) * size >= PUBLISH_EVERY:
            self._publish(request)

    def _prefill(self, request: Request, budget: int) -> int:
        """Plan a chunk of the request's prompt; return how many tokens it computes."""
        lease = request.lease
        assert lease is not None
        start, reusable = request.computed, request.reusable
        if start < reusable:
            cached = self.cache.advance(lease, request.tokens)
            request.computed = max(start, min(cached, reusable))
        length = self._affordable(request, min(budget, request.target - request.computed))
        if length > 0 and request.computed < reusable:
            wanted = request.tokens[:reusable]
            source, target = self.cache.borrow(lease, wanted, request.computed)
            self._copies.append((source, target))
            request.computed += len(source)
            room = lease.count * self.cache.page_size - request.computed
            length = min(length, request.target - request.computed, room)
        self._found(request, start)
        if length <= 0:
            return 0
        row = Row(request, request.computed, length, draws=False)
        row.draws = request.left > 0 and row.end == request.target
        row.score_at = max(0, request.score_from - 1 - row.start)
        row.scored = max(0, min(row.end, request.prompt_length - 1) - row.start - row.score_at)
        request.score_from = max(request.score_from, min(row.end + 1, request.prompt_length))
        request.computed = row.end
        self.counters["computed_prompt_tokens"] += length
        self.counters["duplicate_prefill_tokens"] += self._duplicates(row, reusable)
        self._publish(request)
        self._rows.append(row)
        return length

    def _duplicates(self, row: Row, reusable: int) -> int:
        """Tokens of the row that the tree holds already, though no logits of theirs are wanted."""
        request = row.request
        cached = self.cache.peek(request.tokens[: min(row.end, reusable)], request.namespace)
        return max(0, cached - row.start)

    def _affordable(self, request: Request, length: int) -> int:
        """How many of `length` tokens there are pages for; younger prompts make way for one."""
        lease, size = request.lease, self.cache.page_size
        assert lease is not None
        if length <= 0:
            return 0
        room = lease.count * size - request.computed
        length = min(length, max(1, room + self.cache.available * size))
        while not self.cache.extend(lease, self._pages(request.computed + length) - lease.count):
            youngest = self.running[-1]
            if youngest is request or youngest.decoding:  # decoding: it has a row in this plan
                return 0
            self.retract(youngest)
        return length

    def _publish(self, request: Request, *, leaving: bool = False) -> None:
        assert request.lease is not None
        text = request.ids[: request.written]
        self.cache.publish(request.lease, text, self.seq, leaving=leaving)

    def _found(self, request: Request, start: int) -> None:
        """Count what was found in the cache, from `start` on, as far as it is prompt."""
        found = min(request.computed, request.prompt_length) - start
        if found > 0 and not request.retractions:
            request.cached_tokens += found
            self.counters["cached_tokens"] += found

    def _pages(self, tokens: int) -> int:
        return -(-tokens // self.cache.page_size)

    # -------------------------------------------------------------- admission

    def _admit(self, budget: int) -> None:
        while self.retracted and budget > 0 and self._slots:
            request = self.retracted[0][1]
            if request.in_flight or not self._enter(request, full=True):
                return  # they were here before all that wait
            heapq.heappop(self.retracted)
            budget -= self._prefill(request, budget)
        if budget <= 0 or not self._slots:
            return  # and look at no queue: that costs a lookup for each of its oldest
        misfits = 0
        for request in self.queues.turns(lambda r: self.cache.peek(r.tokens, r.namespace)):
            if budget <= 0 or not self._slots or misfits >= MISFITS:
                break
            if not self._enter(request):
                misfits += 1
                if request.passes >= PATIENCE:
                    break
                continue
            self.queues.remove(request)
            budget -= self._prefill(request, budget)

    def _enter(self, request: Request, *, full: bool = False) -> bool:
        """Make a waiting request a running one if its estimate fits beside theirs."""
        lease = self.cache.acquire(request.tokens, request.namespace)
        needed = self.estimate.pages(request, lease.count, full=full)
        if self.running and needed + self.estimate.reserved(self.running) > self.cache.available:
            self.cache.release(lease)
            return False
        request.lease, request.slot = lease, self._slots.pop()
        request.admission = next(self._admissions)
        request.computed = min(lease.foreign, request.reusable)
        self._found(request, 0)
        self.running.append(request)
        return True
