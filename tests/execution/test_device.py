from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sglang_lite.errors import InvalidConfig
from sglang_lite.runtime.execution import device


def test_this_machine() -> None:
    machine = device.probe("cpu")

    assert machine.device == "cpu"
    assert machine.cores >= 1
    assert machine.free_bytes > 0


def test_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)

    with pytest.raises(InvalidConfig, match=r"--device cuda: PyTorch .* use --device cpu"):
        device.probe("cuda")
    with pytest.raises(InvalidConfig, match="--device is one of auto, cpu, cuda, got 'tpu'"):
        device.probe("tpu")
    assert device.probe("auto").device == "cpu"


def test_a_control_group_bounds_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = tuple(tmp_path / name for name in ("max", "current", "stat"))
    monkeypatch.setattr(device, "_CONTROL_GROUP_FILES", (files,))
    unbounded = device.probe("cpu").free_bytes

    files[0].write_text("max\n")
    assert device.probe("cpu").free_bytes == pytest.approx(unbounded, rel=0.2)
    files[0].write_text("1000000\n")
    assert device.probe("cpu").free_bytes == 1_000_000
    files[1].write_text("900000\n")
    files[2].write_text("anon 1\ninactive_file 400000\n")
    assert device.probe("cpu").free_bytes == 500_000
