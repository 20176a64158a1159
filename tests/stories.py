"""A sequence computed chunk by chunk, alone, on pages of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from batches import Row, Run, make_batch

from sglang_lite.runtime.execution.runner import ModelRunner
from sglang_lite.runtime.scheduling.batch import Sampled

SCATTER = 37  # pages of a sequence are this far apart, modulo what there is


class Story:
    """One request's tokens and pages. `step` computes some more of them."""

    def __init__(self, runner: ModelRunner, slot: int = 0, page_size: int = 1) -> None:
        self.runner, self.slot, self.page_size = runner, slot, page_size
        self.done = 0
        self.seq = 0

    def run(self, length: int, row: int = 0) -> Run:
        """Everything up to position `length` as one run, read by batch row `row`."""
        count = -(-length // self.page_size)
        pages = [1 + (index * SCATTER + self.slot * 11) % 293 for index in range(count)]
        return Run(0, length, pages, [row])

    def step(self, tokens: Sequence[int], **row: Any) -> Sampled:
        self.seq += 1
        seen = row.pop("seen", None)
        made = Row(self.slot, self.done, list(tokens), **row)
        self.done += len(tokens)
        batch = make_batch([made], [self.run(self.done)], self.page_size, seq=self.seq, seen=seen)
        self.runner.forward(batch)
        return self.runner.sample(batch).wait()

    def logprobs(self, tokens: Sequence[int], chunks: Sequence[int], vocab: int) -> np.ndarray:
        """[len(tokens), vocab] logprobs of what follows each token, computed in `chunks`."""
        parts, begin = [], 0
        for size in chunks:
            some = tokens[begin : begin + size]
            begin += size
            found = self.step(
                some, draws=False, scored=dict.fromkeys(range(len(some)), 0), scored_top=vocab
            )
            part = np.empty((len(some), vocab), np.float32)
            np.put_along_axis(part, found.score_top_ids, found.score_top_logprobs, axis=1)
            np.testing.assert_array_equal(part[:, 0], found.scores)
            parts.append(part)
        assert begin == len(tokens)
        return np.concatenate(parts)

    def scores(self, tokens: Sequence[int], chunks: Sequence[int]) -> np.ndarray:
        """The logprob of each token after those before it, computed in `chunks`."""
        parts, begin = [], 0
        for size in chunks:
            targets = tokens[begin + 1 : begin + size + 1]
            found = self.step(
                tokens[begin : begin + size], draws=False, scored=dict(enumerate(targets))
            )
            parts.append(found.scores)
            begin += size
        return np.concatenate(parts)
