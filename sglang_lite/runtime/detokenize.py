"""From a request's ids to the text its reader may see, as it grows and at its end."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Protocol

from sglang_lite.wire import Finish


class TokenTable(Protocol):
    """What detokenizing needs of a tokenizer."""

    @property
    def token_bytes(self) -> Sequence[bytes]: ...
    @property
    def special_ids(self) -> frozenset[int]: ...


class Detokenizer:
    """Releases whole characters, and never the beginning of what may become a stop string.

    Args:
        stops: the stop strings of the request.
        hidden: ids that are not shown.
        trim: whether a stop string that was met is cut off.
    """

    def __init__(
        self, table: TokenTable, stops: Sequence[str], *, skip_special: bool, trim: bool
    ) -> None:
        self._bytes = table.token_bytes
        self._hidden = table.special_ids if skip_special else frozenset[int]()
        self._stops = [stop.encode() for stop in stops] if trim else []
        self._trim = trim
        self._shown = bytearray()
        self._released = 0
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self.ids: list[int] = []
        self.kept_ids: list[int] = []  # once finished: ids that lie wholly before the cut,
        self.tail = b""  # and the kept bytes of the token that the cut goes through

    def feed(self, ids: Sequence[int], finish: Finish | None = None) -> str:
        """The text that may be shown now that `ids` were generated; at the end, all the rest."""
        self.ids += ids
        for id in ids:
            self._shown += self._show(id)
        if finish is not None:
            return self._finish(finish)
        return self._release(len(self._shown) - self._held())

    def _finish(self, finish: Finish) -> str:
        """The rest of the text, without what `finish` cuts off."""
        cut = finish.cut if self._trim or not isinstance(finish.matched, str) else 0
        kept, end = len(self.ids), len(self._shown)
        while cut > 0 and kept:
            kept -= 1
            whole, shown = self._bytes[self.ids[kept]], self._show(self.ids[kept])
            end -= len(shown)
            if len(whole) > cut:
                self.tail = whole[: len(whole) - cut]
                end += len(self.tail) if shown else 0
            cut -= len(whole)
        self.kept_ids = self.ids[:kept]
        return self._release(max(end, self._released), final=True)

    def _show(self, id: int) -> bytes:
        return b"" if id in self._hidden else self._bytes[id]

    def _held(self) -> int:
        """Length of the longest end of the text that is a beginning of a stop string."""
        longest = 0
        for stop in self._stops:
            for size in range(min(len(stop) - 1, len(self._shown)), longest, -1):
                if self._shown.endswith(stop[:size]):
                    longest = size
                    break
        return longest

    def _release(self, end: int, *, final: bool = False) -> str:
        # An earlier call may have released more, when a longer stop was still possible then.
        data = bytes(self._shown[self._released : max(end, self._released)])
        self._released = max(end, self._released)
        return self._utf8.decode(data, final)
