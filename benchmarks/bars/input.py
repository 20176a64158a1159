"""Bad input is refused with value and limit, and the server goes on."""

from __future__ import annotations

from benchmarks.bars._tests import run_tests


def measure() -> bool:
    return run_tests("tests/server/test_bad_requests.py")
