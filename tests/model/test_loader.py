from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from sglang_lite.errors import ModelFileError
from sglang_lite.runtime.model.loader import Checkpoint, interleaved


def test_tensors_of_several_shards(tmp_path: Path) -> None:
    save_file({"a": torch.ones(2, 3)}, tmp_path / "x-1.safetensors")
    save_file({"b": torch.zeros(4)}, tmp_path / "x-2.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "x-1.safetensors", "b": "x-2.safetensors"}}))

    checkpoint = Checkpoint(tmp_path)

    assert checkpoint.take("a", 2, 3).sum() == 6
    with pytest.raises(ModelFileError, match=r"1 tensors .* no use for, the first is 'b'"):
        checkpoint.finish(tied=False)
    assert checkpoint.take("b", 4).sum() == 0
    checkpoint.finish(tied=False)

    (tmp_path / "x-2.safetensors").unlink()
    with pytest.raises(ModelFileError, match=r"lacks 1 of 2 shards, the first is x-2\.safetensors"):
        Checkpoint(tmp_path)
    index.write_text("{}")
    with pytest.raises(ModelFileError, match="not an index"):
        Checkpoint(tmp_path)


def test_wrong_tensors_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"holds no \*\.safetensors"):
        Checkpoint(tmp_path)
    path = tmp_path / "model.safetensors"
    save_file({"a": torch.ones(2, 3), "n": torch.ones(1, dtype=torch.int32)}, path)

    checkpoint = Checkpoint(tmp_path)

    with pytest.raises(ModelFileError, match=r"no tensor 'c' of shape \[2\]"):
        checkpoint.take("c", 2)
    with pytest.raises(ModelFileError, match=r"'a' has shape \[2, 3\], .* asks for \[3, 2\]"):
        checkpoint.take("a", 3, 2)
    with pytest.raises(ModelFileError, match=r"'n' is torch\.int32"):
        checkpoint.take("n", 1)

    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(ModelFileError, match="not a whole safetensors file"):
        Checkpoint(tmp_path)


def test_a_tied_head_in_the_file_is_no_error(tmp_path: Path) -> None:
    save_file({"lm_head.weight": torch.ones(1)}, tmp_path / "model.safetensors")

    Checkpoint(tmp_path).finish(tied=True)


def test_interleaved_rows() -> None:
    rows = torch.arange(8)

    assert interleaved(rows, 2).tolist() == [0, 2, 1, 3, 4, 6, 5, 7]
