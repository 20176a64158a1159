"""The one mutable record of a request, from its arrival to its last word."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sglang_lite.params import Hint, SamplingParams
from sglang_lite.runtime.grammar.protocol import Matcher, Ticket
from sglang_lite.runtime.scheduling.batch import Float, Int
from sglang_lite.runtime.scheduling.cache import Lease
from sglang_lite.runtime.scheduling.finish import StopStrings

MAX_AHEAD = 32  # forced tokens that are computed like a draw; more are computed like a prompt

Key = tuple[bytes, int]  # (client, the client's id)


@dataclass(slots=True, eq=False)
class Request:
    """`known` ids are on the host; the draw of a batch in flight is not known yet."""

    key: Key
    params: SamplingParams
    prompt_length: int
    limit: int  # most ids in all, prompt and output: bounded by max_tokens and the context
    eos: frozenset[int]  # ids that end it: EOS, unless ignored, and the caller's stop ids
    namespace: str
    arrival: int
    ids: Int  # with room for growth; the first `known` count
    known: int
    score_from: int  # next prompt position to be scored; prompt_length: none is left
    prefill_only: int  # positions to compute if nothing is drawn
    stops: StopStrings
    bias: tuple[Int, Float]  # ids and what is added to their logits
    model_eos: frozenset[int]  # the ids that a grammar's end is said with
    hint: Hint
    ticket: Ticket | None = None  # of its grammar, which it waits for before it is queued
    matcher: Matcher | None = None  # where it stands in that grammar

    lease: Lease | None = None  # None: waiting
    slot: int = -1
    admission: int = 0  # order of admission, for "youngest"
    computed: int = 0  # positions whose KV is written, or planned to be
    in_flight: int = 0  # draws planned and not yet committed
    fresh: bool = True  # the runner does not know its tokens yet (penalties)
    passes: int = 0  # times another request was preferred
    cached_tokens: int = 0  # tokens found instead of computed, before any retraction
    retractions: int = 0
    jumped: int = 0  # forced tokens that the last draw brought with it
    fast_forwarded: int = 0  # forced tokens in all
    ended: bool = False

    @property
    def tokens(self) -> Int:
        return self.ids[: self.known]

    @property
    def group(self) -> tuple[int, int] | None:
        """The branches of one program that start from one text, this request among them."""
        hint = self.hint
        return (hint.program, hint.group) if hint.program and hint.group else None

    @property
    def drawn(self) -> int:
        """Tokens generated and committed."""
        return self.known - self.prompt_length

    @property
    def generates(self) -> bool:
        return self.limit > self.prompt_length

    @property
    def target(self) -> int:
        """Positions that must be computed before the next draw, or in all if nothing is drawn."""
        return self.known + self.in_flight if self.generates else self.prefill_only

    @property
    def reusable(self) -> int:
        """Leading tokens that need not be computed if cached: no logits of theirs are wanted.

        The last one is always computed, so that every request ends by way of a batch.
        """
        scoring = self.score_from < self.prompt_length
        return min(self.target, self.score_from if scoring else self.target) - 1

    @property
    def written(self) -> int:
        """Leading tokens whose id is known and whose KV is computed, or planned to be."""
        return min(self.computed, self.known)

    @property
    def left(self) -> int:
        """Tokens it may still draw."""
        return self.limit - self.known - self.in_flight

    @property
    def decoding(self) -> bool:
        """Whether all that is left to compute is the last draw, and the few tokens it forced."""
        frontier = self.target - 1 - (self.jumped if self.jumped <= MAX_AHEAD else 0)
        return self.known + self.in_flight > self.prompt_length and self.computed >= frontier

    @property
    def may_not_end(self) -> bool:
        """Whether EOS is out, though its grammar may allow it."""
        return self.params.ignore_eos or self.drawn + self.in_flight < self.params.min_tokens

    @property
    def grammar(self) -> str:
        """What held it, and in what that is narrower than what was asked for."""
        grammar = self.ticket.grammar if self.ticket else None
        if grammar is None:
            return ""
        return f"{grammar.engine}: {grammar.notes}" if grammar.notes else grammar.engine

    def append(self, token: int) -> None:
        if self.known == len(self.ids):
            grown = np.empty(2 * len(self.ids), np.int32)
            grown[: self.known] = self.ids
            self.ids = grown
        self.ids[self.known] = token
        self.known += 1
