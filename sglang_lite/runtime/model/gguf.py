"""A GGUF file turned, once, into the folder that everything else reads. No torch here.

Weights become float32 exactly as the quantization defines them, written tensor by tensor, so a
conversion needs the memory of one tensor. Transformers is imported for the tokenizer alone.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import gguf
import numpy as np
from numpy.typing import NDArray

from sglang_lite.errors import ModelFileError

QUANTIZATIONS = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1")


class Architecture(NamedTuple):
    name: str  # as config.json calls it
    paired: bool  # queries and keys are stored as interleaved pairs


ARCHITECTURES = {
    "llama": Architecture("LlamaForCausalLM", paired=True),
    "qwen2": Architecture("Qwen2ForCausalLM", paired=False),
    "qwen3": Architecture("Qwen3ForCausalLM", paired=False),
}

_OUTER = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
}
_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


class GGUF:
    """An open GGUF file.

    Raises:
        ModelFileError: not a GGUF file, cut short, or of an architecture or type not known here.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._reader = gguf.GGUFReader(path)
        except OSError as error:
            raise ModelFileError(f"{path} cannot be read: {error}.") from error
        except (ValueError, IndexError, KeyError, OverflowError, MemoryError) as error:
            raise ModelFileError(
                f"{path} ({path.stat().st_size:,} bytes) is not a whole GGUF file: {error}; "
                "fetch it again."
            ) from error
        name = self._need("general.architecture")
        if name not in ARCHITECTURES:
            raise self._refused("architecture", name, ARCHITECTURES)
        self.prefix = str(name)
        self.architecture = ARCHITECTURES[self.prefix]
        for tensor in self._reader.tensors:
            if tensor.tensor_type.name not in QUANTIZATIONS:
                raise self._refused(
                    f"type of {tensor.name}", tensor.tensor_type.name, QUANTIZATIONS
                )

    @property
    def float_bytes(self) -> int:
        """What the weights take as float32."""
        return sum(4 * int(tensor.n_elements) for tensor in self._reader.tensors)

    @property
    def pre_tokenizer(self) -> str:
        """How text is cut before merges, by llama.cpp's name for it."""
        return str(self._value("tokenizer.ggml.pre", "default"))

    def config(self) -> dict[str, Any]:
        """What config.json says of such a model."""
        heads = int(self._need(f"{self.prefix}.attention.head_count"))
        hidden = int(self._need(f"{self.prefix}.embedding_length"))
        head_dim = int(self._value(f"{self.prefix}.attention.key_length", hidden // heads))
        rotated = int(self._value(f"{self.prefix}.rope.dimension_count", head_dim))
        shapes = {tensor.name: tensor.shape for tensor in self._reader.tensors}
        if "token_embd.weight" not in shapes:
            raise ModelFileError(f"{self.path} holds no token_embd.weight.")
        context = int(self._need(f"{self.prefix}.context_length"))
        return {
            "architectures": [self.architecture.name],
            "model_type": self.prefix,
            "hidden_size": hidden,
            "num_hidden_layers": int(self._need(f"{self.prefix}.block_count")),
            "num_attention_heads": heads,
            "num_key_value_heads": int(
                self._value(f"{self.prefix}.attention.head_count_kv", heads)
            ),
            "head_dim": head_dim,
            "intermediate_size": int(self._need(f"{self.prefix}.feed_forward_length")),
            "vocab_size": int(shapes["token_embd.weight"][1]),
            "max_position_embeddings": context,
            "rms_norm_eps": float(self._need(f"{self.prefix}.attention.layer_norm_rms_epsilon")),
            "hidden_act": "silu",
            "tie_word_embeddings": "output.weight" not in shapes,
            "rope_parameters": {
                "rope_theta": float(self._value(f"{self.prefix}.rope.freq_base", 10_000.0)),
                "partial_rotary_factor": rotated / head_dim,
                **self._scaling(context),
            },
            "bos_token_id": self._value("tokenizer.ggml.bos_token_id", None),
            "eos_token_id": self._value("tokenizer.ggml.eos_token_id", None),
        }

    def generation_config(self) -> dict[str, Any]:
        """The ids that start and end a text."""
        names = ("eos_token_id", "eot_token_id", "eom_token_id")
        ends = {self._value(f"tokenizer.ggml.{name}", None) for name in names} - {None}
        return {
            "bos_token_id": self._value("tokenizer.ggml.bos_token_id", None),
            "eos_token_id": sorted(ends),
        }

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...], Callable[[], NDArray[np.float32]]]]:
        """Of every tensor: its name as transformers has it, its shape, and how to get it."""
        for tensor in self._reader.tensors:
            shape = tuple(int(size) for size in reversed(tensor.shape))
            yield self._name(tensor.name), shape, self._dequantizer(tensor, shape)

    def _dequantizer(
        self, tensor: Any, shape: tuple[int, ...]
    ) -> Callable[[], NDArray[np.float32]]:
        def dequantize() -> NDArray[np.float32]:
            values: NDArray[np.float32] = gguf.dequantize(tensor.data, tensor.tensor_type)
            if not np.isfinite(values).all():
                raise ModelFileError(
                    f"{self.path}: {tensor.name} holds numbers that are not finite; the file is "
                    "damaged, fetch it again."
                )
            values = values.astype("<f4", copy=False).reshape(shape)
            kind = tensor.name.split(".")[-2]
            if self.architecture.paired and kind in ("attn_q", "attn_k"):
                values = _unpaired(values, self._heads(kind))
            return np.ascontiguousarray(values)

        return dequantize

    def _heads(self, kind: str) -> int:
        heads = self._need(f"{self.prefix}.attention.head_count")
        if kind == "attn_k":
            heads = self._value(f"{self.prefix}.attention.head_count_kv", heads)
        return int(heads)

    def _name(self, name: str) -> str:
        *path, kind, suffix = name.split(".")
        if path and path[0] == "blk" and kind in _LAYER:
            return f"model.layers.{path[1]}.{_LAYER[kind]}.{suffix}"
        if not path and kind in _OUTER:
            return f"{_OUTER[kind]}.{suffix}"
        raise self._refused("tensor", name, (*_OUTER, *_LAYER))

    def _scaling(self, context: int) -> dict[str, Any]:
        kind = self._value(f"{self.prefix}.rope.scaling.type", "none")
        if kind == "none":
            return {"rope_type": "default"}
        return {
            "rope_type": kind,
            "factor": float(self._need(f"{self.prefix}.rope.scaling.factor")),
            "original_max_position_embeddings": int(
                self._value(f"{self.prefix}.rope.scaling.original_context_length", context)
            ),
        }

    def _value(self, key: str, default: Any) -> Any:
        field = self._reader.get_field(key)
        return default if field is None else field.contents()

    def _need(self, key: str) -> Any:
        value = self._value(key, None)
        if value is None:
            raise ModelFileError(f"{self.path} does not say {key}, which every model needs.")
        return value

    def _refused(self, what: str, value: object, known: Any) -> ModelFileError:
        return ModelFileError(
            f"{self.path}: {what} {value!r} is not supported, only {', '.join(known)}."
        )


def write_weights(source: GGUF, path: Path, progress: Callable[[str, int, int], None]) -> None:
    """Write every tensor into one safetensors file, holding one of them in memory at a time."""
    header: dict[str, Any] = {}
    end = 0
    for name, shape, _ in source.tensors():
        start, end = end, end + 4 * int(np.prod(shape))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, _, dequantize in source.tensors():
            file.write(dequantize().data)
            progress("converting the weights", header[name]["data_offsets"][1], end)


def _unpaired(values: NDArray[np.float32], heads: int) -> NDArray[np.float32]:
    """Rows of each head from (0, d/2, 1, d/2 + 1, ...) back to (0, 1, 2, ...)."""
    pairs = values.reshape(heads, -1, 2, *values.shape[1:])
    return pairs.swapaxes(1, 2).reshape(values.shape)
