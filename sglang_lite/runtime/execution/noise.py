"""Randomness that depends on (seed, position, token id) and on nothing else.

A draw takes the largest of logit + Gumbel noise, and the noise of a token is a hash of where it
stands. So a text does not depend on which rows share a batch, on retraction, or on filters that
leave the drawn token in.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def keys(seed: NDArray[np.uint64], position: NDArray[np.int32]) -> NDArray[np.int32]:
    """[rows, 2] hash keys, splitmix64 of seed and position."""
    with np.errstate(over="ignore"):
        x = seed + (position.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    halves: NDArray[np.int32] = x.view(np.int32).reshape(-1, 2)
    return halves


def gumbel(key: Tensor, ids: Tensor) -> Tensor:
    """Gumbel noise for the token `ids` (int32), under the two int32 of `key` (broadcast)."""
    x = _spread(ids * _signed(0x9E3779B1) ^ key[..., :1], 16, 0x85EBCA6B)
    x = _spread(x.add_(key[..., 1:]), 13, 0xC2B2AE35)
    # The upper 23 bits, and a half: never 0 or 1, and exact in float32.
    uniform = _shifted(x, 9).float().add_(0.5).mul_(2.0**-23)
    return uniform.log_().neg_().log_().neg_()


def _spread(x: Tensor, shift: int, factor: int) -> Tensor:
    x ^= _shifted(x, shift)
    return x.mul_(_signed(factor))


def _shifted(x: Tensor, by: int) -> Tensor:
    """`x` as an unsigned number, shifted right."""
    return torch.bitwise_right_shift(x, by).bitwise_and_((1 << (32 - by)) - 1)


def _signed(value: int) -> int:
    return value - (1 << 32) if value >= 1 << 31 else value
