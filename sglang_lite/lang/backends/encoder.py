"""Prompts to ids: generated ids as they are, literals encoded once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sglang_lite.lang.prompt import Generated, Prompt


class Encoder:
    """Prompts to ids."""

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer
        self._encode = lru_cache(4096)(lambda text, bos: tuple(tokenizer.encode(text, add_bos=bos)))

    def __call__(self, prompt: Prompt) -> list[int]:
        ids: list[int] = []
        tail = b""
        for piece in (*prompt.pieces, ""):
            literal = tail.decode("utf-8", "replace") + (piece if isinstance(piece, str) else "")
            if literal:
                ids += self._encode(literal, not ids)
            tail = b""
            if isinstance(piece, Generated):
                ids += piece.ids
                tail = piece.tail
        if not ids and self.tokenizer.add_bos:
            ids.append(self.tokenizer.bos_token_id)
        return ids


def common(left: Sequence[object], right: Sequence[object]) -> int:
    """How many leading items are equal."""
    size = min(len(left), len(right))
    return next((at for at in range(size) if left[at] != right[at]), size)
