"""Runs a workload on a core, and counts what the runner computed, not what anybody reports."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from benchmarks.workloads import Phases
from sglang_lite.config import EngineConfig
from sglang_lite.params import SamplingParams
from sglang_lite.runtime.build import build_core
from sglang_lite.runtime.core import EngineCore
from sglang_lite.wire import Submit, pack

CLIENT = b"benchmark"


@dataclass
class Run:
    seconds: float = 0.0
    steps: int = 0
    prefill_tokens: int = 0  # positions the runner computed that are not the input of a decode
    texts: list[list[int]] = field(default_factory=list)


def core_of(model: str = "smollm2", **options: Any) -> EngineCore:
    core, _ = build_core(EngineConfig(model=model, **options))
    return core


def drive(core: EngineCore, phases: Phases) -> Run:
    """Run `phases` greedily; fails loudly if a request does not run to its length."""
    run = Run()
    computed = core.runner.computed_tokens  # type: ignore[attr-defined]
    begin, steps = time.perf_counter(), core.steps
    decoded = 0
    for phase in phases:
        texts: dict[int, list[int]] = {}
        for id, ask in enumerate(phase, start=time.monotonic_ns()):
            params = SamplingParams(max_tokens=ask.max_new, temperature=0.0, ignore_eos=True)
            core.submit(CLIENT, Submit(id, pack(ask.prompt), params))
            texts[id] = []
        while not core.idle:
            for output in core.step().values():
                assert not output.failures, output.failures
                at = 0
                for id, count in zip(output.ids, output.counts, strict=True):
                    texts[id] += output.tokens[at : at + count]
                    at += count
        assert [len(text) for text in texts.values()] == [ask.max_new for ask in phase]
        run.texts += texts.values()
        decoded += sum(ask.max_new - 1 for ask in phase)
    run.seconds = time.perf_counter() - begin
    run.steps = core.steps - steps
    everything = core.runner.computed_tokens - computed  # type: ignore[attr-defined]
    run.prefill_tokens = everything - decoded
    return run
