"""Tiny random checkpoints, as transformers writes them, and what it computes with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import transformers

from sglang_lite.config import EngineConfig, Resolved
from sglang_lite.runtime.execution.runner import ModelRunner

SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "vocab_size": 97,
    "max_position_embeddings": 128,
    "initializer_range": 0.5,
}


def save(folder: Path, family: str = "Llama", **changes: Any) -> transformers.PreTrainedModel:
    """Write a random model of `family` into `folder`."""
    torch.manual_seed(1)
    config = getattr(transformers, f"{family}Config")(**(SIZES | changes))
    model = getattr(transformers, f"{family}ForCausalLM")(config).float().eval()
    for name, parameter in model.named_parameters():
        if name.endswith(("bias", "norm.weight")):  # which transformers starts at 0 and 1
            parameter.data += torch.randn_like(parameter) * 0.3
    model.save_pretrained(folder)
    return model


def logprobs(model: transformers.PreTrainedModel, tokens: list[int]) -> torch.Tensor:
    """[len(tokens), vocab] by transformers, in one pass."""
    with torch.inference_mode():
        return model(torch.tensor([tokens])).logits[0].float().log_softmax(-1)


def runner(
    folder: Path, *, page_size: int = 1, dtype: Any = "float32", **options: Any
) -> ModelRunner:
    """A runner of the model in `folder`, with no sizing asked of this machine."""
    resolved = Resolved(
        config=EngineConfig(**options),
        device="cpu",
        dtype=dtype,
        page_size=page_size,
        num_pages=300,
        context_length=128,
        max_running_requests=8,
        chunk=512,
        threads=2,
    )
    return ModelRunner(resolved, folder)
