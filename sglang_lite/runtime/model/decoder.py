"""A decoder-only transformer over a paged KV cache, with a flag for each difference of a family.

Everything a step needs is an argument: tokens, positions, cache and the attention's plan.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from sglang_lite.kernels.protocol import Attention, Linear
from sglang_lite.runtime.model.config import ModelConfig
from sglang_lite.runtime.model.loader import Checkpoint, interleaved, joined
from sglang_lite.runtime.model.rope import turns


class Layer(NamedTuple):
    input_norm: Tensor
    qkv: Linear
    qk_norm: tuple[Tensor, Tensor] | None
    output: Linear
    mlp_norm: Tensor
    gate_up: Linear
    down: Linear


class Writes(NamedTuple):
    """What a step does to every layer's cache before it attends."""

    slots: Tensor  # [T]
    copy_from: Tensor | None
    copy_to: Tensor | None


class Decoder:
    """The weights of one model and what to do with them.

    Raises:
        ModelFileError: the weights in `folder` are not those of `config`.
    """

    def __init__(
        self,
        config: ModelConfig,
        checkpoint: Checkpoint,
        linear: type[Linear],
        *,
        positions: int,
        dtype: torch.dtype,
        device: str,
    ) -> None:
        self.config, self._linear, self._dtype, self._device = config, linear, dtype, device
        self._checkpoint = checkpoint
        embeddings = checkpoint.take("model.embed_tokens.weight", config.vocab, config.hidden)
        self.embeddings = embeddings.to(device=device, dtype=dtype)
        self.layers = [self._layer(f"model.layers.{index}") for index in range(config.layers)]
        self.norm = self._vector("model.norm.weight", config.hidden)
        if config.tied:
            self.head = linear(self.embeddings)
        else:
            head = checkpoint.take("lm_head.weight", config.vocab, config.hidden)
            self.head = linear(head.to(device=device, dtype=dtype))
        self.turns = turns(config.rope, config.head_dim, positions).unsqueeze(1).to(device)
        checkpoint.finish(config.tied)
        del self._checkpoint

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        wanted: Tensor | None,
        cache: Tensor,
        writes: Writes,
        attention: Attention,
        plan: object,
    ) -> Tensor:
        """Hidden states, before the last norm, of the `wanted` tokens (None: of all).

        `cache` is [layers, slots, 2, kv_heads, head_dim].
        """
        config = self.config
        x = self.embeddings.index_select(0, tokens)
        turn = self.turns.index_select(0, positions)
        for layer, layer_cache in zip(self.layers, cache, strict=True):
            qkv = layer.qkv(self._normed(x, layer.input_norm))
            qkv = qkv.view(len(tokens), -1, config.head_dim)
            self._turn(qkv, turn, layer)
            own = qkv[:, config.heads :].view(-1, 2, config.kv_heads, config.head_dim)
            layer_cache.index_copy_(0, writes.slots, own)
            if writes.copy_from is not None and writes.copy_to is not None:
                layer_cache[writes.copy_to] = layer_cache[writes.copy_from]
            attended = attention.attend(plan, qkv[:, : config.heads], own, layer_cache)
            attended = attended.reshape(len(tokens), -1)
            if layer is self.layers[-1] and wanted is not None:
                attended, x = attended.index_select(0, wanted), x.index_select(0, wanted)
            x = layer.output(attended, x)
            gate, up = layer.gate_up(self._normed(x, layer.mlp_norm)).chunk(2, -1)
            x = layer.down(F.silu(gate).mul_(up), x)
        return x

    def logits(self, hidden: Tensor) -> Tensor:
        """[rows, vocab] in float32."""
        return self.head(self._normed(hidden, self.norm)).float()

    def _turn(self, qkv: Tensor, turn: Tensor, layer: Layer) -> None:
        """Turn queries and keys, in place, by their positions."""
        heads, kv_heads = self.config.heads, self.config.kv_heads
        turned = qkv[:, : heads + kv_heads]
        if layer.qk_norm is not None:
            queries, keys = turned[:, :heads], turned[:, heads:]
            queries.copy_(self._normed(queries, layer.qk_norm[0]))
            keys.copy_(self._normed(keys, layer.qk_norm[1]))
        pairs = (*turned.shape[:-1], -1, 2)
        if qkv.dtype == torch.float32:
            torch.view_as_complex(turned.view(pairs)).mul_(turn)
        else:
            wide = torch.view_as_complex(turned.float().view(pairs))
            turned.copy_(torch.view_as_real(wide * turn).view(turned.shape))

    def _normed(self, x: Tensor, weight: Tensor) -> Tensor:
        return F.rms_norm(x, weight.shape, weight, self.config.eps)

    def _layer(self, name: str) -> Layer:
        config = self.config
        hidden, size = config.hidden, config.intermediate
        norms = None
        if config.qk_norm:
            queries, keys = (
                self._vector(f"{name}.self_attn.{x}_norm.weight", config.head_dim) for x in "qk"
            )
            norms = interleaved(queries, 1), interleaved(keys, 1)
        return Layer(
            input_norm=self._vector(f"{name}.input_layernorm.weight", hidden),
            qkv=self._qkv(f"{name}.self_attn"),
            qk_norm=norms,
            output=self._matrix(
                [f"{name}.self_attn.o_proj"],
                [hidden],
                config.heads * config.head_dim,
                config.output_bias,
            ),
            mlp_norm=self._vector(f"{name}.post_attention_layernorm.weight", hidden),
            gate_up=self._matrix(
                [f"{name}.mlp.gate_proj", f"{name}.mlp.up_proj"],
                [size, size],
                hidden,
                config.mlp_bias,
            ),
            down=self._matrix([f"{name}.mlp.down_proj"], [hidden], size, config.mlp_bias),
        )

    def _qkv(self, name: str) -> Linear:
        config = self.config
        weights, biases = [], []
        for kind, heads in (("q", config.heads), ("k", config.kv_heads), ("v", config.kv_heads)):
            rows = heads * config.head_dim
            weight = self._checkpoint.take(f"{name}.{kind}_proj.weight", rows, config.hidden)
            weights.append(weight if kind == "v" else interleaved(weight, heads))
            if config.qkv_bias:
                bias = self._checkpoint.take(f"{name}.{kind}_proj.bias", rows)
                biases.append(bias if kind == "v" else interleaved(bias, heads))
        return self._linear(self._joined(weights), self._joined(biases) if biases else None)

    def _matrix(self, names: list[str], rows: list[int], columns: int, bias: bool) -> Linear:
        take = self._checkpoint.take
        pairs = list(zip(names, rows, strict=True))
        weight = self._joined([take(f"{name}.weight", size, columns) for name, size in pairs])
        if not bias:
            return self._linear(weight)
        return self._linear(
            weight, self._joined([take(f"{name}.bias", size) for name, size in pairs])
        )

    def _vector(self, name: str, size: int) -> Tensor:
        return self._checkpoint.take(name, size).to(device=self._device, dtype=self._dtype)

    def _joined(self, parts: list[Tensor]) -> Tensor:
        return joined(parts, self._dtype, self._device)
