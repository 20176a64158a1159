"""Which architectures the decoder can be, and how each differs from Llama.

A family is one line: the differences that `decoder.py` has a flag for. To add one, add its line;
what has no flag yet is added there first.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Family:
    """The differences from Llama."""

    qkv_bias: bool | None = None  # None: as `attention_bias` in config.json says
    output_bias: bool | None = None  # the attention's output projection, likewise
    qk_norm: bool = False  # RMSNorm over each head's queries and keys, before the rotation


FAMILIES = {
    "LlamaForCausalLM": Family(),
    "MistralForCausalLM": Family(qkv_bias=False, output_bias=False),
    "Qwen2ForCausalLM": Family(qkv_bias=True, output_bias=False),
    "Qwen3ForCausalLM": Family(qk_norm=True),
}
