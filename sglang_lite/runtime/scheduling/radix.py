"""A radix tree over token ids that knows which KV page holds each page of tokens.

Host memory only: numpy in, numpy out; no torch, no device, no wall clock. The tree neither
allocates nor frees pages. It says which pages a prefix occupies, and hands back those it
forgets. Looking never changes it: `match` is a query; `pin`, `grow` and `evict` are commands.

Invariants, checked by `check()` after every step of every test:
  * a node covers whole pages, and a pinned node's parent is pinned at least as often;
  * siblings differ in their first page, so finding a child is one dict lookup;
  * a child is filled by the same batch as its parent or by a later one.

The idea is RadixAttention's (Zheng et al., 2024, "SGLang: Efficient Execution of Structured
Language Model Programs", section 3).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Int = NDArray[np.int32]
EMPTY: Int = np.empty(0, np.int32)
MOST_SIBLINGS_COMPARED = 64  # when looking for a partly equal page


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

    def ancestry(self) -> Iterator[Node]:
        """This node, its parent, and so on, without the root."""
        node = self
        while node.parent is not None:
            yield node
            node = node.parent


class Match(NamedTuple):
    """The longest prefix of whole pages that the tree holds."""

    node: Node  # where it ends,
    depth: int  # after how many of that node's pages,
    pages: int  # and how many pages it has in all


class Overlap(NamedTuple):
    """A page whose first `length` tokens are those wanted, though the whole page is not."""

    node: Node
    page: int
    length: int


class RadixTree:
    def __init__(self, page_size: int) -> None:
        self.page_size = page_size
        self.root = Node(b"", EMPTY, EMPTY, None, 0)
        self.size = 0  # pages in the tree
        self.evictable = 0  # of these, in nodes that nobody pins
        self._clock = count(1)
        self._leaves: list[tuple[int, int, Node]] = []  # heap of (used, tie, node); may be stale
        self._ties = count()
        self._sweep_at = 64

    # -------------------------------------------------------------- queries

    def match(self, tokens: Int, namespace: str = "", *, below: Node | None = None) -> Match:
        """The longest cached prefix of `tokens`; with `below`, of what follows that node.

        Cost: O(matched tokens).
        """
        node = below or self.root
        depth, pages = len(node.pages), 0
        while child := node.children.get(self._key(node, tokens, namespace)):
            depth = _common(child.tokens, tokens) // self.page_size
            pages += depth
            node = child
            if depth < len(child.pages):
                break
            tokens = tokens[depth * self.page_size :]
        return Match(node, depth, pages)

    def overlap(self, match: Match, tokens: Int, namespace: str = "") -> Overlap | None:
        """The page after `match` that agrees with `tokens`, what follows it, the longest."""
        if self.page_size == 1 or not len(tokens):
            return None
        node, depth, _ = match
        if depth < len(node.pages):
            candidates = [(node, depth)]
        else:
            candidates = [(child, 0) for child in self._children(node, namespace)]
        best: Overlap | None = None
        for candidate, at in candidates:
            page = candidate.tokens[at * self.page_size : (at + 1) * self.page_size]
            length = _common(page, tokens)
            if length > (best.length if best else 0):
                best = Overlap(candidate, int(candidate.pages[at]), length)
        return best

    def __iter__(self) -> Iterator[Node]:
        stack = list(self.root.children.values())
        while stack:
            stack += (node := stack.pop()).children.values()
            yield node

    # -------------------------------------------------------------- commands

    def pin(self, match: Match) -> Node:
        """Keep the matched pages until `unpin`; a match inside a node splits it there."""
        node = match.node if match.depth == len(match.node.pages) else self._split(match)
        now = next(self._clock)
        for each in node.ancestry():
            if not each.pins:
                self.evictable -= len(each.pages)
            each.pins, each.used = each.pins + 1, now
        return node

    def unpin(self, node: Node) -> None:
        for each in node.ancestry():
            each.pins -= 1
            if not each.pins:
                self.evictable += len(each.pages)
                if not each.children:
                    self._offer(each)

    def grow(self, node: Node, tokens: Int, pages: Int, filled: int, namespace: str = "") -> Node:
        """Hang `tokens` below `node`, which the caller pins; return the new end, pinned as well.

        The caller has matched: no child of `node` begins like `tokens`. A leaf that only the
        caller reads is made longer instead of getting a child.
        """
        self.size += len(pages)
        if node.parent is not None and not node.children and node.pins == 1:
            node.tokens = np.concatenate((node.tokens, tokens))
            node.pages = np.concatenate((node.pages, pages))
            node.filled = max(node.filled, filled)
            return node
        key = self._key(node, tokens, namespace)
        child = Node(key, tokens.copy(), pages.copy(), node, filled, used=next(self._clock))
        child.pins = 1
        node.children[key] = child
        return child

    def evict(self, wanted: int) -> Int:
        """Forget up to `wanted` pages: from the tails of unpinned leaves, coldest leaf first.

        Cost: O(log nodes) for each leaf touched.
        """
        freed: list[Int] = []
        missing = wanted
        while missing > 0 and self._leaves:
            note = heapq.heappop(self._leaves)
            if not _current(note):
                continue
            leaf = note[2]
            cut = max(0, len(leaf.pages) - missing)
            freed.append(leaf.pages[cut:])
            missing -= len(freed[-1])
            self._shorten(leaf, cut)
        return np.concatenate(freed) if freed else EMPTY

    def drop(self, since: int) -> Int:
        """Forget every node filled by batch `since` or a later one; nobody may pin them."""
        doomed = [node for node in self if node.filled >= since]
        for node in doomed:
            assert not node.pins, "a node of a failed batch is still pinned"
            self.size -= len(node.pages)
            self.evictable -= len(node.pages)
        for node in doomed:
            parent = node.parent
            assert parent is not None
            del parent.children[node.key]
            if parent.filled < since and not parent.pins and not parent.children:
                self._offer(parent)
        for node in doomed:
            node.parent = None
        return np.concatenate([node.pages for node in doomed]) if doomed else EMPTY

    def check(self) -> None:
        """Raise AssertionError unless every invariant holds. O(tree)."""
        offered = {id(note[2]) for note in self._leaves if _current(note)}
        size = evictable = 0
        for node in self:
            parent = node.parent
            assert parent is not None
            assert parent.children[node.key] is node
            assert node.key.endswith(node.tokens[: self.page_size].tobytes())
            assert len(node.tokens) == len(node.pages) * self.page_size > 0
            assert node.pins >= 0
            assert parent is self.root or parent.pins >= node.pins
            assert parent.filled <= node.filled
            assert node.pins or node.children or id(node) in offered, "a leaf nobody can evict"
            size += len(node.pages)
            evictable += 0 if node.pins else len(node.pages)
        assert (size, evictable) == (self.size, self.evictable)

    # -------------------------------------------------------------- inside

    def _children(self, node: Node, namespace: str) -> list[Node]:
        if node is not self.root:
            return list(islice(node.children.values(), MOST_SIBLINGS_COMPARED))
        prefix = namespace.encode()
        size = len(prefix) + 4 * self.page_size
        mine = (n for k, n in node.children.items() if len(k) == size and k.startswith(prefix))
        return list(islice(mine, MOST_SIBLINGS_COMPARED))

    def _split(self, match: Match) -> Node:
        """Cut a node in two after `match.depth` pages and return the upper half."""
        low, depth, at = match.node, match.depth, match.depth * self.page_size
        parent = low.parent
        assert parent is not None
        top = Node(low.key, low.tokens[:at], low.pages[:depth], parent, low.filled)
        top.pins, top.used = low.pins, low.used
        parent.children[top.key] = top
        low.tokens, low.pages, low.parent = low.tokens[at:], low.pages[depth:], top
        low.key = self._key(top, low.tokens, "")
        top.children[low.key] = low
        return top

    def _shorten(self, leaf: Node, pages: int) -> None:
        """Keep the first `pages` pages of an unpinned leaf; none: remove it."""
        removed = len(leaf.pages) - pages
        self.size -= removed
        self.evictable -= removed
        if pages:
            leaf.tokens, leaf.pages = leaf.tokens[: pages * self.page_size], leaf.pages[:pages]
            self._offer(leaf)
            return
        parent = leaf.parent
        assert parent is not None
        del parent.children[leaf.key]
        leaf.parent = None
        if parent is not self.root and not parent.pins and not parent.children:
            self._offer(parent)

    def _offer(self, leaf: Node) -> None:
        """Note that `leaf` may be evicted. Stale notes are skipped, and now and then swept."""
        if len(self._leaves) > self._sweep_at:
            self._leaves = [note for note in self._leaves if _current(note)]
            heapq.heapify(self._leaves)
            self._sweep_at = 2 * len(self._leaves) + 64
        heapq.heappush(self._leaves, (leaf.used, next(self._ties), leaf))

    def _key(self, node: Node, tokens: Int, namespace: str) -> bytes:
        page = tokens[: self.page_size]
        if len(page) < self.page_size:
            return b""  # shorter than a page: never a key
        return namespace.encode() + page.tobytes() if node is self.root else page.tobytes()


def _common(left: Int, right: Int) -> int:
    """How many leading tokens are equal."""
    size = min(len(left), len(right))
    differ = np.flatnonzero(left[:size] != right[:size])
    return int(differ[0]) if differ.size else size


def _current(note: tuple[int, int, Node]) -> bool:
    """Whether the leaf has been neither pinned, nor extended, nor forgotten since."""
    used, _, leaf = note
    return leaf.used == used and not leaf.pins and not leaf.children and leaf.parent is not None
