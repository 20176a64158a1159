"""A mask costs microseconds, and 32 constrained rows hardly lengthen a step."""

from __future__ import annotations

import json
import statistics
import time

import numpy as np

from benchmarks.constrained import CLIENT, tokenizer
from benchmarks.drive import core_of
from benchmarks.machine import wait_until_calm
from benchmarks.schemas import lines
from sglang_lite.cli.grammar import Line, compile_line
from sglang_lite.params import Constraint, SamplingParams
from sglang_lite.runtime.core import EngineCore
from sglang_lite.runtime.grammar.compiler import Grammars
from sglang_lite.runtime.grammar.options import GrammarOptions
from sglang_lite.runtime.grammar.table import TokenTable
from sglang_lite.wire import Submit, pack

LIMITS_US = {"outlines": 10.0, "llguidance": 25.0}
OVERHEAD = 0.10
ROWS, STEPS, PAIRS = 32, 12, 3
WIDE = {
    "outlines": Constraint("regex", r"(?:.|\n)*", engine="outlines"),
    "llguidance": Constraint("regex", r"(?:.|\n)*", engine="llguidance"),
}


def measure() -> bool:
    wait_until_calm()
    met = True
    for engine, limit in LIMITS_US.items():
        times = _fills(engine)
        median = statistics.median(times)
        met = met and median < limit
        print(f"{engine}: a mask in {median:.1f} us in the median of {len(times):,} "
              f"(limit {limit:.0f} us), p99 {np.percentile(times, 99):.0f} us")  # fmt: skip
    return _overhead() and met


def _fills(engine: str) -> list[float]:
    """Microseconds of a fill, along the valid instances of schemas, the second time round."""
    table = TokenTable.of(tokenizer())
    grammars = Grammars(table, GrammarOptions(engine=engine, whitespace="compact"), warm=False)
    row = np.zeros(table.width, np.int32)
    times = []
    try:
        for line in lines(60):
            grammar = compile_line(Line(schema=line["schema"]), grammars)
            for test in line["tests"]:
                if not test["valid"]:
                    continue
                text = json.dumps(test["data"], ensure_ascii=False, separators=(",", ":"))
                for warm in (False, True):
                    matcher = grammar.matcher()
                    for token in table.encode(text):
                        began = time.perf_counter()
                        matcher.fill(row)
                        took = time.perf_counter() - began
                        if warm:
                            times.append(took * 1e6)
                        if not matcher.advance(token):
                            break
    finally:
        grammars.close()
    return times


def _overhead() -> bool:
    """Steps of 32 rows, free and constrained in turn."""
    core = core_of(jump_forward=False)
    spell = tokenizer()
    met = True
    try:
        _steps(core, spell.encode("warm"), None)
        for engine, constraint in WIDE.items():
            _steps(core, spell.encode("warm"), constraint)
            pairs = []
            for at in range(PAIRS):
                prompt = spell.encode(f"Tell me about the number {at}.")
                pairs.append((_steps(core, prompt, None), _steps(core, prompt, constraint)))
            free, held = (statistics.median(each) for each in zip(*pairs, strict=True))
            ratio = statistics.median(b / a for a, b in pairs) - 1
            met = met and ratio < OVERHEAD
            print(f"{ROWS} rows: a step takes {free:.1f} ms free, {held:.1f} ms held by {engine}: "
                  f"{ratio:+.1%} in the median of {PAIRS} (limit {OVERHEAD:.0%})")  # fmt: skip
    finally:
        core.close("the end")
    return met


def _steps(core: EngineCore, prompt: list[int], constraint: Constraint | None) -> float:
    """Milliseconds of the median step in which all rows decode."""
    base = time.monotonic_ns()
    for index in range(ROWS):
        params = SamplingParams(max_tokens=STEPS, temperature=0.8, seed=index, ignore_eos=True)
        core.submit(CLIENT, Submit(base + index, pack(prompt), params, constraint))
    while core.stalled:
        time.sleep(0.001)
    times = []
    while not core.idle:
        began = time.perf_counter()
        core.step()
        times.append(time.perf_counter() - began)
    return statistics.median(times[2:-1]) * 1e3
