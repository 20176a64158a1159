"""Batches made by hand, for tests of kernels and runner."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from sglang_lite.runtime.scheduling.batch import Batch, Entering, Sampling, Scoring, Segments

VOCAB_OFF = 1 << 30  # a top_k that filters nothing


def ints(values: Sequence[int] = ()) -> np.ndarray:
    return np.array(values, np.int32)


def floats(values: Sequence[float] = ()) -> np.ndarray:
    return np.array(values, np.float32)


@dataclass
class Run:
    """A run of pages and who reads it."""

    first: int
    length: int
    pages: list[int]
    readers: list[int]


@dataclass
class Row:
    """One row; its last token is sampled from unless `draws` is false."""

    slot: int
    start: int
    tokens: list[int]
    draws: bool = True
    temperature: float = 0.0
    seed: int = 0
    top_k: int = VOCAB_OFF
    top_p: float = 1.0
    min_p: float = 0.0
    frequency: float = 0.0
    presence: float = 0.0
    repetition: float = 1.0
    bias: dict[int, float] = field(default_factory=dict)
    logprobs: int = -1
    scored: dict[int, int] = field(default_factory=dict)  # index in `tokens` -> target
    scored_top: int = 0


def sampling_of(rows: Sequence[Row]) -> Sampling:
    ends = np.cumsum([len(row.tokens) for row in rows])
    drawn = [(index, row) for index, row in enumerate(rows) if row.draws]
    bias = [(i, id, value) for i, (_, row) in enumerate(drawn) for id, value in row.bias.items()]
    return Sampling(
        row=ints([index for index, _ in drawn]),
        at=ints([ends[index] - 1 for index, _ in drawn]),
        position=ints([row.start + len(row.tokens) for _, row in drawn]),
        seed=np.array([row.seed for _, row in drawn], np.uint64),
        temperature=floats([row.temperature for _, row in drawn]),
        top_k=ints([row.top_k for _, row in drawn]),
        top_p=floats([row.top_p for _, row in drawn]),
        min_p=floats([row.min_p for _, row in drawn]),
        frequency=floats([row.frequency for _, row in drawn]),
        presence=floats([row.presence for _, row in drawn]),
        repetition=floats([row.repetition for _, row in drawn]),
        bias_row=ints([entry[0] for entry in bias]),
        bias_id=ints([entry[1] for entry in bias]),
        bias=floats([entry[2] for entry in bias]),
        logprobs=ints([row.logprobs for _, row in drawn]),
    )


def entering_of(seen: dict[int, tuple[list[int], int]]) -> Entering:
    """`seen`: row -> (tokens seen so far, how many of them are the prompt)."""
    lengths = [len(tokens) for tokens, _ in seen.values()]
    return Entering(
        row=ints(list(seen)),
        prompt_length=ints([prompt for _, prompt in seen.values()]),
        indptr=ints([0, *np.cumsum(lengths)] if lengths else [0]),
        tokens=ints([token for tokens, _ in seen.values() for token in tokens]),
    )


def make_batch(
    rows: Sequence[Row],
    runs: Sequence[Run],
    page_size: int,
    *,
    seq: int = 1,
    copies: Sequence[tuple[int, int]] = (),
    seen: dict[int, tuple[list[int], int]] | None = None,
) -> Batch:
    """A batch of `rows` that read `runs`, which also say where new tokens are written."""
    write: list[int] = []
    for index, row in enumerate(rows):
        places = {
            run.first + offset: run.pages[offset // page_size] * page_size + offset % page_size
            for run in runs
            if index in run.readers
            for offset in range(run.length)
        }
        assert sorted(places) == list(range(row.start + len(row.tokens)))
        write += [places[row.start + offset] for offset in range(len(row.tokens))]
    begins = np.cumsum([0, *(len(row.tokens) for row in rows)])
    scored = [
        (index, int(begins[index]) + at, target, row.scored_top)
        for index, row in enumerate(rows)
        for at, target in row.scored.items()
    ]
    return Batch(
        seq=seq,
        slot=ints([row.slot for row in rows]),
        start=ints([row.start for row in rows]),
        length=ints([len(row.tokens) for row in rows]),
        tokens=ints([token for row in rows for token in row.tokens]),
        write=ints(write),
        copy_from=ints([pair[0] for pair in copies]),
        copy_to=ints([pair[1] for pair in copies]),
        segments=Segments(
            pages=ints([page for run in runs for page in run.pages]),
            indptr=ints(np.cumsum([0, *(len(run.pages) for run in runs)])),
            first=ints([run.first for run in runs]),
            length=ints([run.length for run in runs]),
            readers=ints([reader for run in runs for reader in run.readers]),
            reader_indptr=ints(np.cumsum([0, *(len(run.readers) for run in runs)])),
        ),
        sampling=sampling_of(rows),
        scoring=Scoring(*(ints([entry[column] for entry in scored]) for column in range(4))),
        entering=entering_of(seen or {}),
    )
