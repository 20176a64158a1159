"""What is evicted first, what a split keeps, how far a partly equal page reaches."""

from __future__ import annotations

import numpy as np
import pytest

from sglang_lite.runtime.scheduling.node import Node
from sglang_lite.runtime.scheduling.radix import RadixTree


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def put(tree: RadixTree, text: list[int], first_page: int, namespace: str = "") -> Node:
    """Insert `text` whole, on pages from `first_page` on, and unpin it."""
    tokens = ints(*text)
    match = tree.match(tokens, namespace)
    node = tree.pin(match)
    rest = tokens[match.pages * tree.page_size :]
    count = len(rest) // tree.page_size
    pages = np.arange(first_page, first_page + count, dtype=np.int32)
    node = tree.grow(node, rest[: count * tree.page_size], pages, 1, namespace) if count else node
    tree.unpin(node)
    tree.check()
    return node


def test_the_coldest_leaf_goes_first_from_its_tail() -> None:
    tree = RadixTree(1)
    put(tree, [1, 2, 3, 4], 10)
    put(tree, [1, 2, 7, 8], 20)  # splits after [1, 2]; pages 20, 21
    put(tree, [1, 2, 3, 4], 30)  # used again: nothing is added
    assert tree.evict(1).tolist() == [21]
    assert tree.evict(1).tolist() == [20]
    assert tree.evict(2).tolist() == [12, 13]
    tree.check()
    assert tree.evict(9).tolist() == [10, 11], "a parent becomes a leaf, and goes too"
    assert tree.size == tree.evictable == 0


def test_what_is_pinned_is_not_evicted() -> None:
    tree = RadixTree(1)
    put(tree, [1, 2, 3, 4], 10)
    node = tree.pin(tree.match(ints(1, 2)))
    assert tree.evictable == 2
    assert tree.evict(9).tolist() == [12, 13]
    tree.unpin(node)
    assert tree.evict(9).tolist() == [10, 11]


def test_namespaces_share_nothing() -> None:
    tree = RadixTree(2)
    put(tree, [1, 2, 3, 4], 10, "a")
    put(tree, [1, 2, 3, 4], 20, "b")
    assert tree.match(ints(1, 2), "a").pages == 1
    assert tree.match(ints(1, 2), "c").pages == 0
    assert tree.overlap(tree.match(ints(1), "b"), ints(1), "b").page == 20  # type: ignore[union-attr]
    assert tree.overlap(tree.match(ints(1), ""), ints(1), "") is None


def test_the_longest_partly_equal_page_is_found() -> None:
    tree = RadixTree(4)
    put(tree, [1, 2, 3, 4, 5, 6, 7, 8], 10)
    put(tree, [1, 2, 3, 4, 5, 6, 9, 9], 20)
    wanted = ints(1, 2, 3, 4, 5, 6, 9, 0)
    match = tree.match(wanted)
    assert match.pages == 1
    found = tree.overlap(match, wanted[4:])
    assert found is not None
    assert (found.page, found.length) == (20, 3)


def test_a_failed_batch_takes_all_below_it_along() -> None:
    tree = RadixTree(1)
    first = tree.grow(tree.pin(tree.match(ints(1))), ints(1, 2), ints(10, 11), 1)
    other = tree.pin(tree.match(ints(1, 2)))
    second = tree.grow(other, ints(3), ints(12), 2)
    tree.unpin(second)
    tree.unpin(first)
    assert tree.drop(2).tolist() == [12]
    tree.check()
    assert tree.evict(9).tolist() == [10, 11], "what stays can be evicted"


@pytest.mark.parametrize("page_size", [1, 4])
def test_notes_about_leaves_do_not_pile_up(page_size: int) -> None:
    tree = RadixTree(page_size)
    for _ in range(5_000):
        put(tree, [1] * 8, 10)
    assert len(tree._leaves) < 500
