from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from gguf_files import KV_HEADS, gguf_name, weights, write
from safetensors.numpy import load_file

from sglang_lite.errors import ModelFileError
from sglang_lite.runtime.model.config import read_config
from sglang_lite.runtime.model.gguf import GGUF, QUANTIZATIONS, write_weights


def ignore(_what: str, _done: int, _all: int) -> None:
    """No progress wanted."""


@pytest.mark.parametrize("kind", QUANTIZATIONS)
@pytest.mark.parametrize("tied", [True, False])
def test_weights_are_what_the_quantization_defines(tmp_path: Path, kind: str, tied: bool) -> None:
    tensors = weights(tied)
    write(tmp_path / "m.gguf", tensors, kind)

    source = GGUF(tmp_path / "m.gguf")
    write_weights(source, tmp_path / "model.safetensors", ignore)

    found = load_file(tmp_path / "model.safetensors")
    assert found.keys() == tensors.keys()
    type = gguf.GGMLQuantizationType[kind]
    for name, tensor in tensors.items():
        exact = tensor
        if tensor.ndim > 1:
            exact = gguf.dequantize(gguf.quantize(tensor, type), type).reshape(tensor.shape)
        np.testing.assert_array_equal(found[name], exact, err_msg=name)


@pytest.mark.parametrize("architecture", ["llama", "qwen3"])
def test_the_config_is_one_that_loads(tmp_path: Path, architecture: str) -> None:
    write(tmp_path / "m.gguf", weights(), architecture=architecture)
    source = GGUF(tmp_path / "m.gguf")
    (tmp_path / "config.json").write_text(json.dumps(source.config()))
    (tmp_path / "generation_config.json").write_text(json.dumps(source.generation_config()))

    config = read_config(tmp_path)

    assert (config.hidden, config.kv_heads, config.head_dim) == (64, KV_HEADS, 16)
    assert (config.vocab, config.context, config.tied) == (40, 128, True)
    assert config.rope.theta == 5_000.0
    assert config.eos_ids == (2, 7)


def test_a_converted_model_says_what_transformers_says(tmp_path: Path) -> None:
    """Undoing the pairing of query and key rows is right only if the logits are."""
    transformers = pytest.importorskip("transformers")
    from checkpoints import logprobs, runner
    from stories import Story

    write(tmp_path / "m.gguf", weights())
    source = GGUF(tmp_path / "m.gguf")
    write_weights(source, tmp_path / "model.safetensors", ignore)
    (tmp_path / "config.json").write_text(json.dumps(source.config()))
    tokens = [5, 1, 30, 2, 2, 39, 17, 8, 11]
    config = transformers.LlamaConfig.from_pretrained(tmp_path)
    original = transformers.LlamaForCausalLM(config)
    state = {name: torch.from_numpy(tensor) for name, tensor in weights().items()}
    original.load_state_dict(state, strict=False)

    found = Story(runner(tmp_path)).logprobs(tokens, [9], 40)

    np.testing.assert_allclose(found, logprobs(original.eval(), tokens).numpy(), atol=1e-3)


def test_other_quantizations_and_architectures_are_refused_by_name(tmp_path: Path) -> None:
    write(tmp_path / "m.gguf", weights(), "Q5_0")
    with pytest.raises(ModelFileError, match=r"type of token_embd.weight 'Q5_0' is not supported"):
        GGUF(tmp_path / "m.gguf")

    write(tmp_path / "m.gguf", {}, architecture="gemma")
    with pytest.raises(ModelFileError, match="architecture 'gemma' is not supported, only llama"):
        GGUF(tmp_path / "m.gguf")


def test_a_missing_size_is_named(tmp_path: Path) -> None:
    write(tmp_path / "m.gguf", weights(), leave_out="block_count")

    with pytest.raises(ModelFileError, match=r"does not say llama\.block_count"):
        GGUF(tmp_path / "m.gguf").config()


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    write(path, weights(), "Q4_1")
    whole = path.read_bytes()
    for length in [0, 3, 10, 60, 200, 900, len(whole) // 2, len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(ModelFileError, match=f"{length:,} bytes.*not a whole GGUF file"):
            GGUF(path)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(b"PK" + bytes(500))
    with pytest.raises(ModelFileError, match="not a whole GGUF file"):
        GGUF(tmp_path / "m.gguf")
    with pytest.raises(ModelFileError, match="cannot be read"):
        GGUF(tmp_path / "none.gguf")


def test_numbers_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    tensors = weights()
    tensors["model.layers.1.mlp.up_proj.weight"][3, 4] = np.nan
    write(tmp_path / "m.gguf", tensors)

    with pytest.raises(ModelFileError, match=gguf_name("model.layers.1.mlp.up_proj.weight")):
        write_weights(GGUF(tmp_path / "m.gguf"), tmp_path / "model.safetensors", ignore)
