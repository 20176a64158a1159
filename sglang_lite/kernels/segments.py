"""Attention that reads what several rows share once, for all of them together.

`plan` turns a batch into items (see `items.py`): keys, and the queries that see all of them. Items
of similar size are padded into *groups*, one call each, so a mask is needed for padding only; the
own tokens of chunks are groups with a causal mask. A token's partial results are merged by the
log-sum-exp of their scores.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sglang_lite.kernels.items import (
    GROUP_KEYS,
    SHORT,
    Index,
    Item,
    grouped,
    items_of,
    ranges,
)
from sglang_lite.kernels.protocol import Geometry
from sglang_lite.runtime.scheduling.batch import Batch

STACKED_QUERIES = 16  # below, the heads of a KV head are stacked as queries: keys are read once


class Group(NamedTuple):
    """Items padded to one shape. Padding repeats an item's first query and its last key."""

    items: int
    queries: int
    tokens: Tensor | slice  # [items * queries]
    slots: Tensor | slice | None  # [items * keys]; None: causal, over the same tokens' own keys
    mask: Tensor | None  # [items, 1, 1 or stacked queries, keys] -inf where a key is out


class Plan(NamedTuple):
    groups: list[Group]
    place: Tensor | None  # [T] or [T, parts] each token's partial results; None: as they come
    absent: Tensor | None  # [T, parts, 1] -inf where `place` points at nothing of the token's


class SegmentAttention:
    """The production backend of the CPU; correct, if not fast, on others."""

    def __init__(self, geometry: Geometry, device: str = "cpu") -> None:
        self.geometry, self.device = geometry, device
        self.scale = geometry.head_dim**-0.5
        self._gathered = torch.empty(0)

    def plan(self, batch: Batch) -> Plan:
        keys, queries, items = items_of(batch, self.geometry.page_size)
        stacked = self.geometry.heads // self.geometry.kv_heads
        groups: list[Group] = []
        tokens: list[Index] = []  # of every partial result, padding marked with -1
        for members in grouped(items):
            group, covered = _pad(members, keys, queries, stacked)
            groups.append(group)
            tokens.append(covered)
        for group, covered in _own_groups(batch):
            groups.append(group)
            tokens.append(covered)
        place, absent = _placement(np.concatenate(tokens), len(batch.tokens))
        return Plan([self._moved(group) for group in groups], self._on(place), self._on(absent))

    def attend(self, plan: Plan, queries: Tensor, own: Tensor, cache: Tensor) -> Tensor:
        parts = [self._part(group, queries, own, cache) for group in plan.groups]
        if len(parts) == 1:
            out, weights = parts[0]
        else:
            out = torch.cat([part[0] for part in parts])
            weights = torch.cat([part[1] for part in parts])
        if plan.place is None:
            return out
        if plan.absent is None:
            return out.index_select(0, plan.place)
        share = (weights[plan.place] + plan.absent).softmax(1).unsqueeze(-1)
        return (out[plan.place] * share).sum(1).to(queries.dtype)

    def _moved(self, group: Group) -> Group:
        return group._replace(
            tokens=self._on(group.tokens), slots=self._on(group.slots), mask=self._on(group.mask)
        )

    def _on(self, x: Any) -> Any:
        return x.to(self.device) if isinstance(x, Tensor) else x

    def _part(
        self, group: Group, queries: Tensor, own: Tensor, cache: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Attention of one group: [n, heads, head_dim] and log-sum-exp [n, heads]."""
        heads, kv_heads, head_dim, _ = self.geometry
        causal = group.slots is None
        kv = _take(own, group.tokens) if group.slots is None else self._gather(cache, group.slots)
        kv = kv.view(group.items, -1, 2, kv_heads, head_dim)
        keys, values = kv[:, :, 0].transpose(1, 2), kv[:, :, 1].transpose(1, 2)
        q = _take(queries, group.tokens).view(group.items, group.queries, heads, head_dim)
        if causal or group.queries >= STACKED_QUERIES:
            out, lse = block_attention(
                q.transpose(1, 2), keys, values, causal, group.mask, self.scale
            )
            return out.transpose(1, 2).reshape(-1, heads, head_dim), lse.mT.reshape(-1, heads)
        stacked = (group.items, kv_heads, group.queries * (heads // kv_heads))
        apart = (group.items, kv_heads, group.queries, heads // kv_heads)
        q = q.view(group.items, group.queries, kv_heads, -1, head_dim).transpose(1, 2)
        q = q.reshape(*stacked, head_dim)
        out, lse = block_attention(q, keys, values, causal, group.mask, self.scale)
        out = out.view(*apart, head_dim).transpose(1, 2)
        return out.reshape(-1, heads, head_dim), lse.view(apart).transpose(1, 2).reshape(-1, heads)

    def _gather(self, cache: Tensor, slots: Tensor | slice) -> Tensor:
        """Keys and values at `slots`, in a buffer that stays: a fresh one costs page faults."""
        if isinstance(slots, slice):
            return cache[slots]
        if len(self._gathered) < len(slots) or self._gathered.dtype != cache.dtype:
            self._gathered = cache.new_empty(max(len(slots), GROUP_KEYS), *cache.shape[1:])
        out = self._gathered[: len(slots)]
        return torch.index_select(cache, 0, slots, out=out)


def block_attention(
    q: Tensor, keys: Tensor, values: Tensor, causal: bool, mask: Tensor | None, scale: float
) -> tuple[Tensor, Tensor]:
    """Softmax attention and the log-sum-exp of its scores; several queries' heads per KV head."""
    if q.device.type == "cpu":
        out, lse = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            q, keys, values, 0.0, causal, attn_mask=mask, scale=scale
        )
        return out, lse
    group = q.shape[1] // keys.shape[1]
    keys, values = (x.repeat_interleave(group, 1) if group > 1 else x for x in (keys, values))
    scores = (q @ keys.mT).float() * scale
    if causal:
        size = scores.shape[-1]
        scores += torch.full((size, size), float("-inf"), device=q.device).triu_(1)
    if mask is not None:
        scores += mask
    lse = scores.logsumexp(-1)
    return (scores - lse.unsqueeze(-1)).exp().to(values.dtype) @ values, lse


def _pad(members: list[Item], keys: Index, tokens: Index, stacked: int = 1) -> tuple[Group, Index]:
    sizes = np.array(members, np.int64)
    most_queries, most_keys = int(sizes[:, 0].max()), int(sizes[:, 1].max())
    query = np.arange(most_queries)[None]
    real = query < sizes[:, :1]
    token = tokens[sizes[:, 2:3] + np.where(real, query, 0)]
    key = np.arange(most_keys)[None]
    slot = keys[sizes[:, 3:4] + np.minimum(key, sizes[:, 1:2] - 1)]
    mask = _mask(sizes, most_queries, most_keys, stacked)
    group = Group(len(members), most_queries, _index(token.ravel()), _index(slot.ravel()), mask)
    return group, np.where(real, token, -1).ravel()


def _mask(sizes: Index, queries: int, keys: int, stacked: int) -> Tensor | None:
    """-inf where a key is padding, or one of a query's own tokens that is later than itself."""
    key, last = np.arange(keys)[None], sizes[:, 1:2]
    own = sizes[:, 4:5]
    if (own <= 1).all():
        if (last == keys).all():
            return None
        out = (key >= last)[:, None]
    else:
        # Query i is key last - own + i. A padded query is as good as the first.
        query = np.minimum(np.arange(queries)[None], np.maximum(own, 1) - 1)
        end = np.where(own > 0, last - own + 1 + query, last)
        out = key[:, None] >= end[..., None]
        if queries < STACKED_QUERIES:
            out = np.repeat(out, stacked, axis=1)
    mask = np.where(out, np.float32("-inf"), np.float32(0))
    return torch.from_numpy(mask)[:, None]


def _own_groups(batch: Batch) -> list[tuple[Group, Index]]:
    """The causal part of every chunk. A padded key is later than every real query."""
    begins = (np.cumsum(batch.length) - batch.length).astype(np.int64)
    chunks = [
        Item(int(length), int(length), int(begin), int(begin))
        for length, begin in zip(batch.length, begins, strict=True)
        if length > SHORT
    ]
    found = []
    tokens = np.arange(len(batch.tokens), dtype=np.int64)
    for members in grouped(chunks):
        group, covered = _pad(members, tokens, tokens)
        found.append((group._replace(slots=None, mask=None), covered))
    return found


def _placement(tokens: Index, count: int) -> tuple[Tensor | None, Tensor | None]:
    """Where each of `count` tokens finds its partial results among those of `tokens`."""
    part = np.flatnonzero(tokens >= 0)
    part = part[np.argsort(tokens[part], kind="stable")]
    parts = np.bincount(tokens[part], minlength=count)
    if parts.max(initial=1) == 1:
        in_order = len(part) == len(tokens) and np.array_equal(part, np.arange(count))
        return (None if in_order else torch.from_numpy(part)), None
    nth = ranges(np.zeros_like(parts), parts)
    place = np.zeros((count, int(parts.max())), np.int64)
    absent = np.full((*place.shape, 1), -np.inf, np.float32)
    place[tokens[part], nth] = part
    absent[tokens[part], nth] = 0
    return torch.from_numpy(place), torch.from_numpy(absent)


def _index(where: Index) -> Tensor | slice:
    """A slice, which copies nothing, if the indices count up by one."""
    if len(where) and where[-1] - where[0] == len(where) - 1 and (np.diff(where) == 1).all():
        return slice(int(where[0]), int(where[-1]) + 1)
    return torch.from_numpy(np.ascontiguousarray(where))


def _take(x: Tensor, where: Tensor | slice) -> Tensor:
    return x[where] if isinstance(where, slice) else x.index_select(0, where)
