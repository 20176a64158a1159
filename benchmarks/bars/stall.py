"""While a grammar uses up all the time it may take to compile, others do not notice."""

from __future__ import annotations

import asyncio
import statistics
import time

from benchmarks.machine import wait_until_calm
from sglang_lite.config import EngineConfig
from sglang_lite.errors import InvalidRequest
from sglang_lite.params import Constraint, SamplingParams
from sglang_lite.runtime.client import Client
from sglang_lite.runtime.launch import start_worker

LIMIT = 1.5
PAIRS = 3
TOKENS = 60


def measure() -> bool:
    wait_until_calm()
    ratios, busy = asyncio.run(_ratios())
    ratio = statistics.median(ratios)
    print(f"inter-token latency while a grammar is compiled: {ratio:.2f} times that without, in "
          f"the median of {len(ratios)} pairs (limit {LIMIT}); each: "
          f"{', '.join(f'{each:.2f}' for each in ratios)}")  # fmt: skip
    return ratio <= LIMIT and busy


async def _ratios() -> tuple[list[float], bool]:
    """Ratios, and whether each grammar was busy all along."""
    with start_worker(EngineConfig()) as worker:
        client = await Client.connect(worker.address, process=worker.process)
        try:
            await _latency(client, 0)
            ratios, always = [], True
            for pair in range(1, PAIRS + 1):
                alone = await _latency(client, 2 * pair)
                slow = asyncio.ensure_future(_burn(client, pair))
                await asyncio.sleep(0.2)
                beside = await _latency(client, 2 * pair + 1)
                busy = not slow.done()
                always = always and busy
                seconds = await slow
                late = "" if busy else ", before the stream ended"
                print(f"alone {alone:.1f} ms, beside {beside:.1f} ms a token; the grammar was "
                      f"given up after {seconds:.1f} s{late}")  # fmt: skip
                ratios.append(beside / alone)
            return ratios, always
        finally:
            await client.close()


async def _latency(client: Client, number: int) -> float:
    """Milliseconds between tokens, in the mean: a single long gap counts as long as it is."""
    prompt = client.tokenizer.encode(f"Story number {number}:")
    params = SamplingParams(max_tokens=TOKENS, temperature=0.0, ignore_eos=True)
    times = [time.perf_counter() async for _ in client.submit(prompt, params)]
    return (times[-1] - times[0]) / (len(times) - 1) * 1e3


async def _burn(client: Client, number: int) -> float:
    """Ask for a grammar whose automaton doubles with each repetition; seconds to the refusal."""
    began = time.perf_counter()
    regex = f"(a|b)*a(a|b){{2{number}}}"
    constraint = Constraint("regex", regex, engine="outlines")
    try:
        await client.submit([1], SamplingParams(max_tokens=1), constraint=constraint).completion()
    except InvalidRequest as error:
        if "--grammar-compile-seconds" not in str(error):
            raise
        return time.perf_counter() - began
    raise AssertionError("it was compiled")
