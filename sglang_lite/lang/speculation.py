"""One call of an API that several gens are answered from.

The first gen asks for more tokens than it needs and without its stops. What stands behind its stop
is kept: as long as the program goes on to write what the model wrote, later gens are cut out of it
and cost no call. The idea is SGLang's (Zheng et al., 2024, section 5).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sglang_lite.lang.nodes import Expr, Gen, Text

TRIES = 3  # calls of an API that cannot continue a turn, until one has the program's form


def cut(text: str, stops: Sequence[str]) -> tuple[str, str] | None:
    """What stands before the first of `stops`, and the rest, from the stop on; None: no stop."""
    ends = [at for stop in stops if (at := text.find(stop)) >= 0]
    return (text[: min(ends)], text[min(ends) :]) if ends else None


def after(ahead: str, written: str) -> str:
    """What is still foreseen once the program has written something."""
    return ahead[len(written) :] if ahead.startswith(written) else ""


def fits(text: str, parts: Sequence[Expr], stops_of: Callable[[Gen], Sequence[str]]) -> bool:
    """Whether `text` has the form of `parts`, gens and what the program writes between them."""
    for part in parts:
        if isinstance(part, Gen):
            found = cut(text, stops_of(part))
            text = found[1] if found else ""
        elif isinstance(part, Text):
            if not text.startswith(part.text):
                return False
            text = text[len(part.text) :]
    return True
