"""From submitted requests to batches, and from a batch's results to words for clients.

`plan` makes a batch, `commit` reads its results, `fail` is told that there are none. A request
ends in one function, `_leave`, and gets exactly one last word: a finish or a failure.

No torch, no socket and no clock: a test steps it by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from sglang_lite.errors import InvalidRequest, Overloaded, RequestFailed, SglangLiteError
from sglang_lite.runtime.grammar.protocol import GrammarSource
from sglang_lite.runtime.scheduling.assemble import Plan, assemble
from sglang_lite.runtime.scheduling.batch import Sampled
from sglang_lite.runtime.scheduling.cache import PrefixCache
from sglang_lite.runtime.scheduling.commit import finish_after, report_scores, report_token
from sglang_lite.runtime.scheduling.compiling import Compiling
from sglang_lite.runtime.scheduling.constrain import Masks, following, stuck
from sglang_lite.runtime.scheduling.intake import Limits, accept
from sglang_lite.runtime.scheduling.layout import SHARE_FROM
from sglang_lite.runtime.scheduling.output import Outbox
from sglang_lite.runtime.scheduling.planner import Planner
from sglang_lite.runtime.scheduling.queues import Queues
from sglang_lite.runtime.scheduling.request import Key, Request
from sglang_lite.wire import Finish, FinishReason, Submit

COUNTERS = (
    "cached_tokens",
    "computed_prompt_tokens",
    "computed_decode_tokens",
    "duplicate_prefill_tokens",
    "fast_forwarded_tokens",
    "retractions",
    "finished",
    "aborted",
    "refused",
    "failed",
)


class Scheduler:
    def __init__(
        self,
        cache: PrefixCache,
        limits: Limits,
        token_bytes: Sequence[bytes],
        *,
        policy: str = "lpm",
        chunk: int = 512,
        max_running: int = 64,
        share_from: int | None = SHARE_FROM,
        grammars: GrammarSource | None = None,
        jump_forward: bool = True,
    ) -> None:
        self.cache, self.limits, self.token_bytes = cache, limits, token_bytes
        self.share_from = share_from
        self.queues = Queues(policy)
        self.counters = dict.fromkeys(COUNTERS, 0)
        self.planner = Planner(cache, self.queues, self.counters, chunk, max_running)
        self.compiling = Compiling(grammars)
        self.jump_forward = jump_forward
        self.masks = Masks(max_running, limits.vocab_size)
        self.outbox = Outbox()
        self.requests: dict[Key, Request] = {}
        self._arrivals = count(1)

    # -------------------------------------------------------------- from clients

    def submit(self, key: Key, message: Submit) -> None:
        """Queue a request.

        Raises:
            InvalidRequest: it can never run; the message says why, with value and limit.
            Overloaded: a queue is full.
        """
        if key in self.requests:
            raise InvalidRequest(f"id {message.id} is in use by another request of this client.")
        waiting = len(self.queues) + len(self.compiling)
        if waiting >= self.limits.max_queued_requests:
            raise Overloaded(
                f"{waiting} requests wait and at most {self.limits.max_queued_requests} "
                "may (--max-queued-requests); try again later."
            )
        request = accept(key, message, self.limits, next(self._arrivals))
        if message.constraint is not None:
            self.compiling.add(request, message.constraint)
        else:
            self.queues.add(request)
        self.requests[key] = request

    def abort(self, key: Key) -> None:
        """End a request as aborted; an unknown one has ended already."""
        if request := self.requests.get(key):
            self._end(request, Finish(FinishReason.ABORT))

    def drop(self, client: bytes) -> None:
        """End all requests of a client that is gone; nothing is said to it any more."""
        for key in [key for key in self.requests if key[0] == client]:
            self.abort(key)
        self.cache.retention.end(client)
        self.outbox.forget(client)

    # -------------------------------------------------------------- a step

    def plan(self) -> Plan | None:
        """Choose what to compute next; None: nothing, until the next commit or submit, or until a
        grammar has been compiled."""
        if self.compiling:
            self._take_grammars()
        rows, copies = self.planner.plan()
        if not rows:
            return None
        plan = assemble(
            self.planner.seq,
            rows,
            copies,
            page_size=self.cache.page_size,
            share_from=self.share_from,
            masks=self.masks,
        )
        for request in plan.draws:
            request.in_flight += 1
            request.fresh = False
        return plan

    def commit(self, plan: Plan, sampled: Sampled) -> None:
        """Take the results of a batch: scores, tokens, and who is at an end."""
        at = 0
        for row in plan.scored:
            if not row.request.ended:
                report_scores(self.outbox, row, sampled, at)
            at += row.scored
        for index, request in enumerate(plan.draws):
            request.in_flight -= 1
            if not request.ended:
                self._take(request, sampled, index)
        for row in plan.rows:
            request = row.request
            if not request.generates and not request.ended and row.end >= request.target:
                self._end(request, Finish(FinishReason.LENGTH))

    def fail(self, plan: Plan, error: Exception, later: Plan | None = None) -> None:
        """A launch failed: its rows end with the cause, and what it was to fill is forgotten.

        `later`, a batch planned on top of it, shares its fate.
        """
        reason = f"the forward pass failed: {type(error).__name__}: {error}"
        for row in [*plan.rows, *(later.rows if later else ())]:
            if not row.request.ended:
                self._fail(row.request, reason)
        for request in list(self.planner.running):
            assert request.lease is not None
            if any(node.filled >= plan.seq for node in request.lease.node.ancestry()):
                self.planner.retract(request, publish=False)
        self.cache.drop(plan.seq)

    def close(self, reason: str) -> None:
        """The runtime ends: so does every request, with the cause."""
        for request in list(self.requests.values()):
            self._fail(request, reason)

    # -------------------------------------------------------------- ends

    def _take(self, request: Request, sampled: Sampled, index: int) -> None:
        if not sampled.ok[index]:
            self._fail(request, "the model's logits were not finite (NaN or infinity).")
            return
        token = int(sampled.tokens[index])
        if not self._jumps(request):
            self._grow(request, [token], sampled, index)
        elif tokens := following(request, token):
            self._grow(request, tokens)
        else:
            self._refuse(request, stuck(request, token))

    def _grow(
        self,
        request: Request,
        tokens: list[int],
        sampled: Sampled | None = None,
        index: int = 0,
        *,
        drawn: int = 1,
    ) -> None:
        """Append `tokens`, of which the first `drawn` were drawn and the others are forced."""
        finish, before = None, request.known
        for token in tokens:
            if request.matcher is not None and not request.matcher.advance(token):
                self._refuse(request, stuck(request, token))
                return
            request.append(token)
            if sampled is None:
                self.outbox.token(request.key, token, None)
            else:
                report_token(self.outbox, request, token, sampled, index)
            if finish := finish_after(request, token, self.token_bytes[token]):
                break
        if request.matcher is not None:
            self._count_forced(request, max(0, request.known - before - drawn))
            if finish is None and request.matcher.must_stop():
                finish = Finish(FinishReason.STOP)
        if finish is not None:
            self._end(request, finish)

    def _count_forced(self, request: Request, count: int) -> None:
        request.jumped = count
        request.fast_forwarded += count
        self.counters["fast_forwarded_tokens"] += count
        if self._jumps(request):
            request.fresh = True  # what counts its tokens does not know the forced ones

    def _jumps(self, request: Request) -> bool:
        # With logprobs each token is drawn by itself: its logprob is known in no other way.
        held = request.matcher is not None
        return held and self.jump_forward and request.params.logprobs is None

    # -------------------------------------------------------------- grammars

    def _take_grammars(self) -> None:
        """Queue the requests whose grammar is there; those it is refused to end."""
        for request in self.compiling.settled():
            assert request.ticket is not None
            if request.ticket.error is not None:
                self._refuse(request, request.ticket.error)
                continue
            self.compiling.remove(request)
            self.queues.add(request)
            if request.generates and request.ticket.grammar is not None:
                request.matcher = request.ticket.grammar.matcher()
                first = following(request) if self._jumps(request) else []
                self._grow(request, first, drawn=0)

    # -------------------------------------------------------------- ends

    def _end(self, request: Request, finish: Finish) -> None:
        aborted = finish.reason is FinishReason.ABORT
        self._leave(request, "aborted" if aborted else "finished", publish=not aborted)
        word = Finish(
            finish.reason,
            finish.matched,
            finish.cut,
            request.cached_tokens,
            request.retractions,
            request.fast_forwarded,
            request.grammar,
        )
        self.outbox.finish(request.key, word)

    def _fail(self, request: Request, reason: str) -> None:
        self._refuse(request, RequestFailed(reason))

    def _refuse(self, request: Request, error: SglangLiteError) -> None:
        ours = error.status >= 500
        self._leave(request, "failed" if ours else "refused", publish=False)
        self.outbox.fail(request.key, error.status, str(error), getattr(error, "param", None))

    def _leave(self, request: Request, outcome: str, *, publish: bool) -> None:
        request.ended = True
        del self.requests[request.key]
        if request in self.compiling:
            self.compiling.remove(request)
        else:
            self.planner.leave(request, publish=publish)
        self.counters[outcome] += 1

    # -------------------------------------------------------------- the whole

    @property
    def idle(self) -> bool:
        return not self.requests and not self.outbox

    @property
    def stalled(self) -> bool:
        """Whether there is nothing to do before a message comes, or a grammar is compiled."""
        if len(self.requests) > len(self.compiling) or self.outbox:
            return False
        return not self.compiling.settled()

    def check(self) -> None:
        """Raise AssertionError unless pages, slots and requests are all accounted for."""
        self.planner.check()
        planner = self.planner
        retracted = [entry[1] for entry in planner.retracted]
        here = [*planner.running, *retracted, *self.queues, *self.compiling]
        assert len(here) == len(self.requests), "a request is lost or kept twice"

    def stats(self) -> dict[str, float | int | str | bool]:
        return {
            "running": len(self.planner.running),
            "waiting": len(self.queues) + len(self.planner.retracted),
            **self.cache.stats(),
            **self.counters,
            **self.compiling.stats(),
        }
