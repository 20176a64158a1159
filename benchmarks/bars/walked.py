"""No invalid instance is taken, and nearly every schema is held with all its valid ones.

FILE=path measures another file in the format of `grammar check`, such as a sample of MaskBench.
"""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from benchmarks.schemas import lines
from sglang_lite.cli.grammar import Line, Report, check_line, read_lines, totals
from sglang_lite.runtime.grammar.compiler import Grammars
from sglang_lite.runtime.grammar.table import TokenTable
from sglang_lite.runtime.model.hub import open_model
from sglang_lite.runtime.tokenizer import Tokenizer

RIGHT, SECONDS = 0.88, 5.0


def reports() -> list[Report]:
    """A report of each line of FILE, or of four hundred schemas of our own."""
    table = TokenTable.of(Tokenizer.load(open_model("smollm2").folder))
    if file := os.environ.get("FILE"):
        asked = list(read_lines(Path(file)))
    else:
        asked = [msgspec.convert(line, Line) for line in lines(400)]
    grammars = Grammars(table, warm=False)
    try:
        check_line(Line(regex="warm"), grammars, table)
        return [check_line(line, grammars, table) for line in asked]
    finally:
        grammars.close()


def measure() -> bool:
    found = reports()
    sums = totals(found)
    share = sums["right"] / sums["lines"]
    print(
        f"{sums['lines']} lines: {sums['compiled']} compiled ({sums['outlines']} by outlines, "
        f"{sums['llguidance']} by llguidance), {sums['refused']} refused by name"
    )
    print(
        f"invalid accepted {sums['invalid_accepted']} of {sums['invalid']} (limit 0); valid "
        f"accepted {sums['valid_accepted']} of {sums['valid']}"
    )
    print(f"fully right {share:.1%} (limit {RIGHT:.0%})")
    print(f"longest compilation {sums['most_ms'] / 1e3:.2f} s (limit {SECONDS:.0f} s)")
    return (
        sums["invalid_accepted"] == 0
        and share >= RIGHT
        and sums["most_ms"] <= SECONDS * 1e3
        and all(each.engine or each.reason for each in found)
    )
