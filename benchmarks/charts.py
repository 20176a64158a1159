"""Tables and bar charts of a few numbers, as text: Markdown and SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

COLORS = ("#4c72b0", "#dd8452", "#55a868", "#c44e52", "#8172b3", "#937860", "#da8bc3")
BAR, GAP, HEIGHT = 16, 28, 200  # pixels: a bar, between groups, a bar of value 1
LEFT, TOP, BELOW = 40, 40, 30


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; all columns but the first are numbers."""
    rule = ["---", *["---:"] * (len(header) - 1)]
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, rule, *rows)) + "\n"


def bars(title: str, groups: Mapping[str, Mapping[str, float]]) -> str:
    """An SVG with a bar for each value, by group; a value of 1 is marked by a line."""
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    highest = max([1.0, *(value for group in groups.values() for value in group.values())])
    floor = TOP + round(HEIGHT * highest)
    parts, at = [], LEFT
    for label, group in groups.items():
        middle = at + len(group) * BAR / 2
        parts.append(_text(middle, floor + 18, label, anchor="middle"))
        for name, value in group.items():
            height = round(HEIGHT * value)
            parts.append(
                f'<rect x="{at}" y="{floor - height}" width="{BAR - 2}" height="{height}" '
                f'fill="{COLORS[names.index(name) % len(COLORS)]}">'
                f"<title>{escape(f'{label}, {name}: {value:.2f}')}</title></rect>"
            )
            at += BAR
        at += GAP
    width = max(at, LEFT + 150 * len(names) // 2)
    for value in (0.0, 0.5, 1.0):
        y = floor - round(HEIGHT * value)
        parts.append(f'<line x1="{LEFT - 4}" x2="{width}" y1="{y}" y2="{y}" stroke="#bbb"/>')
        parts.append(_text(LEFT - 8, y + 4, f"{value:g}", anchor="end"))
    for index, name in enumerate(names):
        x, y = LEFT + index % 4 * 130, floor + BELOW + 16 + index // 4 * 18
        color = COLORS[index % len(COLORS)]
        parts.append(f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{color}"/>')
        parts.append(_text(x + 18, y, name))
    parts.append(_text(LEFT, 20, title))
    height = floor + BELOW + 16 + -(-len(names) // 4) * 18
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'font-family="sans-serif" font-size="12">\n' + "\n".join(parts) + "\n</svg>\n"
    )


def _text(x: float, y: float, words: str, anchor: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>'
