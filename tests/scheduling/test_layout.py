"""Runs cover each row exactly once, whatever is shared; and sharing is worth its while."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sglang_lite.runtime.scheduling.cache import Lease, PrefixCache
from sglang_lite.runtime.scheduling.layout import lay_out


def leases_of(texts: list[list[int]], page_size: int) -> list[Lease]:
    cache = PrefixCache(400, page_size)
    leases = []
    for seq, text in enumerate(texts, start=1):
        tokens = np.array(text, np.int32)
        lease = cache.acquire(tokens)
        assert cache.extend(lease, -(-len(text) // page_size) - lease.count)
        cache.publish(lease, tokens, seq)
        leases.append(lease)
    cache.check()
    return leases


texts = st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=14), min_size=1, max_size=6)


@given(texts, st.sampled_from([1, 3]), st.sampled_from([None, 1, 4]))
def test_every_row_reads_each_of_its_pages_once(
    texts: list[list[int]], page_size: int, share_from: int | None
) -> None:
    leases = leases_of(texts, page_size)
    ends = [len(text) for text in texts]
    segments = lay_out(leases, ends, page_size, share_from)
    seen: list[dict[int, int]] = [{} for _ in texts]
    for run in range(len(segments.first)):
        pages = segments.pages[segments.indptr[run] : segments.indptr[run + 1]]
        first, length = int(segments.first[run]), int(segments.length[run])
        readers = segments.readers[segments.reader_indptr[run] : segments.reader_indptr[run + 1]]
        if share_from is None:
            assert len(readers) == 1
        for row in readers.tolist():
            for position in range(first, first + length):
                assert position not in seen[row]
                offset = (position - first + first % page_size) // page_size
                seen[row][position] = int(pages[offset])
    for row, lease in enumerate(leases):
        assert seen[row] == {p: int(lease.table[p // page_size]) for p in range(ends[row])}


def test_a_prefix_of_many_rows_is_one_run() -> None:
    shared = [1] * 100
    leases = leases_of([[*shared, 0, i % 2, i // 2] for i in range(4)], 1)
    segments = lay_out(leases, [103] * 4, 1, 64)
    sizes = np.diff(segments.reader_indptr)
    assert sizes.max() == 4
    assert segments.length[int(sizes.argmax())] >= 100
    assert len(segments.pages) < 100 + 4 * 4
