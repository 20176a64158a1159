"""The official OpenAI client against a real server process."""

from __future__ import annotations

from benchmarks.bars._tests import run_tests


def measure() -> bool:
    return run_tests("tests/server/test_openai_client.py")
