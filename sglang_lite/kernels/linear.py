"""Matrix multiplication by a fixed weight.

`F.linear` re-orders a weight into the processor's preferred blocks on every call. oneDNN takes a
weight re-ordered once: on two AVX2 cores SmolLM2's matrices then take 1.0 to 2.5 times less, the
more so the fewer the rows.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


class DenseLinear:
    """PyTorch's own; right on every device."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight = weight
        self.bias = bias

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        y = F.linear(x, self.weight, self.bias)
        return y if residual is None else y.add_(residual)


class PackedLinear:
    """oneDNN with the weight in its blocked layout; on the CPU only.

    The blocked copy is the only one kept: a weight mapped from a file is read once and let go.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight)
        self.bias = bias

    def __call__(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        if residual is not None:
            y: Tensor = torch.ops.mkldnn._linear_pointwise.binary(
                x, residual, self.weight, self.bias, "add"
            )
            return y
        z: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")
        return z


def best(dtype: torch.dtype, device: str) -> str:
    """The fastest linear backend that works here."""
    if device != "cpu" or not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return "dense"
    if dtype == torch.bfloat16 and not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return "dense"
    return "packed"
