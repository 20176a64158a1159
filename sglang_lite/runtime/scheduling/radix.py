"""A radix tree over token ids that knows which KV page holds each page of tokens.

Host memory only: numpy in, numpy out; no torch, no device, no wall clock. The tree neither
allocates nor frees pages. It says which pages a prefix occupies, and hands back those it
forgets. Looking never changes it: `match` is a query; `pin`, `grow` and `evict` are commands.

Invariants, checked by `check()` after every step of every test:
  * a node covers whole pages, and a pinned node's parent is pinned at least as often;
  * siblings differ in their first page, so finding a child is one dict lookup;
  * a child is filled by the same batch as its parent or by a later one;
  * `retained` pages lie on a path from the root to a mark, and a node counts the marks below it.

The idea is RadixAttention's (Zheng et al., 2024, "SGLang: Efficient Execution of Structured
Language Model Programs", section 3).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice
from typing import NamedTuple

import numpy as np

from sglang_lite.runtime.scheduling.batch import Int
from sglang_lite.runtime.scheduling.leaves import Leaves
from sglang_lite.runtime.scheduling.node import Mark, Node

EMPTY: Int = np.empty(0, np.int32)
MOST_SIBLINGS_COMPARED = 64  # when looking for a partly equal page


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
        self.retained = 0  # of these, in texts that some program waits for
        self._clock = count(1)
        self._leaves = Leaves()

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
            each.pins, each.used, each.done = each.pins + 1, now, False
        return node

    def unpin(self, node: Node) -> None:
        for each in node.ancestry():
            each.pins -= 1
            if not each.pins:
                self.evictable += len(each.pages)
                if not each.children:
                    self._leaves.offer(each)

    def keep(self, node: Node, mark: Mark) -> None:
        """Put `mark`, of a branch that has none here, at `node`: its text is evicted late."""
        assert mark.branch not in node.marks
        mark.node, node.marks[mark.branch] = node, mark
        for each in node.ancestry():
            if not each.wishes:
                self.retained += len(each.pages)
            each.wishes += 1
        if node.is_free_leaf:
            self._leaves.offer(node)

    def lapse(self, mark: Mark) -> None:
        """Take a mark away; its text is cached like any other. A second call does nothing."""
        node, mark.node = mark.node, None
        if node is None:
            return
        del node.marks[mark.branch]
        for each in node.ancestry():
            each.wishes -= 1
            if not each.wishes:
                self.retained -= len(each.pages)
        if node.is_free_leaf:
            self._leaves.offer(node)

    def grow(self, node: Node, tokens: Int, pages: Int, filled: int, namespace: str = "") -> Node:
        """Hang `tokens` below `node`, which the caller pins; return the new end, pinned as well.

        The caller has matched: no child of `node` begins like `tokens`. A leaf that only the
        caller reads is made longer instead of getting a child, unless its end is of interest.
        """
        self.size += len(pages)
        ends = node.parent is None or node.marks or node.whole
        if not ends and not node.children and node.pins == 1:
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
        """Forget up to `wanted` pages: from the tails of unpinned leaves, in order of rank.

        Cost: O(log nodes + marks) for each leaf touched.
        """
        freed: list[Int] = []
        missing = wanted
        while missing > 0 and (leaf := self._leaves.pop()):
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
            for mark in list(node.marks.values()):
                self.lapse(mark)
            self.size -= len(node.pages)
            self.evictable -= len(node.pages)
        for node in doomed:
            parent = node.parent
            assert parent is not None
            del parent.children[node.key]
            if parent.filled < since and parent.is_free_leaf:
                self._leaves.offer(parent)
        for node in doomed:
            node.parent = None
        return np.concatenate([node.pages for node in doomed]) if doomed else EMPTY

    def check(self) -> None:
        """Raise AssertionError unless every invariant holds. O(tree)."""
        offered = self._leaves.current()
        size = evictable = retained = 0
        for node in self:
            parent = node.parent
            assert parent is not None
            assert parent.children[node.key] is node
            assert node.key.endswith(node.tokens[: self.page_size].tobytes())
            assert len(node.tokens) == len(node.pages) * self.page_size > 0
            assert node.pins >= 0
            assert parent is self.root or parent.pins >= node.pins
            assert parent.filled <= node.filled
            assert not node.is_free_leaf or node in offered, "a leaf nobody can evict"
            assert all(m.node is node and m.branch == b for b, m in node.marks.items())
            below = sum(child.wishes for child in node.children.values())
            assert node.wishes == len(node.marks) + below, "a mark is counted wrongly"
            size += len(node.pages)
            evictable += 0 if node.pins else len(node.pages)
            retained += len(node.pages) if node.wishes else 0
        assert (size, evictable, retained) == (self.size, self.evictable, self.retained)

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
        top.pins, top.used, top.wishes = low.pins, low.used, low.wishes
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
        self.retained -= removed if leaf.wishes else 0
        if pages:
            leaf.tokens, leaf.pages = leaf.tokens[: pages * self.page_size], leaf.pages[:pages]
            leaf.whole = False
            self._leaves.offer(leaf)
            return
        parent = leaf.parent
        assert parent is not None
        del parent.children[leaf.key]
        leaf.parent = None
        self._hand_up(leaf, parent)
        if parent.is_free_leaf:
            self._leaves.offer(parent)

    def _hand_up(self, leaf: Node, parent: Node) -> None:
        """What is left of a marked text is its beginning: let the marks of a removed leaf be there,
        one of each branch."""
        for mark in leaf.marks.values():
            if parent is self.root:
                mark.node = None
            elif mark.branch in parent.marks:
                mark.node = None
                for each in parent.ancestry():
                    each.wishes -= 1  # the other one remains, so that this is never the last
            else:
                mark.node, parent.marks[mark.branch] = parent, mark

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
