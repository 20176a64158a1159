"""How the front ends say that they do not hold something exactly."""

from __future__ import annotations


class Refusal(Exception):
    """Not held exactly by this engine: another one may. `pointer` is a JSON pointer to the cause
    within a schema ("" is its root); None for what is no schema."""

    def __init__(self, reason: str, pointer: str | None = None) -> None:
        super().__init__(reason if pointer is None else f"{reason} (at {pointer or 'the root'})")
        self.reason, self.pointer = reason, pointer
