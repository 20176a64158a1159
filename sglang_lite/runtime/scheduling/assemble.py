"""From planned rows to a `Batch`: plain columns, nothing of a request but its numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sglang_lite.runtime.scheduling.batch import (
    Batch,
    Entering,
    Float,
    Int,
    Sampling,
    Scoring,
)
from sglang_lite.runtime.scheduling.constrain import Masks
from sglang_lite.runtime.scheduling.layout import lay_out
from sglang_lite.runtime.scheduling.radix import EMPTY
from sglang_lite.runtime.scheduling.request import Request


@dataclass(slots=True, eq=False)
class Row:
    """`length` positions of `request`, from `start` on."""

    request: Request
    start: int
    length: int
    draws: bool  # the last of them predicts a token to be drawn
    scored: int = 0  # how many of them predict a prompt token to be scored
    score_at: int = 0  # index in the row of the first of these

    @property
    def end(self) -> int:
        return self.start + self.length


@dataclass(slots=True, eq=False)
class Plan:
    """A batch, and whom its results belong to."""

    seq: int
    rows: list[Row]
    batch: Batch
    draws: list[Request] = field(default_factory=list)
    scored: list[Row] = field(default_factory=list)


def assemble(
    seq: int,
    rows: list[Row],
    copies: list[tuple[Int, Int]],
    *,
    page_size: int,
    share_from: int | None,
    masks: Masks,
) -> Plan:
    leases = [row.request.lease for row in rows]
    assert all(lease is not None for lease in leases)
    held = [lease for lease in leases if lease is not None]
    drawing = [i for i, row in enumerate(rows) if row.draws]
    scoring = [i for i, row in enumerate(rows) if row.scored]
    first = np.cumsum([0] + [row.length for row in rows])
    batch = Batch(
        seq=seq,
        slot=_ints(row.request.slot for row in rows),
        start=_ints(row.start for row in rows),
        length=_ints(row.length for row in rows),
        tokens=np.concatenate([_tokens(row) for row in rows]),
        write=np.concatenate([_write(row, page_size) for row in rows]),
        copy_from=np.concatenate([EMPTY, *(source for source, _ in copies)]),
        copy_to=np.concatenate([EMPTY, *(target for _, target in copies)]),
        segments=lay_out(held, [row.end for row in rows], page_size, share_from),
        sampling=_sampling(rows, drawing, first, masks),
        scoring=_scoring(rows, scoring, first),
        entering=_entering(rows, drawing),
    )
    return Plan(seq, rows, batch, [rows[i].request for i in drawing], [rows[i] for i in scoring])


def _tokens(row: Row) -> Int:
    """The row's ids; -1 for one that a batch in flight is still drawing."""
    known = row.request.tokens[row.start : row.end]
    if len(known) == row.length:
        return known
    return np.concatenate((known, np.full(row.length - len(known), -1, np.int32)))


def _write(row: Row, page_size: int) -> Int:
    """KV slots of the row's tokens; slot 0 for those whose KV another request computes."""
    lease = row.request.lease
    assert lease is not None
    at = np.arange(row.start, row.end, dtype=np.int32)
    slots: Int = lease.table[at // page_size] * page_size + at % page_size
    slots[: max(0, lease.foreign - row.start)] = 0
    return slots


def _sampling(rows: list[Row], drawing: list[int], first: Int, masks: Masks) -> Sampling:
    requests = [rows[i].request for i in drawing]

    def floats(read: Callable[[Any], float]) -> Float:
        return np.array([read(request.params) for request in requests], np.float32)

    biases = [_bias(request) for request in requests]
    return Sampling(
        row=np.array(drawing, np.int32),
        at=_ints(first[i + 1] - 1 for i in drawing),
        position=_ints(rows[i].end for i in drawing),
        seed=np.array([(r.params.seed or 0) % 2**64 for r in requests], np.uint64),
        temperature=floats(lambda p: 0.0 if p.greedy else p.temperature),
        top_k=np.array([_top_k(r.params.top_k) for r in requests], np.int32),
        top_p=floats(lambda p: p.top_p),
        min_p=floats(lambda p: p.min_p),
        frequency=floats(lambda p: p.frequency_penalty),
        presence=floats(lambda p: p.presence_penalty),
        repetition=floats(lambda p: p.repetition_penalty),
        bias_row=np.repeat(np.arange(len(requests), dtype=np.int32), [len(i) for i, _ in biases]),
        bias_id=np.concatenate([EMPTY, *(ids for ids, _ in biases)]),
        bias=np.concatenate([np.empty(0, np.float32), *(values for _, values in biases)]),
        logprobs=np.array(
            [-1 if r.params.logprobs is None else r.params.logprobs for r in requests], np.int32
        ),
        allowed=masks.fill(requests),
    )


def _top_k(top_k: int) -> int:
    return 1 << 30 if top_k == -1 else min(top_k, 1 << 30)


def _bias(request: Request) -> tuple[Int, Float]:
    """What is added to logits; before `min_tokens`, ids that would end the request are out."""
    ids, values = request.bias
    if request.drawn + request.in_flight >= request.params.min_tokens or not request.eos:
        return ids, values
    banned = np.array(sorted(request.eos), np.int32)
    return (
        np.concatenate((ids, banned)),
        np.concatenate((values, np.full(len(banned), -np.inf, np.float32))),
    )


def _scoring(rows: list[Row], scoring: list[int], first: Int) -> Scoring:
    at, target, which, top = [EMPTY], [EMPTY], [EMPTY], [EMPTY]
    for i in scoring:
        row = rows[i]
        begin = row.score_at
        at.append(np.arange(first[i] + begin, first[i] + begin + row.scored, dtype=np.int32))
        position = row.start + begin + 1
        target.append(row.request.tokens[position : position + row.scored])
        which.append(np.full(row.scored, i, np.int32))
        top.append(np.full(row.scored, row.request.params.logprobs or 0, np.int32))
    return Scoring(
        row=np.concatenate(which),
        at=np.concatenate(at),
        target=np.concatenate(target),
        logprobs=np.concatenate(top),
    )


def _entering(rows: list[Row], drawing: list[int]) -> Entering:
    """Rows about to draw whose tokens the runner must learn, because penalties count them."""
    news = [i for i in drawing if rows[i].request.fresh and rows[i].request.params.penalised]
    texts = [rows[i].request.tokens for i in news]
    return Entering(
        row=np.array(news, np.int32),
        prompt_length=_ints(rows[i].request.prompt_length for i in news),
        indptr=np.cumsum([0] + [len(text) for text in texts]).astype(np.int32),
        tokens=np.concatenate([EMPTY, *texts]),
    )


def _ints(values: Any) -> Int:
    return np.fromiter(values, np.int32)
