"""Constrained requests: what they may draw next, and the tokens they need not draw.

Only the host knows where a request stands in its grammar, so a row is not planned before its last
draw has been read; unconstrained rows beside it are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sglang_lite.errors import GrammarTooLarge, RequestFailed, SglangLiteError
from sglang_lite.runtime.grammar.canonical import TAIL
from sglang_lite.runtime.grammar.protocol import FEW, Row
from sglang_lite.runtime.scheduling.batch import Allowed, Int
from sglang_lite.runtime.scheduling.radix import EMPTY
from sglang_lite.runtime.scheduling.request import Request

_BITS_OF = np.array([bin(half).count("1") for half in range(1 << 16)], np.uint8)


class Masks:
    """The masks of one step's draws, in memory that is allocated once.

    Two buffers take turns, since a batch may be in flight while the next one is planned.
    """

    def __init__(self, rows: int, vocab_size: int) -> None:
        self._buffers = np.zeros((2, rows, -(-vocab_size // 32)), np.int32)
        self._turn = 0

    def fill(self, draws: Sequence[Request]) -> Allowed:
        """What each constrained one of `draws` may draw."""
        if not any(request.matcher for request in draws):
            return Allowed.everything()
        self._turn ^= 1
        buffer, wide = self._buffers[self._turn], list[int]()
        few = list[int]()
        lists = [EMPTY]
        for index, request in enumerate(draws):
            if request.matcher is None:
                continue
            ids = self._of(request, buffer[len(wide)])
            if ids is None:
                wide.append(index)
            else:
                few.append(index)
                lists.append(ids)
        return Allowed(
            row=np.array(wide, np.int32),
            bits=buffer[: len(wide)],
            few_row=np.array(few, np.int32),
            few_indptr=np.cumsum([len(each) for each in lists]).astype(np.int32),
            few_ids=np.concatenate(lists),
        )

    def _of(self, request: Request, row: Row) -> Int | None:
        """The allowed ids if they are few; else None, and `row` is their mask."""
        assert request.matcher is not None
        ids = request.matcher.allowed(FEW)
        if ids is None:
            request.matcher.fill(row)
            if int(_BITS_OF[row.view(np.uint16)].sum(dtype=np.int64)) > FEW:
                self._without_eos(request, row)
                return None
            bits = np.unpackbits(row.view(np.uint8), bitorder="little")
            ids = np.flatnonzero(bits).astype(np.int32)
        if request.may_not_end:
            ids = ids[~np.isin(ids, list(request.model_eos))]
        # Where nothing may follow EOS is drawn: the matcher does not take it, the request fails.
        return ids if len(ids) else np.array(sorted(request.model_eos), np.int32)

    def _without_eos(self, request: Request, row: Row) -> None:
        if request.may_not_end:
            for id in request.model_eos:
                row[id >> 5] &= ~np.int32(np.uint32(1 << (id & 31)).astype(np.int32))


def following(request: Request, drawn: int | None = None) -> list[int]:
    """The tokens to take now: `drawn`, if there is one, with what must follow it."""
    assert request.matcher is not None
    return request.matcher.jump_forward(request.tokens[-TAIL:].tolist(), drawn)


def stuck(request: Request, token: int) -> SglangLiteError:
    """Nothing is allowed, and `token` was drawn all the same: why."""
    trouble = request.matcher.trouble() if request.matcher else ""
    if trouble:
        return GrammarTooLarge(f"its grammar is too complex to be followed: {trouble}")
    return RequestFailed(f"nothing in the vocabulary can follow; {token} was drawn.")
