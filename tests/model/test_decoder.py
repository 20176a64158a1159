"""Every family and every rotation against transformers, on tiny random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import logprobs, runner, save
from stories import Story

TOKENS = [int(token) for token in np.random.default_rng(5).integers(0, 97, 60)]

ROPES: dict[str, dict[str, Any]] = {
    "default": {"rope_type": "default", "rope_theta": 1_000.0},
    "linear": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10_000.0},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
        "rope_theta": 1_000.0,
    },
    "yarn": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 32,
        "rope_theta": 10_000.0,
    },
    "yarn mscale": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 32,
        "rope_theta": 10_000.0,
        "mscale": 0.7,
        "mscale_all_dim": 1.2,
        "beta_fast": 16.0,
        "beta_slow": 2.0,
    },
}

FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "tied": ("Llama", {"tie_word_embeddings": True}),
    "biases": ("Llama", {"attention_bias": True, "mlp_bias": True}),
    "wide heads": ("Llama", {"head_dim": 24}),
    "one kv head": ("Llama", {"num_key_value_heads": 1}),
    "mistral": ("Mistral", {"sliding_window": None}),
    "mistral, long window": ("Mistral", {"sliding_window": 128}),
    "qwen2": ("Qwen2", {}),
    "qwen3": ("Qwen3", {"head_dim": 8}),
}


def check(folder: Path, model: Any) -> None:
    found = Story(runner(folder)).logprobs(TOKENS, [20, 1, 1, 30, 8], 97)

    np.testing.assert_allclose(found, logprobs(model, TOKENS).numpy(), atol=1e-3)


@pytest.mark.parametrize("rope", ROPES.values(), ids=ROPES)
def test_rotations(tmp_path: Path, rope: dict[str, Any]) -> None:
    check(tmp_path, save(tmp_path, rope_parameters=rope))


@pytest.mark.parametrize(("family", "changes"), FAMILIES.values(), ids=FAMILIES)
def test_families(tmp_path: Path, family: str, changes: dict[str, Any]) -> None:
    check(tmp_path, save(tmp_path, family, **changes))
