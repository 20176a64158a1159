"""Whether a grammar takes a text: its tokens go through mask, advance and end, as drawn ones do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sglang_lite.runtime.grammar.protocol import CompiledGrammar
from sglang_lite.runtime.grammar.table import TokenTable


def accepts(grammar: CompiledGrammar, table: TokenTable, tokens: Sequence[int]) -> bool:
    """Whether `tokens` can be drawn one after another, and the output end there.

    Raises:
        AssertionError: mask and advance disagree, or the mask says something else of the end.
    """
    matcher = grammar.matcher()
    row = np.zeros(table.width, np.int32)
    for token in tokens:
        matcher.fill(row)
        allowed = _has(row, token)
        assert not allowed or matcher.advance(token), f"{token} is in the mask and is not taken"
        if not allowed:
            return False
    matcher.fill(row)
    ends = matcher.may_stop()
    assert all(_has(row, id) == ends for id in table.eos), "EOS is not in the mask at an end"
    return ends


def _has(row: np.ndarray[tuple[int], np.dtype[np.int32]], token: int) -> bool:
    return bool(int(row[token >> 5]) >> (token & 31) & 1)
