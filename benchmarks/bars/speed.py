"""W1 with the cache against the same engine without it, paired: off, on, off, on."""

from __future__ import annotations

import statistics

from benchmarks.drive import core_of, drive
from benchmarks.machine import wait_until_calm
from benchmarks.workloads import make

LIMIT = 4.0
PAIRS = 2


def measure() -> bool:
    phases = make("W1")
    off, on = core_of(disable_radix_cache=True), core_of()
    ratios = []
    for _ in range(PAIRS):
        wait_until_calm()
        slow = drive(off, phases)
        on.flush()
        fast = drive(on, phases)
        ratios.append(slow.seconds / fast.seconds)
        print(f"off {slow.seconds:.2f} s, on {fast.seconds:.2f} s: {ratios[-1]:.2f}x")
    ratio = statistics.median(ratios)
    print(f"median {ratio:.2f}x (limit {LIMIT}x)")
    return ratio >= LIMIT
