"""A byte automaton as arrays, its token masks, and the matcher that walks it.

The masks are computed when they are first wanted, by one walk of the token trie, and kept. States
that allow the same byte strings up to the length of the longest token have one mask between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from sglang_lite.runtime.grammar.canonical import continuation
from sglang_lite.runtime.grammar.protocol import FEW, Row
from sglang_lite.runtime.grammar.table import Int, Level, TokenTable

MAX_JUMP = 4096  # forced bytes looked at at once
MAX_MASKS = 2048  # masks kept, of one grammar


class Automaton(msgspec.Struct, frozen=True, array_like=True):
    """A complete deterministic automaton over bytes; it crosses a pipe as it is.

    S states, of which the last is dead, and C classes of bytes that are never told apart.
    """

    start: int
    byte_class: bytes  # [256] uint8
    table: bytes  # [S, C] int32, the next state
    accepting: bytes  # [S] bool
    kind: bytes  # [S] int32: states of one kind allow the same tokens


class Mask(NamedTuple):
    row: Row
    ids: Int | None  # the allowed ids, EOS among them, if they are few

    @property
    def nbytes(self) -> int:
        return self.row.nbytes + (0 if self.ids is None else self.ids.nbytes)


class AutomatonGrammar:
    """An automaton over the tokens of a vocabulary. See `CompiledGrammar`."""

    def __init__(
        self, automaton: Automaton, table: TokenTable, notes: str = "", engine: str = "outlines"
    ) -> None:
        self.tokens, self.notes, self.engine = table, notes, engine
        self.start = automaton.start
        self.byte_class = np.frombuffer(automaton.byte_class, np.uint8)
        self.accepting = np.frombuffer(automaton.accepting, np.bool_)
        self.kind = np.frombuffer(automaton.kind, np.int32)
        states = len(self.accepting)
        self.dead = states - 1
        self.table = np.frombuffer(automaton.table, np.int32).reshape(states, -1)
        self._masks: dict[int, Mask] = {}
        self.nbytes = sum(map(len, (automaton.table, automaton.accepting, automaton.kind)))

    def matcher(self) -> AutomatonMatcher:
        return AutomatonMatcher(self)

    def mask(self, state: int) -> Mask:
        """What may follow in `state`."""
        kind = int(self.kind[state])
        found = self._masks.get(kind)
        if found is None:
            ids = self._allowed(state)
            if self.accepting[state]:
                ids = np.concatenate((ids, np.array(self.tokens.eos, np.int32)), dtype=np.int32)
            found = Mask(self.tokens.row(ids), ids if len(ids) <= FEW else None)
            while len(self._masks) >= MAX_MASKS:
                oldest = self._masks.pop(next(iter(self._masks)))
                self.nbytes -= oldest.nbytes
            self._masks[kind] = found
            self.nbytes += found.nbytes
        return found

    def step(self, state: int, data: bytes) -> int:
        table, classes = self.table, self.byte_class
        for byte in data:
            state = int(table[state, classes[byte]])
        return state

    def forced(self, state: int) -> tuple[bytes, int]:
        """The bytes that must follow, and the state after them."""
        out = bytearray()
        while len(out) < MAX_JUMP and not self.accepting[state]:
            live = np.flatnonzero(self.table[state] != self.dead)
            if len(live) != 1:
                break
            bytes_of = np.flatnonzero(self.byte_class == live[0])
            if len(bytes_of) != 1:
                break
            out.append(int(bytes_of[0]))
            state = int(self.table[state, live[0]])
        return bytes(out), state

    def following(self, state: int) -> bytes:
        """The bytes that may come next."""
        live = self.table[state][self.byte_class] != self.dead
        return np.flatnonzero(live).astype(np.uint8).tobytes()

    def _allowed(self, state: int) -> Int:
        """The ids of the tokens whose bytes lead from `state` to a state that is not dead."""
        nodes, states = np.zeros(1, np.int32), np.array([state], np.int32)
        found = []
        for level in self.tokens.levels:
            nodes, states = self._descend(level, nodes, states)
            if not len(nodes):
                break
            ending = level.token[nodes]
            found.append(ending[ending >= 0])
            if len(level.more_node):
                found.append(level.more_token[np.isin(level.more_node, nodes)])
        ids: Int = np.concatenate(found) if found else np.empty(0, np.int32)
        return ids

    def _descend(self, level: Level, nodes: Int, states: Int) -> tuple[Int, Int]:
        """The children of `nodes` that are reached alive, and the states they are reached in."""
        if len(nodes) * 8 > len(level.first):  # much of the level: look at all of it
            at = np.full(len(level.first), self.dead, np.int32)
            at[nodes] = states
            states = self._next(at.take(level.parent), level.byte)
            reached: Int = np.flatnonzero(states != self.dead).astype(np.int32)
            return reached, states.take(reached)
        first = level.first.take(nodes)
        count = level.first.take(nodes + 1) - first
        ends = np.cumsum(count, dtype=np.int32)
        children = np.repeat(first - (ends - count), count)
        children += np.arange(len(children), dtype=np.int32)
        states = self._next(np.repeat(states, count), level.byte.take(children))
        alive = np.flatnonzero(states != self.dead)
        return children.take(alive), states.take(alive)

    def _next(self, states: Int, byte: NDArray[np.uint8]) -> Int:
        """The state after each of `states` and `byte`: one flat look-up, which is the fastest."""
        places = states * self.table.shape[1]
        places += self.byte_class.take(byte)
        return self.table.ravel().take(places)


class AutomatonMatcher:
    """See `Matcher`. A state is a number, so going back and forking cost nothing."""

    __slots__ = ("_grammar", "_past", "_state")

    ENDED = -1  # EOS was taken

    def __init__(self, grammar: AutomatonGrammar) -> None:
        self._grammar, self._state = grammar, grammar.start
        self._past: list[int] = []

    def fill(self, row: Row) -> None:
        row[:] = self._grammar.tokens.eos_row if self._ended else self._mask.row

    def allowed(self, limit: int) -> NDArray[np.int32] | None:
        if self._ended:
            return np.array(self._grammar.tokens.eos, np.int32)
        ids = self._mask.ids
        return ids if ids is not None and len(ids) <= limit else None

    def advance(self, token: int) -> bool:
        state = self._after(self._state, token)
        if state is None:
            return False
        self._past.append(self._state)
        self._state = state
        return True

    def validate(self, tokens: Sequence[int]) -> int:
        state: int | None = self._state
        for count, token in enumerate(tokens):
            assert state is not None
            state = self._after(state, token)
            if state is None:
                return count
        return len(tokens)

    def rollback(self, count: int) -> None:
        if count:
            self._state = self._past[-count]
            del self._past[-count:]

    def jump_forward(self, tail: Sequence[int], drawn: int | None = None) -> list[int]:
        grammar = self._grammar
        state = self._state if drawn is None else self._after(self._state, drawn)
        if state is None:
            return []
        if state == self.ENDED:
            return [] if drawn is None else [drawn]
        forced, after = grammar.forced(state)
        following = grammar.following(after) if forced else None
        return continuation(grammar.tokens, tail, forced, drawn=drawn, following=following)

    def may_stop(self) -> bool:
        return self._ended or bool(self._grammar.accepting[self._state])

    def must_stop(self) -> bool:
        return self._ended or self._final(self._state)

    def trouble(self) -> str:
        return ""

    def fork(self) -> AutomatonMatcher:
        other = AutomatonMatcher(self._grammar)
        other._state, other._past = self._state, list(self._past)
        return other

    @property
    def _ended(self) -> bool:
        return self._state == self.ENDED

    @property
    def _mask(self) -> Mask:
        return self._grammar.mask(self._state)

    def _final(self, state: int) -> bool:
        """Whether `state` accepts and nothing can follow."""
        grammar = self._grammar
        return bool(grammar.accepting[state]) and bool((grammar.table[state] == grammar.dead).all())

    def _after(self, state: int, token: int) -> int | None:
        grammar = self._grammar
        if state == self.ENDED or not 0 <= token < grammar.tokens.size:
            return None
        if token in grammar.tokens.eos:
            return self.ENDED if grammar.accepting[state] else None
        data = grammar.tokens.tokens[token]
        state = grammar.step(state, data) if data else grammar.dead
        return None if state == grammar.dead else state
