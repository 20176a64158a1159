"""The language's cases, on scripted backends."""

from __future__ import annotations

from benchmarks.bars._tests import run_tests


def measure() -> bool:
    return run_tests("tests/lang")
