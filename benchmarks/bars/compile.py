"""Compiling takes milliseconds, and a schema never seen before hardly delays its first token."""

from __future__ import annotations

import asyncio
import json
import statistics
import time

from benchmarks.bars.walked import reports
from benchmarks.machine import wait_until_calm
from benchmarks.schemas import WORDS
from sglang_lite.cli.grammar import totals
from sglang_lite.config import EngineConfig
from sglang_lite.params import Constraint, SamplingParams
from sglang_lite.runtime.client import Client
from sglang_lite.runtime.launch import start_worker

MEDIAN_MS, P99_MS, FIRST_MS = 10.0, 700.0, 100.0
PAIRS = 12


def measure() -> bool:
    wait_until_calm()
    sums = totals(reports())
    print(f"compilation: median {sums['median_ms']:.1f} ms (limit {MEDIAN_MS:.0f} ms), "
          f"p99 {sums['p99_ms']:.0f} ms (limit {P99_MS:.0f} ms)")  # fmt: skip
    free, constrained = asyncio.run(_first_tokens())
    later = statistics.median(b - a for a, b in zip(free, constrained, strict=True))
    print(
        f"first token: free {statistics.median(free):.0f} ms, constrained "
        f"{statistics.median(constrained):.0f} ms, later by {later:.0f} ms in the median of "
        f"{PAIRS} pairs (limit {FIRST_MS:.0f} ms)"
    )
    return sums["median_ms"] <= MEDIAN_MS and sums["p99_ms"] <= P99_MS and later <= FIRST_MS


async def _first_tokens() -> tuple[list[float], list[float]]:
    """Milliseconds to the first token of a free and of a constrained request, in pairs."""
    with start_worker(EngineConfig(jump_forward=False)) as worker:
        client = await Client.connect(worker.address, process=worker.process)
        try:
            await asyncio.sleep(3.0)  # a runtime at rest
            await _first(client, 999, None)
            free, constrained = [], []
            for index in range(PAIRS):
                free.append(await _first(client, 2 * index, None))
                constrained.append(await _first(client, 2 * index + 1, _tool(index)))
            return free, constrained
        finally:
            await client.close()


def _tool(index: int) -> Constraint:
    """The schema of a call that nobody has seen before."""
    names = [f"{word}_{index}" for word in WORDS[index : index + 4]]
    kinds = [
        {"type": "string"},
        {"type": "integer", "minimum": 0, "maximum": 500 + index},
        {"enum": ["celsius", "fahrenheit", f"kelvin{index}"]},
        {"type": "boolean"},
    ]
    schema = {"type": "object", "properties": dict(zip(names, kinds, strict=True)),
              "required": names[:3], "additionalProperties": False}  # fmt: skip
    return Constraint("json_schema", json.dumps(schema))


async def _first(client: Client, number: int, constraint: Constraint | None) -> float:
    prompt = client.tokenizer.encode(f"Request {number}. Call the tool with its arguments:\n")
    began = time.perf_counter()
    stream = client.submit(prompt, SamplingParams(max_tokens=2, seed=1), constraint=constraint)
    async for _ in stream:
        took = (time.perf_counter() - began) * 1e3
        break
    await stream.aclose()
    return took
