"""Arithmetic that does not depend on what else is computed at the same time.

A row's numbers come from operations of the same shape whatever the batch, the chunk or the cache:
rows enter matrices, and queries enter attention, in tiles of one size; keys are padded to a
multiple of one size, counted from position 0. Nothing is shared or merged. Slower, and bitwise
repeatable, because a matrix product's row depends on the product's shape but not on its place.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from sglang_lite.kernels.items import Index, slots_of_rows
from sglang_lite.kernels.linear import DenseLinear, PackedLinear, best
from sglang_lite.kernels.protocol import Geometry
from sglang_lite.runtime.scheduling.batch import Batch

TILE_ROWS = 16
TILE_KEYS = 64


class FixedLinear:
    """Another linear backend, fed with tiles of TILE_ROWS rows."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        packed = best(weight.dtype, weight.device.type) == "packed"
        self._product = (PackedLinear if packed else DenseLinear)(weight, bias)
        self._out = len(weight)

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        y = x.new_empty(len(x), self._out)
        for begin in range(0, len(x), TILE_ROWS):
            rows = x[begin : begin + TILE_ROWS]
            y[begin : begin + TILE_ROWS] = self._product(_padded(rows))[: len(rows)]
        return y if residual is None else y.add_(residual)


class Tile(NamedTuple):
    """At most TILE_ROWS queries of one row, whose keys are padded to the same number."""

    tokens: slice
    slots: Tensor
    mask: Tensor  # [TILE_ROWS, 1, keys]


class FixedAttention:
    """One softmax for each query, over its row's own list of keys."""

    def __init__(self, geometry: Geometry, device: str = "cpu") -> None:
        self.geometry, self.device = geometry, device

    def plan(self, batch: Batch) -> list[Tile]:
        tiles: list[Tile] = []
        begin = 0
        for row, slots in enumerate(slots_of_rows(batch, self.geometry.page_size)):
            positions = int(batch.start[row]) + np.arange(int(batch.length[row]))
            cuts = np.flatnonzero(np.diff(positions // TILE_KEYS)) + 1
            for same_keys in np.split(positions, cuts):
                for first in range(0, len(same_keys), TILE_ROWS):
                    some = same_keys[first : first + TILE_ROWS]
                    tiles.append(self._tile(some, begin, slots))
                    begin += len(some)
        return tiles

    def attend(self, plan: list[Tile], queries: Tensor, own: Tensor, cache: Tensor) -> Tensor:
        heads, kv_heads, head_dim, _ = self.geometry
        group = heads // kv_heads
        out = torch.empty_like(queries, memory_format=torch.contiguous_format)
        for tile in plan:
            kv = cache.index_select(0, tile.slots)
            keys, values = kv[:, 0].permute(1, 2, 0), kv[:, 1].transpose(0, 1)
            some = queries[tile.tokens]
            q = _padded(some).view(TILE_ROWS, kv_heads, group, head_dim).transpose(0, 1)
            scores = q.reshape(kv_heads, -1, head_dim).bmm(keys).float()
            scores = scores.view(kv_heads, TILE_ROWS, group, -1) * head_dim**-0.5 + tile.mask
            weights = scores.softmax(-1).view(kv_heads, TILE_ROWS * group, -1)
            found = weights.to(values.dtype).bmm(values).view(kv_heads, TILE_ROWS, group, head_dim)
            out[tile.tokens] = found.transpose(0, 1).reshape(-1, heads, head_dim)[: len(some)]
        return out

    def _tile(self, positions: Index, begin: int, slots: Index) -> Tile:
        size = int(positions[0] // TILE_KEYS + 1) * TILE_KEYS
        key = np.arange(size)
        mask = np.zeros((TILE_ROWS, 1, size), np.float32)
        mask[: len(positions), 0][key[None] > positions[:, None]] = -np.inf
        # A key later than the query has weight 0; any slot of the row's own can stand for it.
        found = slots[np.minimum(key, positions[-1])]
        return Tile(
            slice(begin, begin + len(positions)),
            torch.from_numpy(found).to(self.device),
            torch.from_numpy(mask).to(self.device),
        )


def _padded(rows: Tensor) -> Tensor:
    """`rows` as the first of TILE_ROWS, always at the beginning of memory of their own."""
    tile = rows.new_zeros(TILE_ROWS, *rows.shape[1:])
    tile[: len(rows)] = rows
    return tile
