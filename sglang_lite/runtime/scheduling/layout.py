"""Segments: which runs of pages a batch reads, each shared run named once.

A radix node that several rows read becomes one run if reading it once saves enough; else each
row reads it as part of a private run of its own. Cost: O(rows x depth of the tree), and one copy
of each row's page table where nothing is shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sglang_lite.runtime.scheduling.batch import Int, Segments
from sglang_lite.runtime.scheduling.cache import Lease
from sglang_lite.runtime.scheduling.node import Node

SHARE_FROM = 64  # a node is worth a run of its own if (readers - 1) * tokens reaches this


@dataclass(slots=True, eq=False)
class _Run:
    pages: list[Int]
    first: int
    end: int
    readers: list[int]


def lay_out(
    leases: Sequence[Lease], ends: Sequence[int], page_size: int, share_from: int | None
) -> Segments:
    """Segments in which row i reads its positions [0, ends[i]) through leases[i].

    `share_from` None shares nothing: every row is computed as if it were alone.
    """
    paths = [_path(lease, end, page_size) for lease, end in zip(leases, ends, strict=True)]
    readers: dict[Node, list[int]] = {}
    for row, path in enumerate(paths):
        for node, _ in path:
            readers.setdefault(node, []).append(row)
    runs: list[_Run] = []
    run_of: dict[Node, _Run] = {}
    for row, path in enumerate(paths):
        at, above = 0, None
        for node, first in path:
            rows = readers[node]
            worth = (len(rows) - 1) * len(node.tokens)
            if share_from is None or worth < max(1, share_from):
                above = None
                continue
            if rows[0] == row:  # the first reader lays the run
                end = first + len(node.tokens)
                if above is not None and above.end == first and above.readers == rows:
                    above.pages.append(node.pages)
                    above.end = end
                    run_of[node] = above
                else:
                    run_of[node] = _Run([node.pages], first, end, rows)
                    runs.append(run_of[node])
            above = run_of[node]
            _private(runs, leases[row], row, at, first, page_size)
            at = first + len(node.tokens)
        _private(runs, leases[row], row, at, ends[row], page_size)
    return _columns(runs)


def _path(lease: Lease, end: int, page_size: int) -> list[tuple[Node, int]]:
    """The lease's nodes within [0, end), from the root on, each with its first position."""
    path, last = [], lease.shared * page_size
    for node in lease.node.ancestry():
        first = last - len(node.tokens)
        if last <= end:
            path.append((node, first))
        last = first
    return path[::-1]


def _private(runs: list[_Run], lease: Lease, row: int, start: int, end: int, size: int) -> None:
    if start < end:
        pages = lease.table[start // size : -(-end // size)]
        runs.append(_Run([pages], start, end, [row]))


def _columns(runs: list[_Run]) -> Segments:
    pages = [np.concatenate(run.pages) if len(run.pages) > 1 else run.pages[0] for run in runs]
    return Segments(
        pages=np.concatenate(pages).astype(np.int32, copy=False),
        indptr=_indptr([len(each) for each in pages]),
        first=np.array([run.first for run in runs], np.int32),
        length=np.array([run.end - run.first for run in runs], np.int32),
        readers=np.array([row for run in runs for row in run.readers], np.int32),
        reader_indptr=_indptr([len(run.readers) for run in runs]),
    )


def _indptr(counts: list[int]) -> Int:
    out = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=out[1:])
    return out
