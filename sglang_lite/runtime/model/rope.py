"""The turning of queries and keys by their position, as complex factors.

A head's dimensions are stored as interleaved pairs (the loader reorders the rows of the query and
key weights once), so turning all heads of a token is one complex multiplication.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sglang_lite.runtime.model.config import Rope


def turns(rope: Rope, head_dim: int, positions: int) -> Tensor:
    """[positions, head_dim / 2] complex factors, already scaled where the kind asks for it."""
    frequencies = _FREQUENCIES[rope.kind](rope, head_dim)
    angles = torch.outer(torch.arange(positions, dtype=torch.float32), frequencies)
    return torch.polar(torch.full_like(angles, _magnitude(rope)), angles)


def _plain(rope: Rope, head_dim: int) -> Tensor:
    steps = torch.arange(0, head_dim, 2, dtype=torch.int64).float()
    return 1.0 / (rope.theta ** (steps / head_dim))


def _linear(rope: Rope, head_dim: int) -> Tensor:
    return _plain(rope, head_dim) / rope.factor


def _llama3(rope: Rope, head_dim: int) -> Tensor:
    """Long wavelengths are stretched by `factor`, short ones kept, those between blended."""
    frequencies = _plain(rope, head_dim)
    wavelengths = 2 * math.pi / frequencies
    span = rope.high_freq_factor - rope.low_freq_factor
    keep = (rope.original_context / wavelengths - rope.low_freq_factor) / span
    keep = keep.clamp(0.0, 1.0)
    return (1 - keep) * frequencies / rope.factor + keep * frequencies


def _yarn(rope: Rope, head_dim: int) -> Tensor:
    """Dimensions that turn often are kept, those that turn rarely stretched, a ramp between."""

    def dimension(rotations: float) -> float:
        reach = math.log(rope.original_context / (rotations * 2 * math.pi))
        return head_dim * reach / (2 * math.log(rope.theta))

    low, high = dimension(rope.beta_fast), dimension(rope.beta_slow)
    if rope.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    ramp = torch.arange(head_dim // 2, dtype=torch.float32) - low
    stretch = (ramp / (high - low or 0.001)).clamp(0.0, 1.0)
    frequencies = _plain(rope, head_dim)
    return frequencies / rope.factor * stretch + frequencies * (1 - stretch)


def _magnitude(rope: Rope) -> float:
    """Yarn makes queries and keys a little longer, against attention going flat."""
    if rope.kind != "yarn":
        return 1.0
    if rope.attention_factor is not None:
        return rope.attention_factor

    def scale(weight: float) -> float:
        return 0.1 * weight * math.log(rope.factor) + 1.0 if rope.factor > 1 else 1.0

    if rope.mscale and rope.mscale_all_dim:
        return scale(rope.mscale) / scale(rope.mscale_all_dim)
    return scale(1.0)


_FREQUENCIES = {"default": _plain, "linear": _linear, "llama3": _llama3, "yarn": _yarn}
