"""Which queries meet which keys, as ranges of two index arrays. Numpy alone.

A batch becomes *items*, each a set of keys and the tokens whose queries see all of them:

    a run with several readers      its keys            every token of every reader
    what one row alone reads        all such keys       the row's tokens

A few new tokens are the last of their row's own keys, and a mask keeps each from seeing later
ones. Those of a longer chunk are not among its keys: they are seen causally, by another kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sglang_lite.runtime.scheduling.batch import Batch, Segments

Index = NDArray[np.int64]

GROUP_KEYS = 4096  # gathered keys of a group stay in the processor's cache
CALL_KEYS = 256  # what one more call costs, in keys gathered and multiplied
SHORT = 15  # new tokens up to this many are masked, and need no call of their own


class Item(NamedTuple):
    """Work before padding, as ranges of the keys and tokens of `items_of`."""

    queries: int
    keys: int
    first_token: int
    first_key: int
    own: int = 0  # the last keys, which are the queries' own: each sees itself and those before


def items_of(batch: Batch, page_size: int) -> tuple[Index, Index, list[Item]]:
    """KV slots, tokens and the items made of ranges of them."""
    runs = batch.segments
    slots, first_slot = _slots(runs, page_size)
    run = np.repeat(np.arange(len(runs.first)), np.diff(runs.reader_indptr))
    row = runs.readers
    seen_by_all = batch.start + (batch.length == 1)
    whole = seen_by_all[row] - runs.first[run] >= runs.length[run]
    shared = whole & (np.bincount(run[whole], minlength=len(runs.first))[run] > 1)

    own = np.where(batch.length <= SHORT, batch.length, 0)
    seen = np.clip((batch.start + own)[row] - runs.first[run], 0, runs.length[run])
    seen = seen.astype(np.int64)
    ends = np.cumsum(batch.length, dtype=np.int64)
    alone = np.flatnonzero(~shared & (seen > 0))
    alone = alone[np.lexsort((runs.first[run[alone]], row[alone]))]
    keys = [slots[ranges(first_slot[run[alone]], seen[alone])]]
    tokens = [np.arange(len(batch.tokens), dtype=np.int64)]
    items: list[Item] = []
    first_key = 0
    count = np.bincount(row[alone], weights=seen[alone], minlength=batch.rows).astype(np.int64)
    for reader in np.flatnonzero(count).tolist():
        length = int(batch.length[reader])
        size = int(count[reader])
        new = int(own[reader])
        items.append(Item(length, size, int(ends[reader]) - length, first_key, new))
        first_key += size

    first_token = len(batch.tokens)
    for readers, together in _shared_runs(run[shared], row[shared]).items():
        rows = np.frombuffer(readers, np.int32)
        lengths = batch.length[rows].astype(np.int64)
        tokens.append(ranges(ends[rows] - lengths, lengths))
        keys.append(slots[ranges(first_slot[together], runs.length[together].astype(np.int64))])
        items.append(Item(len(tokens[-1]), len(keys[-1]), first_token, first_key))
        first_token += len(tokens[-1])
        first_key += len(keys[-1])
    return np.concatenate(keys), np.concatenate(tokens), items


def slots_of_rows(batch: Batch, page_size: int) -> list[Index]:
    """For each row, the KV slot of every position it reads, from 0."""
    runs = batch.segments
    slots, first_slot = _slots(runs, page_size)
    run = np.repeat(np.arange(len(runs.first)), np.diff(runs.reader_indptr))
    found = [np.empty(int(end), np.int64) for end in batch.start + batch.length]
    for row, index in zip(runs.readers.tolist(), run.tolist(), strict=True):
        first, length, begin = int(runs.first[index]), int(runs.length[index]), first_slot[index]
        found[row][first : first + length] = slots[begin : begin + length]
    return found


def _slots(runs: Segments, page_size: int) -> tuple[Index, Index]:
    """The KV slots of all runs one after another, and where each run's begin."""
    length = runs.length.astype(np.int64)
    first = np.cumsum(length) - length
    within = ranges(np.zeros_like(length), length)
    page = runs.pages[np.repeat(runs.indptr[:-1], length) + within // page_size]
    return page.astype(np.int64) * page_size + within % page_size, first


def _shared_runs(run: Index, row: NDArray[np.int32]) -> dict[bytes, list[int]]:
    """Shared runs by who reads them: runs with the same readers are one item."""
    found: dict[bytes, list[int]] = {}
    cuts = np.flatnonzero(np.diff(run)) + 1
    for runs, rows in zip(np.split(run, cuts), np.split(row, cuts), strict=True):
        if len(runs):
            found.setdefault(np.sort(rows).tobytes(), []).append(int(runs[0]))
    return found


def grouped(items: Sequence[Item]) -> list[list[Item]]:
    """Items of similar size together, as long as padding costs less than one more call."""
    groups: list[list[Item]] = []
    for item in sorted(items):
        if groups:
            group = groups[-1]
            keys = max(group[-1].keys, item.keys)
            joined = _cost(len(group) + 1, keys, item.queries)
            apart = _cost(len(group), group[-1].keys, group[-1].queries)
            apart += _cost(1, item.keys, item.queries) + CALL_KEYS
            if joined <= apart and (len(group) + 1) * keys <= GROUP_KEYS:
                group.append(item._replace(keys=item.keys))
                continue
        groups.append([item])
    return groups


def _cost(items: int, keys: int, queries: int) -> float:
    return items * keys * (1 + queries / 16)


def ranges(first: Index, length: Index) -> Index:
    """first[0], first[0] + 1, ... (length[0] of them), then first[1], ..."""
    ends = np.cumsum(length)
    total = int(ends[-1]) if len(ends) else 0
    found: Index = np.arange(total, dtype=np.int64) + np.repeat(first - (ends - length), length)
    return found
