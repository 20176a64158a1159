"""What a checkpoint's config.json says, as one frozen value. No torch here.

Whatever would change the arithmetic and has no code behind it is refused by name: a model that
loads computes what its authors meant.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sglang_lite.config import ModelFacts
from sglang_lite.errors import ModelFileError
from sglang_lite.runtime.model.families import FAMILIES

ROPE_KINDS = ("default", "linear", "llama3", "yarn")
DEFAULT_THETA = 10_000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rope:
    """How positions turn queries and keys. Fields that a kind does not use keep their default."""

    theta: float = DEFAULT_THETA
    kind: str = "default"
    factor: float = 1.0
    original_context: int = 0
    low_freq_factor: float = 1.0  # llama3
    high_freq_factor: float = 4.0
    beta_fast: float = 32.0  # yarn
    beta_slow: float = 1.0
    attention_factor: float | None = None
    mscale: float | None = None
    mscale_all_dim: float | None = None
    truncate: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """One decoder-only model."""

    architecture: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    context: int
    eps: float
    rope: Rope
    tied: bool
    qkv_bias: bool
    output_bias: bool
    mlp_bias: bool
    qk_norm: bool
    eos_ids: tuple[int, ...]

    @property
    def parameters(self) -> int:
        """How many weights the model has; tied embeddings count once."""
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        layer = 2 * self.hidden * (q + kv) + 3 * self.hidden * self.intermediate + 2 * self.hidden
        layer += (q + 2 * kv) * self.qkv_bias + self.hidden * self.output_bias
        layer += (2 * self.intermediate + self.hidden) * self.mlp_bias
        layer += 2 * self.head_dim * self.qk_norm
        embeddings = self.vocab * self.hidden * (1 if self.tied else 2)
        return self.layers * layer + embeddings + self.hidden


def read_config(folder: str | Path) -> ModelConfig:
    """The model in `folder`.

    Raises:
        ModelFileError: no readable config.json, or one that asks for what is not implemented.
    """
    path = Path(folder) / "config.json"
    raw = _read_json(path)
    try:
        return _config(raw, _eos_ids(raw, Path(folder) / "generation_config.json"), path)
    except KeyError as missing:
        raise ModelFileError(
            f"{path} has no {missing.args[0]!r}, which every model needs."
        ) from None
    except (TypeError, ValueError, ZeroDivisionError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{path} holds a value of the wrong kind: {error}.") from error


def read_facts(folder: str | Path) -> ModelFacts:
    """What sizing needs to know about the model in `folder`."""
    config = read_config(folder)
    return ModelFacts(
        context_length=config.context,
        parameters=config.parameters,
        kv_elements_per_token=2 * config.layers * config.kv_heads * config.head_dim,
    )


def _config(raw: dict[str, Any], eos_ids: tuple[int, ...], path: Path) -> ModelConfig:
    architecture = (raw.get("architectures") or ["(none)"])[0]
    family = FAMILIES.get(architecture)
    if family is None:
        raise _refused(path, "architectures", architecture, f"one of {', '.join(FAMILIES)}")
    for name, accepted in (("hidden_act", "silu"), ("quantization_config", None)):
        if raw.get(name, accepted) != accepted:
            raise _refused(path, name, raw[name], repr(accepted))
    heads = int(raw["num_attention_heads"])
    kv_heads = int(raw.get("num_key_value_heads") or heads)
    if heads % kv_heads:
        raise _refused(path, "num_key_value_heads", kv_heads, f"a divisor of the {heads} heads")
    attention_bias = bool(raw.get("attention_bias", False))
    return ModelConfig(
        architecture=architecture,
        hidden=int(raw["hidden_size"]),
        layers=int(raw["num_hidden_layers"]),
        heads=heads,
        kv_heads=kv_heads,
        head_dim=int(raw.get("head_dim") or int(raw["hidden_size"]) // heads),
        intermediate=int(raw["intermediate_size"]),
        vocab=int(raw["vocab_size"]),
        context=_context(raw),
        eps=float(raw.get("rms_norm_eps", 1e-6)),
        rope=_rope(raw, path),
        tied=bool(raw.get("tie_word_embeddings", False)),
        qkv_bias=attention_bias if family.qkv_bias is None else family.qkv_bias,
        output_bias=attention_bias if family.output_bias is None else family.output_bias,
        mlp_bias=bool(raw.get("mlp_bias", False)),
        qk_norm=family.qk_norm,
        eos_ids=eos_ids,
    )


def _context(raw: dict[str, Any]) -> int:
    """The positions the model takes; within a sliding window it is ordinary attention."""
    context = int(raw["max_position_embeddings"])
    window = raw.get("sliding_window")
    if window and raw.get("use_sliding_window", True):
        return min(context, int(window))
    return context


def _rope(raw: dict[str, Any], path: Path) -> Rope:
    """From `rope_parameters` (new) or `rope_theta` and `rope_scaling` (old)."""
    found = dict(raw.get("rope_scaling") or {}) | dict(raw.get("rope_parameters") or {})
    if any(isinstance(value, dict) for value in found.values()):
        raise _refused(path, "rope_parameters", sorted(found), "one rotation for all layers")
    kind = found.get("rope_type") or found.get("type") or "default"
    if kind not in ROPE_KINDS:
        raise _refused(path, "rope_type", kind, f"one of {', '.join(ROPE_KINDS)}")
    partial = found.get("partial_rotary_factor", raw.get("partial_rotary_factor", 1.0))
    if partial != 1.0:
        raise _refused(path, "partial_rotary_factor", partial, "1.0")
    original = int(
        found.get("original_max_position_embeddings")
        or raw.get("original_max_position_embeddings")
        or raw["max_position_embeddings"]
    )
    factor = found.get("factor") or int(raw["max_position_embeddings"]) / original
    optional = ("attention_factor", "mscale", "mscale_all_dim")
    return Rope(
        theta=float(found.get("rope_theta") or raw.get("rope_theta") or DEFAULT_THETA),
        kind=kind,
        factor=float(factor),
        original_context=original,
        low_freq_factor=float(found.get("low_freq_factor", 1.0)),
        high_freq_factor=float(found.get("high_freq_factor", 4.0)),
        beta_fast=float(found.get("beta_fast") or 32.0),
        beta_slow=float(found.get("beta_slow") or 1.0),
        truncate=bool(found.get("truncate", True)),
        **{name: float(found[name]) for name in optional if found.get(name) is not None},
    )


def _eos_ids(raw: dict[str, Any], generation: Path) -> tuple[int, ...]:
    """Every id that ends a text, of config.json and generation_config.json together."""
    ids: set[int] = set()
    for source in (raw, _read_json(generation) if generation.exists() else {}):
        value = source.get("eos_token_id")
        ids.update(value if isinstance(value, list) else [] if value is None else [value])
    return tuple(sorted(ids))


def _read_json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ModelFileError(
            f"{path} does not exist; a model folder holds config.json, tokenizer.json and "
            "*.safetensors."
        ) from None
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{path} cannot be read: {error}.") from error
    if not isinstance(found, dict):
        raise ModelFileError(f"{path} holds no JSON object.")
    return found


def _refused(path: Path, name: str, value: object, accepted: str) -> ModelFileError:
    return ModelFileError(f"{path}: {name} {value!r} is not supported, only {accepted}.")
