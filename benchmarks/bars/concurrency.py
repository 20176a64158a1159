"""What the language itself costs: programs against backends that answer at once, or after 100 ms.

The prompt of every gen must have been asked for, and every text must be there.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import sglang_lite as sgl
from sglang_lite.testing import ScriptedBackend

AT_LEAST = 4000.0  # programs/s, three gens each
AT_MOST = 0.8  # seconds for 1,000 programs of three gens of 100 ms each
ROUNDS = 7


@sgl.function
def three(s: Any, question: str) -> None:
    s += "Q: " + question + "\n" + sgl.gen("a", max_tokens=4)
    s += " then " + sgl.gen("b", max_tokens=4) + " then " + sgl.gen("c", max_tokens=4)


def run(programs: int, delay: float) -> tuple[float, float]:
    """Seconds by the clock and of CPU time."""
    backend = ScriptedBackend.by_prompt(lambda prompt: "x", delay=delay)
    rows = [{"question": str(index)} for index in range(programs)]
    began, spent = time.perf_counter(), time.process_time()
    states = three.run_batch(rows, backend=backend)
    took = time.perf_counter() - began, time.process_time() - spent
    assert len(backend.prompts) == 3 * programs
    texts = [state.text() for state in states]
    assert texts == [f"Q: {index}\nx then x then x" for index in range(programs)]
    return took


def measure() -> bool:
    run(500, 0.0)
    instant = [run(2000, 0.0) for _ in range(ROUNDS)]
    rate = statistics.median(2000 / seconds for seconds, _ in instant)
    cpu = statistics.median(spent / 2000 * 1e6 for _, spent in instant)
    slow = [run(1000, 0.1)[0] for _ in range(3)]
    took = statistics.median(slow)
    print(f"instant backend: {rate:,.0f} programs/s (limit {AT_LEAST:,.0f}), {cpu:.0f} us of CPU")
    print(f"1,000 programs of 3 x 100 ms: {took:.2f} s (limit {AT_MOST} s)")
    return rate >= AT_LEAST and took < AT_MOST
