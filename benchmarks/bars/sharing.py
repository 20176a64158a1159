"""A few-shot batch submitted all at once computes each distinct prompt token once."""

from __future__ import annotations

from benchmarks.drive import core_of, drive
from benchmarks.workloads import distinct_tokens, make

LIMIT = 0.02


def measure() -> bool:
    phases = make("W1")
    optimum = distinct_tokens(ask.prompt for phase in phases for ask in phase)
    met = True
    for page_size in (1, 16):
        core = core_of(page_size=page_size)
        run = drive(core, phases)
        over = run.prefill_tokens / optimum - 1
        duplicates = core.stats()["duplicate_prefill_tokens"]
        met = met and over <= LIMIT and duplicates == 0
        print(
            f"page size {page_size}: {run.prefill_tokens:,} computed, optimum {optimum:,}: "
            f"{over:+.2%} (limit {LIMIT:+.0%}); duplicate_prefill_tokens {duplicates} (limit 0)"
        )
    return met
