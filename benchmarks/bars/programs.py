"""Programs of every shape, and the examples as they are, find what there is to be found.

Each runs on an empty cache of the small model. Achieved is the hit rate by the count of the runner;
optimal is that of a perfect tree with room for everything; duplicates are tokens that were computed
though the tree held them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.meter import Meter, Reading, Work
from benchmarks.programs import WORKLOADS, make, run

EXAMPLES = (
    "few_shot",
    "endings",
    "agent",
    "town",
    "tree_of_thought",
    "skeleton",
    "judge",
    "character",
    "chat",
    "rag",
)
FOLDER = Path(__file__).parents[2] / "examples"
LIMIT = 0.98


def measure() -> bool:
    table = Table("program", "runs", "runs/s", "prompt", "computed", "achieved", "optimal",
                  f"ratio (>= {LIMIT})", "duplicates (0)")  # fmt: skip
    table.columns[0].no_wrap = True
    met = True
    with Meter() as meter:
        for name, work in works():
            reading = meter.read(work)
            met = met and reading.ratio >= LIMIT and reading.duplicates == 0
            table.add_row(name, *cells(reading))
    Console(width=120).print(table)
    return met


def works() -> Iterator[tuple[str, Work]]:
    for name in WORKLOADS:
        stages = make(name)
        yield name, lambda backend, stages=stages: run(stages, backend)  # type: ignore[misc]
    sys.path.insert(0, str(FOLDER))
    for name in EXAMPLES:
        yield f"{name}.py", importlib.import_module(name).solve


def cells(reading: Reading) -> list[str]:
    return [
        str(reading.programs),
        f"{reading.rate:.2f}",
        f"{reading.prompt_tokens:,}",
        f"{reading.computed:,}",
        f"{reading.achieved:.1%}",
        f"{reading.optimal:.1%}",
        f"{reading.ratio:.4f}",
        str(reading.duplicates),
    ]
