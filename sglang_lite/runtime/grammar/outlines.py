"""From a regex to a byte automaton, by outlines-core. Runs in the compiling process only.

`outlines_core.Index` prefers the leftmost alternative and builds an unanchored half. A sentinel
character on each side undoes both: with one in front nothing unanchored is left to build, and a
state accepts if the one behind leads to a match, whatever alternative came first. Neither occurs
in any class of a regex, and the byte they begin with in no transition of the automaton.
"""

from __future__ import annotations

from functools import cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sglang_lite.runtime.grammar.automaton import Automaton
from sglang_lite.runtime.grammar.refusal import Refusal

START, END = "\U0010fffe", "\U0010ffff"
LOOK_EVERY = 6  # rounds of refinement between looks at what they have told apart
LEAD = 0xF4  # both begin with this byte, and no other character in use does


def build(regex: str, longest: int) -> Automaton:
    """The automaton of the strings that match `regex` whole.

    Args:
        longest: bytes of the vocabulary's longest token.

    Raises:
        Refusal: the regex is not understood.
    """
    index = _index(f"{START}(?:{regex}){END}")
    transitions: dict[int, dict[int, int]] = index.get_transitions()
    names = sorted({*transitions, *chain.from_iterable(map(dict.values, transitions.values()))})
    number = {name: at for at, name in enumerate(names)}
    dead = len(names)
    table = np.full((dead + 1, 256), dead, np.int32)
    rows = np.repeat(
        np.array([number[name] for name in transitions], np.int64),
        [len(each) for each in transitions.values()],
    )
    columns = np.fromiter(chain.from_iterable(transitions.values()), np.int64)
    targets = np.fromiter(chain.from_iterable(map(dict.values, transitions.values())), np.int64)
    real = columns < 256
    table[rows[real], columns[real]] = np.searchsorted(names, targets[real])
    start = number[index.get_initial_state()]
    for byte in START.encode():
        start = int(table[start, byte])
    final = np.zeros(dead + 1, np.bool_)
    final[[number[name] for name in index.get_final_states()]] = True
    ends = np.arange(dead + 1)
    for byte in END.encode():
        ends = table[ends, byte]
    accepting = final[ends]
    table[:, LEAD] = dead
    byte_class, small = _classes(table)
    return Automaton(
        start=start,
        byte_class=byte_class.tobytes(),
        table=small.tobytes(),
        accepting=accepting.tobytes(),
        kind=_kinds(small, accepting, longest).tobytes(),
    )


def _index(regex: str) -> Any:
    import outlines_core

    try:
        return outlines_core.Index(regex, _bytes_vocabulary())
    except ValueError as error:
        raise Refusal(f"outlines-core does not take the regex: {error}") from error


@cache
def _bytes_vocabulary() -> Any:
    import outlines_core

    return outlines_core.Vocabulary(256, {bytes([byte]): [byte] for byte in range(256)})


def _classes(table: NDArray[np.int32]) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """The class of each byte, bytes with equal columns in one, and the table with classes only."""
    columns = (table.view(np.uint32) * _weights(len(table))[:, None]).sum(0, dtype=np.uint64)
    _, first, byte_class = np.unique(columns, return_index=True, return_inverse=True)
    return byte_class.astype(np.uint8), np.ascontiguousarray(table[:, first])


def _kinds(table: NDArray[np.int32], accepting: NDArray[np.bool_], depth: int) -> NDArray[np.int32]:
    """A number for each state: the same for states that allow the same strings of `depth` bytes.

    Each round hashes what the states one byte on were hashed to (Moore's refinement, with 64-bit
    random multipliers in place of sorting); the dead state stays 0.
    """
    columns = list(np.ascontiguousarray(table.T))
    weights = _weights(len(columns))
    value = np.ones(len(table), np.uint64)
    value[-1] = 0
    known = 0
    for at in range(depth):
        if at % LOOK_EVERY == 0:
            before, known = known, len(np.unique(value))
            if known == before:  # nothing was told apart in these rounds, nor will be later
                break
        total = np.full(len(table), 0xD6E8FEB86659FD93, np.uint64)
        for column, weight in zip(columns, weights, strict=True):
            total += (value * weight)[column]
        total ^= total >> np.uint64(29)
        value = total * np.uint64(0x9E3779B97F4A7C15)
        value[-1] = 0
    value ^= accepting.astype(np.uint64) * np.uint64(0xBF58476D1CE4E5B9)
    kinds: NDArray[np.int32] = np.unique(value, return_inverse=True)[1].astype(np.int32)
    return kinds


def _weights(count: int) -> NDArray[np.uint64]:
    """Odd numbers, the same ones each time."""
    numbers = np.random.default_rng(20).integers(0, 1 << 63, count, np.uint64)
    return numbers * np.uint64(2) + np.uint64(1)
