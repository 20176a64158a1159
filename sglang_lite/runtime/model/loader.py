"""Weights from safetensors files, mapped into memory and checked by name and shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from sglang_lite.errors import ModelFileError


class Checkpoint:
    """All tensors of a model folder, read when asked for.

    Raises:
        ModelFileError: no weights, a shard missing, or a file cut short.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._where: dict[str, Any] = {}
        for path in self._shards():
            try:
                shard: Any = safe_open(path, framework="pt")
            except (SafetensorError, OSError) as error:
                raise ModelFileError(
                    f"{path} is not a whole safetensors file: {error}; fetch it again."
                ) from error
            self._where.update(dict.fromkeys(shard.keys(), shard))
        self._untaken = set(self._where)

    def take(self, name: str, *shape: int) -> Tensor:
        """The tensor called `name`, as the file has it."""
        if name not in self._where:
            raise ModelFileError(
                f"{self.folder} has no tensor {name!r} of shape {list(shape)}; its config.json and "
                "its weights do not belong together."
            )
        self._untaken.discard(name)
        tensor: Tensor = self._where[name].get_tensor(name)
        if tuple(tensor.shape) != shape:
            raise ModelFileError(
                f"{self.folder}: tensor {name!r} has shape {list(tensor.shape)}, and config.json "
                f"asks for {list(shape)}."
            )
        if not tensor.is_floating_point() or tensor.element_size() == 1:
            raise ModelFileError(f"{self.folder}: tensor {name!r} is {tensor.dtype}, not a float.")
        return tensor

    def finish(self, tied: bool) -> None:
        """Refuse weights that nobody asked for: they would silently change nothing."""
        ignored = {"lm_head.weight"} if tied else set()
        rest = {name for name in self._untaken if not name.endswith("rotary_emb.inv_freq")}
        if rest := rest - ignored:
            raise ModelFileError(
                f"{self.folder} holds {len(rest)} tensors that the model has no use for, the first "
                f"is {min(rest)!r}; its config.json and its weights do not belong together."
            )

    def _shards(self) -> list[Path]:
        index = self.folder / "model.safetensors.index.json"
        if not index.exists():
            found = sorted(self.folder.glob("*.safetensors"))
            if not found:
                raise ModelFileError(
                    f"{self.folder} holds no *.safetensors; other weight formats are not read."
                )
            return found
        try:
            names = set(json.loads(index.read_text("utf-8"))["weight_map"].values())
        except (ValueError, KeyError, AttributeError) as error:
            raise ModelFileError(f"{index} is not an index of shards: {error!r}.") from error
        missing = sorted(name for name in names if not (self.folder / name).exists())
        if missing:
            raise ModelFileError(
                f"{self.folder} lacks {len(missing)} of {len(names)} shards, the first is "
                f"{missing[0]}; fetch it again."
            )
        return [self.folder / name for name in sorted(names)]


def interleaved(weight: Tensor, heads: int) -> Tensor:
    """Rows of each head reordered so that the two dimensions turned together are neighbours."""
    pairs = weight.view(heads, 2, -1, *weight.shape[1:])
    return pairs.transpose(1, 2).reshape(weight.shape)


def joined(parts: list[Tensor], dtype: torch.dtype, device: str) -> Tensor:
    """Matrices with the same input as one, so that they are one multiplication."""
    return torch.cat([part.to(device=device, dtype=dtype) for part in parts])
