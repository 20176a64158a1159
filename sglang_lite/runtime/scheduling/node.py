"""A node of the radix tree, and what programs wish to find there again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from sglang_lite.runtime.scheduling.batch import Int

Rank = tuple[int, int, int]


class Branch(NamedTuple):
    """Whose texts continue each other: one branch of one program of one client."""

    client: bytes
    program: int
    group: int


@dataclass(slots=True, eq=False)
class Mark:
    """A wish that the text which ends at `node` is evicted after texts that nobody waits for."""

    branch: Branch
    steps: int  # requests of the program before the text is continued
    until: float  # when the wish lapses
    node: Node | None = None  # None: it has lapsed


@dataclass(slots=True, eq=False)
class Node:
    """A run of whole pages that every sequence passing through here shares."""

    key: bytes  # under which the parent knows this node
    tokens: Int
    pages: Int
    parent: Node | None
    filled: int  # the latest batch that writes KV into these pages
    children: dict[bytes, Node] = field(default_factory=dict)
    pins: int = 0  # leases reading this node now
    used: int = 0  # tree time of the last pin; a counter, so tests are deterministic
    marks: dict[Branch, Mark] = field(default_factory=dict)  # of texts that end here
    wishes: int = 0  # marks here and below
    done: bool = False  # the program whose text ends here has said that it is; nobody came since
    whole: bool = False  # a request's text ends here; kept only where nothing else can be found

    @property
    def rank(self) -> Rank:
        """Leaves are evicted in this order: those that a program is done with, those nothing is
        known of, those with a mark, of which the one that is continued last goes first; among
        equals the one not used for longest."""
        if not self.marks:
            return int(not self.done), 0, self.used
        return 2, -min(mark.steps for mark in self.marks.values()), self.used

    @property
    def is_free_leaf(self) -> bool:
        """Whether the node could be evicted: nobody reads it, and nothing hangs below it."""
        return not self.pins and not self.children and self.parent is not None

    def ancestry(self) -> Iterator[Node]:
        """This node, its parent, and so on, without the root."""
        node = self
        while node.parent is not None:
            yield node
            node = node.parent
