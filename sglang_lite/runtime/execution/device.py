"""What this machine has: memory to use, cores, and whether it multiplies bfloat16 in hardware."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import torch

from sglang_lite.config import Machine
from sglang_lite.errors import InvalidConfig

DEVICES = ("auto", "cpu", "cuda")


def probe(device: str) -> Machine:
    """Facts about `device`; "auto" is the GPU if there is one.

    Raises:
        InvalidConfig: no such device here.
    """
    if device not in DEVICES:
        raise InvalidConfig(f"--device is one of {', '.join(DEVICES)}, got {device!r}.")
    if device == "cuda" or (device == "auto" and torch.cuda.is_available()):
        return _gpu()
    return Machine(
        device="cpu", free_bytes=_free_memory(), cores=_cores(), fast_bfloat16=_fast_bfloat16()
    )


def _gpu() -> Machine:
    if not torch.cuda.is_available():
        built = "was built without CUDA" if torch.version.cuda is None else "finds no usable GPU"
        raise InvalidConfig(
            f"--device cuda: PyTorch {torch.__version__} {built}; install a CUDA build of torch "
            "and the GPU's driver, or use --device cpu."
        )
    free, _ = torch.cuda.mem_get_info()
    return Machine(
        device="cuda",
        free_bytes=free,
        cores=_cores(),
        fast_bfloat16=torch.cuda.get_device_capability() >= (8, 0),
    )


def _cores() -> int:
    """Physical cores this process may run on: two threads of one core share its multipliers."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return max(1, min(allowed or 1, psutil.cpu_count(logical=False) or 1))


def _free_memory() -> int:
    """What the system has available, or the process's control group allows, if that is less."""
    free = int(psutil.virtual_memory().available)
    for limit, usage, stat in _CONTROL_GROUP_FILES:
        allowed = _number(limit)
        if allowed is not None:
            # File pages count as used but are given up when memory is asked for.
            used = (_number(usage) or 0) - _reclaimable(stat)
            return max(0, min(free, allowed - max(0, used)))
    return free


_ROOT = Path("/sys/fs/cgroup")
_CONTROL_GROUP_FILES = tuple(
    (folder / limit, folder / usage, folder / "memory.stat")
    for folder, limit, usage in (
        (_ROOT, "memory.max", "memory.current"),
        (_ROOT / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    )
)


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # no such file, or "max"
        return None


def _reclaimable(stat: Path) -> int:
    try:
        lines = dict(line.split() for line in stat.read_text().splitlines())
        return int(lines.get("inactive_file", lines.get("total_inactive_file", 0)))
    except (OSError, ValueError):
        return 0


def _fast_bfloat16() -> bool:
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags
