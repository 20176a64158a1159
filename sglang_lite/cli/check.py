"""`check`: what this machine can do, and whether a runtime could start on it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import psutil
from rich.console import Console

from sglang_lite import __version__
from sglang_lite.errors import SglangLiteError
from sglang_lite.runtime.model import hub

ISA = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "amx_bf16", "amx_int8", "asimd", "bf16")
NEEDED_BYTES = 1 << 30  # what the smallest known model takes to fetch, convert and run


class Broken(Exception):
    """A fact that keeps a runtime from starting; its text says why and what to do."""


def check_machine() -> int:
    """Print every fact; the status is 1 if any of them is broken, with the reasons at the end."""
    console = Console(highlight=False, soft_wrap=True, markup=False)
    reasons = []
    for name, find in FACTS.items():
        try:
            fact = find()
        except Broken as broken:
            reasons.append(f"{name}: {broken}")
            fact = "BROKEN"
        console.print(f"{name:12} {fact}")
    for reason in reasons:
        console.print(f"broken: {reason}")
    console.print("A runtime cannot start here." if reasons else "Ready.")
    return 1 if reasons else 0


def _memory() -> str:
    memory = psutil.virtual_memory()
    if memory.available < NEEDED_BYTES:
        raise Broken(
            f"{memory.available >> 20} MiB are available; the smallest model needs "
            f"{NEEDED_BYTES >> 20} MiB. End other programs."
        )
    return f"{memory.available / 2**30:.1f} of {memory.total / 2**30:.1f} GiB available"


def _cores() -> str:
    physical = psutil.cpu_count(logical=False)
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{allowed} usable, {physical} physical"


def _isa() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    flags = next((line for line in lines if line.lower().startswith(("flags", "features"))), "")
    found = set(flags.partition(":")[2].split())
    return " ".join([platform.machine(), *(name for name in ISA if name in found)])


def _torch() -> str:
    try:
        import torch
    except Exception as error:
        raise Broken(f"it cannot be imported: {error}. Install it: pip install torch") from error
    return f"{torch.__version__}, {torch.get_num_threads()} threads"


def _device() -> str:
    try:
        from sglang_lite.runtime.execution.device import probe

        machine = probe("auto")
    except (SglangLiteError, ImportError) as error:
        raise Broken(str(error)) from error
    form = "fast" if machine.fast_bfloat16 else "slow"
    free = machine.free_bytes / 2**30
    return f"{machine.device}, {free:.1f} GiB for weights and KV, bfloat16 is {form}"


def _packages() -> str:
    return ", ".join(map(_version, ("transformers", "tokenizers", "triton", "flashinfer-python")))


def _version(package: str) -> str:
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return f"no {package}"


def _cache() -> str:
    folder = hub.models_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            free = shutil.disk_usage(folder).free
    except OSError as error:
        raise Broken(
            f"{folder} cannot be written: {error.strerror or error}; set SGLANG_LITE_CACHE to a "
            "folder that can."
        ) from error
    models = ", ".join(source.name for source in hub.cached_models()) or "no models yet"
    return f"{folder}, {free / 2**30:.1f} GiB free, {models}"


def _compiler() -> str:
    found = next((path for name in ("c++", "g++", "clang++") if (path := shutil.which(name))), None)
    return found or "none found: native kernels cannot be built"


FACTS: dict[str, Callable[[], str]] = {
    "version": lambda: f"sglang_lite {__version__}, Python {platform.python_version()}",
    "cores": _cores,
    "cpu": _isa,
    "memory": _memory,
    "torch": _torch,
    "device": _device,
    "packages": _packages,
    "cache": _cache,
    "compiler": _compiler,
}
