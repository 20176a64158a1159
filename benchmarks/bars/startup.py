"""From `make demo`, everything prepared, to its first generated text."""

from __future__ import annotations

import subprocess
import sys
import time

LIMIT = 6.0
COMMAND = [sys.executable, "-m", "sglang_lite", "run", "examples/demo.py"]


def measure() -> bool:
    seconds = []
    for _ in range(3):
        begin = time.perf_counter()
        with subprocess.Popen(
            COMMAND, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as demo:
            assert demo.stdout is not None
            first = demo.stdout.read(1)  # the demo prints nothing before it
            while first.isspace():
                first = demo.stdout.read(1)
            seconds.append(time.perf_counter() - begin)
            demo.terminate()
        print(f"first text after {seconds[-1]:.2f} s")
    print(f"worst of three {max(seconds):.2f} s (limit {LIMIT} s)")
    return max(seconds) <= LIMIT
