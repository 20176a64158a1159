"""GGUF files of tiny random Llamas, written with the gguf package as llama.cpp would."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

LAYERS, HEADS, KV_HEADS, HIDDEN, MIDDLE, VOCAB = 2, 4, 2, 64, 96, 40

NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


def weights(tied: bool = True) -> dict[str, np.ndarray]:
    """Random weights by transformers' names."""
    random = np.random.default_rng(3)
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens": (VOCAB, HIDDEN)}
    for layer in range(LAYERS):
        for name in NAMES:
            rows, columns = HIDDEN, HIDDEN
            if name in ("self_attn.k_proj", "self_attn.v_proj"):
                rows = HIDDEN * KV_HEADS // HEADS
            if name in ("mlp.gate_proj", "mlp.up_proj"):
                rows = MIDDLE
            if name == "mlp.down_proj":
                columns = MIDDLE
            shape = (HIDDEN,) if name.endswith("norm") else (rows, columns)
            shapes[f"model.layers.{layer}.{name}"] = shape
    shapes["model.norm"] = (HIDDEN,)
    if not tied:
        shapes["lm_head"] = (VOCAB, HIDDEN)
    return {
        f"{name}.weight": random.normal(size=shape).astype(np.float32)
        for name, shape in shapes.items()
    }


def paired(weight: np.ndarray, heads: int) -> np.ndarray:
    """Query and key rows as llama.cpp orders them."""
    halves = weight.reshape(heads, 2, weight.shape[0] // heads // 2, -1)
    return halves.swapaxes(1, 2).reshape(weight.shape)


def gguf_name(name: str) -> str:
    outer = {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }
    if name in outer:
        return outer[name]
    _, _, layer, *middle, suffix = name.split(".")
    return f"blk.{layer}.{NAMES['.'.join(middle)]}.{suffix}"


def write(
    path: Path,
    tensors: dict[str, np.ndarray],
    kind: str = "F32",
    architecture: str = "llama",
    leave_out: str = "",
) -> None:
    """Write `tensors` quantized as `kind`; norms stay float32, as llama.cpp has it."""
    writer = gguf.GGUFWriter(path, architecture)
    fields = {
        "context_length": 128,
        "embedding_length": HIDDEN,
        "block_count": LAYERS,
        "feed_forward_length": MIDDLE,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
    }
    for name, value in fields.items():
        if name != leave_out:
            writer.add_uint32(f"{architecture}.{name}", value)
    writer.add_float32(f"{architecture}.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_float32(f"{architecture}.rope.freq_base", 5_000.0)
    writer.add_uint32("tokenizer.ggml.eos_token_id", 2)
    writer.add_uint32("tokenizer.ggml.eot_token_id", 7)
    for name, tensor in tensors.items():
        heads = {"q_proj": HEADS, "k_proj": KV_HEADS}.get(name.split(".")[-2])
        data = paired(tensor, heads) if heads and architecture == "llama" else tensor
        type = gguf.GGMLQuantizationType[kind if tensor.ndim > 1 else "F32"]
        if type.name == "F16":
            data = data.astype(np.float16)
        if type.name in ("F32", "F16"):
            writer.add_tensor(gguf_name(name), data)
        else:
            quantized = gguf.quantize(data, type)
            writer.add_tensor(gguf_name(name), quantized, raw_dtype=type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
