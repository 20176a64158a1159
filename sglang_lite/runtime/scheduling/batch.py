"""What one step computes, as numpy arrays only, and what came out of it.

No Request and no per-page Python object crosses this line, so a batch can be broadcast to
tensor-parallel ranks, recorded and replayed. Shapes: R rows, T tokens (all rows' new tokens, one
row after another), S segments, E readings, M sampling rows, C copied KV slots, K scored positions.

A KV *slot* is the place of one token: page * page_size + offset. Page 0 belongs to nobody; a
padding token may write there.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Int = NDArray[np.int32]
Float = NDArray[np.float32]


class Segments(NamedTuple):
    """The KV the batch attends to, as runs of pages, and which row reads which run.

    A run that several rows share appears once. A row's readings, in order of `first`, cover its
    positions [0, start + length) exactly once, own new tokens included. The rule of visibility is
    one for all: a query at position q sees a key at position p if p <= q. So a run that lies
    wholly before `start` needs no mask, and only the row that writes a run needs a causal one.
    """

    pages: Int  # all runs' pages, one run after another
    indptr: Int  # [S + 1] run s has pages[indptr[s]:indptr[s + 1]]
    first: Int  # [S] position of the run's first token
    length: Int  # [S] tokens in the run; the last page may be partly filled
    readers: Int  # [E] rows, grouped by run
    reader_indptr: Int  # [S + 1] run s is read by readers[reader_indptr[s]:reader_indptr[s + 1]]


class Allowed(NamedTuple):
    """The only tokens that constrained rows may draw. Rows are indices into the M entries."""

    row: Int  # [A] rows with a mask,
    bits: Int  # [A, W] and it: a bit for each id, W = ceil(vocabulary / 32)
    few_row: Int  # [F] rows whose allowed ids are listed: those of entry f are
    few_indptr: Int  # [F + 1] few_ids[few_indptr[f]:few_indptr[f + 1]]
    few_ids: Int

    @classmethod
    def everything(cls) -> Allowed:
        """No row is constrained."""
        nothing: Int = np.empty(0, np.int32)
        return cls(nothing, nothing.reshape(0, 0), nothing, np.zeros(1, np.int32), nothing)


@dataclass(frozen=True, slots=True)
class Sampling:
    """One entry for each row that draws a token, in row order. M entries."""

    row: Int  # the batch row
    at: Int  # index into the T tokens whose logits are wanted
    position: Int  # position of the token to be drawn: the noise counter
    seed: NDArray[np.uint64]
    temperature: Float  # 0: greedy
    top_k: Int  # vocab size or more: off
    top_p: Float
    min_p: Float
    frequency: Float
    presence: Float
    repetition: Float
    bias_row: Int  # [B] index into the M entries
    bias_id: Int  # [B]
    bias: Float  # [B] added to the logit; -inf forbids (EOS before min_tokens)
    logprobs: Int  # how many of the likeliest to report; -1: not even the chosen one
    allowed: Allowed = field(default_factory=Allowed.everything)


@dataclass(frozen=True, slots=True)
class Scoring:
    """Prompt positions whose next token's logprob is wanted. K entries, in row order."""

    row: Int
    at: Int  # index into the T tokens whose logits predict the target
    target: Int  # the token id that follows
    logprobs: Int  # how many of the likeliest to report


@dataclass(frozen=True, slots=True)
class Entering:
    """Rows that start (or start again) and need penalties: the tokens they have seen so far."""

    row: Int
    prompt_length: Int
    indptr: Int
    tokens: Int


@dataclass(frozen=True, slots=True)
class Batch:
    """One forward pass."""

    seq: int  # 1, 2, 3, ... in the order of launch
    slot: Int  # [R] the request's place in the runner's per-request state
    start: Int  # [R] first position computed
    length: Int  # [R] tokens computed
    tokens: Int  # [T] ids; -1: still on the device, in last_token[slot]
    write: Int  # [T] KV slot of each token
    copy_from: Int  # [C] KV slots to copy, in every layer, after the writes and before attention;
    copy_to: Int  # [C] how two prompts share part of a page
    segments: Segments
    sampling: Sampling
    scoring: Scoring
    entering: Entering

    @property
    def rows(self) -> int:
        return len(self.slot)

    @property
    def positions(self) -> Int:
        """[T] the position of each token in its row."""
        ends = np.cumsum(self.length, dtype=np.int32)
        offsets: Int = np.repeat(self.start - (ends - self.length), self.length)
        positions: Int = np.arange(len(self.tokens), dtype=np.int32) + offsets
        return positions

    @property
    def row_of_token(self) -> Int:
        """[T] the row of each token."""
        rows: Int = np.repeat(np.arange(self.rows, dtype=np.int32), self.length)
        return rows


@dataclass(frozen=True, slots=True)
class Sampled:
    """What the runner read back for one batch. Entries follow `sampling` and `scoring`."""

    tokens: Int  # [M]
    ok: NDArray[np.bool_]  # [M] False: the row's logits were not finite; the token means nothing
    logprobs: Float  # [M] of the drawn token, before temperature and filters; NaN where not asked
    top_ids: Int = field(default_factory=lambda: np.empty((0, 0), np.int32))  # [M, widest]
    top_logprobs: Float = field(default_factory=lambda: np.empty((0, 0), np.float32))
    scores: Float = field(default_factory=lambda: np.empty(0, np.float32))  # [K]
    score_top_ids: Int = field(default_factory=lambda: np.empty((0, 0), np.int32))
    score_top_logprobs: Float = field(default_factory=lambda: np.empty((0, 0), np.float32))
