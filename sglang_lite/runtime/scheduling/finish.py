"""When a request ends: stop strings on bytes, stop ids, length.

Stop strings are found in the bytes of the generated tokens, not in decoded text, so a stop that
begins inside one token and ends inside another, or a multi-byte character split over tokens, is
found in the same way as any other.
"""

from __future__ import annotations

from collections.abc import Sequence


class StopStrings:
    """Finds the first stop string in a growing byte string."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = [(stop, stop.encode()) for stop in stops]
        self._longest = max((len(data) for _, data in self._stops), default=0)
        self._tail = b""  # what a stop may have begun in

    def feed(self, data: bytes, *, armed: bool = True) -> tuple[str, int] | None:
        """Append `data`; return a stop that ends within it, and how many bytes to cut off.

        Of several, the one that ends first; of those, the longest. Unless `armed`, none counts,
        and none that ends within `data` counts later.
        """
        if not self._stops:
            return None
        window, known = self._tail + data, len(self._tail)
        self._tail = window[max(0, len(window) - self._longest + 1) :] if self._longest > 1 else b""
        if not armed:
            return None
        ends = []
        for stop, needle in self._stops:
            at = window.find(needle, max(0, known - len(needle) + 1))
            if at >= 0:
                ends.append((at + len(needle), at, stop))
        if not ends:
            return None
        _, start, stop = min(ends)
        return stop, len(window) - start
