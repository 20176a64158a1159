"""The leaves that may be evicted, the next one first.

A heap of notes. A note is not looked for when its leaf is read again, grows or is forgotten: it
becomes stale, is skipped when it comes up, and is swept out when stale ones pile up.
"""

from __future__ import annotations

import heapq
from itertools import count

from sglang_lite.runtime.scheduling.node import Node, Rank


class Leaves:
    def __init__(self) -> None:
        self._notes: list[tuple[Rank, int, Node]] = []
        self._ties = count()
        self._sweep_at = 64

    def __len__(self) -> int:
        return len(self._notes)

    def current(self) -> set[Node]:
        """All that may be evicted. O(notes)."""
        return {note[2] for note in self._notes if _current(note)}

    def offer(self, leaf: Node) -> None:
        """Note that `leaf` may be evicted, or that its rank has changed."""
        if len(self._notes) > self._sweep_at:
            self._notes = [note for note in self._notes if _current(note)]
            heapq.heapify(self._notes)
            self._sweep_at = 2 * len(self._notes) + 64
        heapq.heappush(self._notes, (leaf.rank, next(self._ties), leaf))

    def pop(self) -> Node | None:
        """The leaf to be evicted next; None: there is none. Whoever leaves a part of it, or a
        parent that becomes a leaf, offers that. Cost: O(log notes), stale ones aside."""
        while self._notes:
            note = heapq.heappop(self._notes)
            if _current(note):
                return note[2]
        return None


def _current(note: tuple[Rank, int, Node]) -> bool:
    """Whether the leaf has been neither pinned, nor extended, nor marked, nor forgotten since."""
    rank, _, leaf = note
    return leaf.is_free_leaf and leaf.rank == rank
