"""Kill -9, silence, garbage: each ends in a clear error, and nothing is left behind."""

from __future__ import annotations

from benchmarks.bars._tests import run_tests


def measure() -> bool:
    return run_tests("tests/runtime/test_processes.py")
