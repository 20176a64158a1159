"""What a kernel must be, and where each one is.

A backend is one class in one file, and its line in a table here; `tests/kernels` compares every
one of them with the oracle in `reference.py`. The tables hold names, so that listing them imports
nothing.
"""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from sglang_lite.errors import InvalidConfig
from sglang_lite.runtime.scheduling.batch import Batch

ATTENTION = {
    "segments": "sglang_lite.kernels.segments:SegmentAttention",
    "fixed": "sglang_lite.kernels.fixed:FixedAttention",
    "reference": "sglang_lite.kernels.reference:ReferenceAttention",
}
LINEAR = {
    "packed": "sglang_lite.kernels.linear:PackedLinear",
    "dense": "sglang_lite.kernels.linear:DenseLinear",
    "fixed": "sglang_lite.kernels.fixed:FixedLinear",
}


class Geometry(NamedTuple):
    """The sizes that attention needs to know."""

    heads: int
    kv_heads: int
    head_dim: int
    page_size: int


class Attention(Protocol):
    """Attention of a batch's tokens over the KV cache.

    `cache` is one layer's [slots, 2, kv_heads, head_dim], keys before values, and already holds
    the batch's own tokens. What depends on the batch alone is prepared once, by `plan`.
    """

    def __init__(self, geometry: Geometry, device: str = "cpu") -> None: ...

    def plan(self, batch: Batch) -> Any:
        """Index tensors for `attend`, the same in every layer."""
        ...

    def attend(self, plan: Any, queries: Tensor, own: Tensor, cache: Tensor) -> Tensor:
        """[T, heads, head_dim] from `queries` of that shape.

        `own` is [T, 2, kv_heads, head_dim], what this batch wrote into the cache.
        """
        ...


class Linear(Protocol):
    """x @ weight.T + bias, with the weight kept as the kernel likes it."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None: ...

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        """[rows, out] from [rows, in], plus `residual` if given."""
        ...


def attention(name: str) -> type[Attention]:
    """The attention backend called `name`."""
    found: type[Attention] = _load("--attention-backend", ATTENTION, name)
    return found


def linear(name: str) -> type[Linear]:
    """The linear backend called `name`."""
    found: type[Linear] = _load("the linear backend", LINEAR, name)
    return found


def _load(what: str, table: dict[str, str], name: str) -> Any:
    if name not in table:
        raise InvalidConfig(f"{what} is one of auto, {', '.join(table)}, got {name!r}.")
    module, _, attribute = table[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
