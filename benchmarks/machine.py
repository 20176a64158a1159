"""What else the machine is doing: a figure without it says little."""

from __future__ import annotations

import os
import time

import psutil


def load() -> str:
    one, five, _ = os.getloadavg()
    return f"load {one:.2f} (1 min), {five:.2f} (5 min) on {os.cpu_count()} cores"


def peak_mib() -> float:
    """Peak resident memory of this process, in MiB."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def wait_until_calm(limit: float = 20.0) -> None:
    """Wait, at most `limit` seconds, until others leave the processor alone."""
    end = time.monotonic() + limit
    while psutil.cpu_percent(0.5) > 20.0 and time.monotonic() < end:
        pass
