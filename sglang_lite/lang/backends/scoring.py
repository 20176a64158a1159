"""Options as a trie: what begins several of them is scored once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sglang_lite.lang.backends.encoder import common


class Asked(NamedTuple):
    """A text whose tokens from `start` on are to be scored."""

    ids: list[int]
    start: int


class Share(NamedTuple):
    """What of a text is new: logprobs below `first` are those of an earlier text."""

    first: int
    source: int | None


def shares(asked: Sequence[Asked]) -> list[Share]:
    """For each text the longest beginning that an earlier one has in common with it."""
    found = []
    for at, (ids, start) in enumerate(asked):
        best = Share(start, None)
        for earlier in range(at):
            if asked[earlier].start == start:
                length = common(asked[earlier].ids, ids)
                if length > best.first:
                    best = Share(length, earlier)
        found.append(best)
    return found


def start_of(tokenizer: Any) -> list[int]:
    """What stands before an option that is scored without a prompt."""
    first = tokenizer.bos_token_id
    return [tokenizer.eos_token_ids[0] if first is None else first]


def rows_of(
    asked: Sequence[Asked], plan: Sequence[Share], scored: Sequence[list[float]]
) -> list[list[float]]:
    """Every text's logprobs, from those of what was new in each."""
    rows: list[list[float]] = []
    for (_, start), (first, source), new in zip(asked, plan, scored, strict=True):
        old = rows[source][: first - start] if source is not None else []
        rows.append([*old, *new])
    return rows
