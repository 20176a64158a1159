"""Write the table of keywords into docs/structured_output.md, between its marks."""

from __future__ import annotations

import sys
from pathlib import Path

from sglang_lite.runtime.grammar.schema.keywords import TABLE

PAGE = Path(__file__).parents[1] / "docs" / "structured_output.md"
BEGIN, END = "<!-- keywords: begin -->", "<!-- keywords: end -->"


def table() -> str:
    """The table in Markdown."""
    lines = ["| keyword | outlines path | llguidance path | what we promise |", "|---|---|---|---|"]
    for row in TABLE:
        keys = ", ".join(f"`{name}`" for name in row.names)
        cells = (cell.replace("|", "\\|") for cell in (row.outlines, row.llguidance, row.promise))
        lines.append(f"| {keys} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Write the table between the marks of the page."""
    before, rest = PAGE.read_text().split(BEGIN)
    after = rest.split(END)[1]
    PAGE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}")
    sys.stdout.write(f"{PAGE} written\n")


if __name__ == "__main__":
    main()
