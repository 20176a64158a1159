"""Which texts some program is going to continue, so that they are evicted after the others, and
which a program is done with, so that they go before.

Advice, never a claim. It changes the order of eviction and blocks no allocation. What is retained
is bounded in pages and in time, and ends with the request that continues the text, with the
program and with the client. Pages stay where they are throughout: only marks come and go.

A mark belongs to a branch of a program. What continues the text in the same branch answers it; a
branch that starts there does not, because its siblings, and whoever joins them, read the text too.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count

from sglang_lite.params import Hint
from sglang_lite.runtime.scheduling.node import Branch, Mark, Node
from sglang_lite.runtime.scheduling.radix import RadixTree


def standing_still() -> float:
    """The clock of those who bring none: nothing lapses by time."""
    return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionLimits:
    """How much may be retained, and for how long by which clock."""

    share: float = 0.5  # of the pool's pages
    seconds: float = 30.0  # the most that a hint gets, and what one that says nothing gets
    clock: Callable[[], float] = field(default=standing_still)


class Retention:
    def __init__(self, tree: RadixTree, num_pages: int, limits: RetentionLimits) -> None:
        self.tree, self.limits = tree, limits
        self.most = int(num_pages * limits.share)  # pages
        self._marks: dict[Mark, None] = {}  # the oldest first; some may have gone with their pages
        self._programs: dict[tuple[bytes, int], set[Mark]] = {}
        self._deadlines: list[tuple[float, int, Mark]] = []  # a heap; forgotten ones stay in it
        self._ties = count()

    def note(self, client: bytes, hint: Hint, node: Node) -> None:
        """A request has ended with its text at `node`, which it still pins: what it continued is
        waited for no more, and its own text is if the hint says so."""
        branch = Branch(client, hint.program, hint.group)
        answered = [each.marks[branch] for each in node.ancestry() if branch in each.marks]
        self._forget(answered)
        node.done = bool(hint.program) and not hint.more
        if not hint.more or node.parent is None or not self.most:
            return
        seconds = min(hint.retain_ms / 1000 or self.limits.seconds, self.limits.seconds)
        mark = Mark(branch, hint.steps_to_next, self.limits.clock() + seconds)
        self.tree.keep(node, mark)
        self._marks[mark] = None
        self._programs.setdefault((client, hint.program), set()).add(mark)
        heapq.heappush(self._deadlines, (mark.until, next(self._ties), mark))
        while self.tree.retained > self.most:
            self._forget([next(iter(self._marks))])

    def lapse(self) -> None:
        """Forget what was wanted until now at most."""
        now = self.limits.clock()
        while self._deadlines and self._deadlines[0][0] <= now:
            self._forget([heapq.heappop(self._deadlines)[2]])

    def end(self, client: bytes, program: int | None = None) -> None:
        """A program is done with what is left of it; None: with all that the client has."""
        ended = [key for key in self._programs if key[0] == client]
        for key in ended if program is None else [(client, program)]:
            marks = list(self._programs.get(key, ()))
            for node in [mark.node for mark in marks if mark.node is not None]:
                node.done = True
            self._forget(marks)

    def check(self) -> None:
        """Raise AssertionError unless the tree's marks are those known here, and within bounds."""
        here = {mark for mark in self._marks if mark.node is not None}
        there = {mark for node in self.tree for mark in node.marks.values()}
        assert here == there, "a mark that nobody can take away"
        assert self.tree.retained <= self.most, "more is retained than may be"
        known = [mark for marks in self._programs.values() for mark in marks]
        assert len(known) == len(self._marks) == len(set(known) | self._marks.keys())

    def _forget(self, marks: Iterable[Mark]) -> None:
        for mark in marks:
            self.tree.lapse(mark)
            if mark in self._marks:
                del self._marks[mark]
                program = mark.branch.client, mark.branch.program
                self._programs[program].discard(mark)
                if not self._programs[program]:
                    del self._programs[program]
