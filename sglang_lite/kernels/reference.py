"""The oracle: attention as its definition says, in float64, one row after another.

It knows nothing of sharing, packing or batching: it walks each row's readings, looks up every key
by its page, and takes one softmax. Slow on purpose; every other backend must equal it.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from sglang_lite.kernels.protocol import Geometry
from sglang_lite.runtime.scheduling.batch import Batch


class ReferenceAttention:
    """Reads the cache alone, never `own`."""

    def __init__(self, geometry: Geometry, device: str = "cpu") -> None:
        self.geometry, self.device = geometry, device

    def plan(self, batch: Batch) -> Batch:
        return batch

    def attend(self, plan: Batch, queries: Tensor, own: Tensor, cache: Tensor) -> Tensor:
        out = torch.empty_like(queries)
        ends = np.cumsum(plan.length)
        for row, end in enumerate(ends.tolist()):
            begin = end - int(plan.length[row])
            slots, positions = self._readings(plan, row)
            out[begin:end] = self._row(
                queries[begin:end].double(),
                cache[torch.from_numpy(slots).to(self.device)].double(),
                torch.from_numpy(plan.positions[begin:end].astype(np.int64)),
                torch.from_numpy(positions),
            ).to(queries.dtype)
        return out

    def _readings(self, batch: Batch, row: int) -> tuple[np.ndarray, np.ndarray]:
        """KV slot and position of every key that `row` reads."""
        size, runs = self.geometry.page_size, batch.segments
        slots: list[int] = []
        positions: list[int] = []
        for run in range(len(runs.first)):
            readers = runs.readers[runs.reader_indptr[run] : runs.reader_indptr[run + 1]]
            if row not in readers:
                continue
            pages = runs.pages[runs.indptr[run] : runs.indptr[run + 1]]
            for offset in range(int(runs.length[run])):
                slots.append(int(pages[offset // size]) * size + offset % size)
                positions.append(int(runs.first[run]) + offset)
        return np.array(slots, np.int64), np.array(positions, np.int64)

    def _row(self, queries: Tensor, kv: Tensor, at: Tensor, positions: Tensor) -> Tensor:
        group = self.geometry.heads // self.geometry.kv_heads
        keys, values = kv.repeat_interleave(group, dim=2).unbind(1)
        scores = torch.einsum("qhd,khd->hqk", queries, keys) / self.geometry.head_dim**0.5
        hidden = positions[None] > at[:, None]
        scores = scores.masked_fill(hidden.to(self.device), float("-inf"))
        return torch.einsum("hqk,khd->qhd", scores.softmax(-1), values)
