"""Automata against the engine's own index over whole tokens, and against Python's `re`."""

from __future__ import annotations

import re

import numpy as np
import outlines_core
import pytest
from grammars import EOS, TABLE, TOKENS, compiled
from hypothesis import given, settings
from hypothesis import strategies as st

from sglang_lite.runtime.grammar.automaton import AutomatonGrammar
from sglang_lite.runtime.grammar.outlines import END, START, build
from sglang_lite.runtime.grammar.refusal import Refusal
from sglang_lite.runtime.grammar.table import TokenTable
from sglang_lite.runtime.grammar.walk import accepts

letters = st.sampled_from(["a", "b", "c", "[ab]", "[^a\U0010fffe\U0010ffff]", "\u00e9"])
regexes = st.recursive(
    letters,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda pair: f"(?:{pair[0]}|{pair[1]})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,3}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
    ),
    max_leaves=6,
)
walks = st.lists(st.integers(0, 1 << 16), max_size=8)


def ids_of(row: np.ndarray) -> set[int]:
    return set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())


class Reference:
    """outlines-core as it is meant to be used, over whole tokens, between the same sentinels."""

    def __init__(self, regex: str) -> None:
        start, end, never = (len(TOKENS) + extra for extra in range(3))
        words: dict[bytes, list[int]] = {}
        for id, data in enumerate(TOKENS):
            if data:
                words.setdefault(data, []).append(id)
        words[START.encode()], words[END.encode()] = [start], [end]
        vocabulary = outlines_core.Vocabulary(never, words)
        self.index = outlines_core.Index(f"{START}(?:{regex}){END}", vocabulary)
        self.end = end
        self.state = self.index.get_next_state(self.index.get_initial_state(), start)

    def allowed(self) -> set[int]:
        ids = {
            id for id in range(len(TOKENS)) if self.index.get_next_state(self.state, id) is not None
        }
        last = self.index.get_next_state(self.state, self.end)
        return ids | ({EOS} if last is not None and self.index.is_final_state(last) else set())

    def advance(self, token: int) -> None:
        self.state = self.index.get_next_state(self.state, token)


@settings(max_examples=150, deadline=None)
@given(regex=regexes, walk=walks)
def test_masks_are_those_of_the_index_over_tokens(regex: str, walk: list[int]) -> None:
    grammar = compiled(regex)
    matcher, reference = grammar.matcher(), Reference(regex)
    row = np.zeros(TABLE.width, np.int32)
    for choice in walk:
        matcher.fill(row)
        allowed = ids_of(row)
        assert allowed == reference.allowed()
        assert allowed == {id for id in range(-1, 70) if matcher.validate([id])}
        assert (EOS in allowed) == matcher.may_stop()
        ids = matcher.allowed(256)
        assert ids is not None
        assert set(ids.tolist()) == allowed
        follow = sorted(allowed - {EOS})
        if not follow:
            assert matcher.must_stop()
            break
        token = follow[choice % len(follow)]
        assert matcher.advance(token)
        reference.advance(token)


@settings(max_examples=150, deadline=None)
@given(regex=regexes, text=st.text("abc\u00e9", max_size=6))
def test_a_text_is_taken_if_it_matches_whole(regex: str, text: str) -> None:
    grammar = compiled(regex)
    bytewise = [{b"a": 0, b"b": 1, b"c": 2, b"\xc3": 7, b"\xa9": 8}[bytes([b])]
                for b in text.encode()]  # fmt: skip
    wanted = re.fullmatch(regex, text) is not None
    assert accepts(grammar, TABLE, bytewise) == wanted
    assert accepts(grammar, TABLE, TABLE.encode(text)) == wanted


@settings(max_examples=100, deadline=None)
@given(regex=regexes, walk=walks, back=st.integers(0, 8))
def test_going_back_and_forking_lead_to_the_same_place(
    regex: str, walk: list[int], back: int
) -> None:
    matcher = compiled(regex).matcher()
    rows, row = [], np.zeros(TABLE.width, np.int32)
    for choice in walk:
        matcher.fill(row)
        rows.append(row.copy())
        allowed = sorted(ids_of(row))
        assert not matcher.advance(EOS if EOS not in allowed else 99)
        assert matcher.advance(allowed[choice % len(allowed)])
        if matcher.must_stop():
            break
    fork = matcher.fork()
    back = min(back, len(rows))
    matcher.rollback(back)
    if back:
        matcher.fill(row)
        np.testing.assert_array_equal(row, rows[-back])
        after = sorted(ids_of(rows[-back]))
        assert matcher.validate([after[0]]) == 1
    fork.rollback(len(rows))
    if rows:
        fork.fill(row)
        np.testing.assert_array_equal(row, rows[0])


@settings(max_examples=60, deadline=None)
@given(regex=regexes)
def test_states_of_one_kind_have_one_mask(regex: str) -> None:
    grammar = compiled(regex)
    first: dict[int, set[int]] = {}
    for state in range(len(grammar.accepting)):
        allowed = set(grammar._allowed(state).tolist())
        if grammar.accepting[state]:
            allowed.add(EOS)
        assert first.setdefault(int(grammar.kind[state]), allowed) == allowed


def test_every_alternative_counts_not_the_leftmost() -> None:
    grammar = compiled("a|ab")
    assert accepts(grammar, TABLE, [0])
    assert accepts(grammar, TABLE, [0, 1])
    assert accepts(grammar, TABLE, [3])
    assert not accepts(grammar, TABLE, [0, 2])


def test_eos_is_taken_once_and_can_be_taken_back() -> None:
    matcher = compiled("ab*").matcher()
    assert not matcher.advance(EOS)
    assert matcher.advance(0)
    assert matcher.may_stop()
    assert not matcher.must_stop()
    assert matcher.advance(EOS)
    assert matcher.must_stop()
    assert not matcher.advance(EOS)
    assert not matcher.advance(1)
    matcher.rollback(1)
    assert not matcher.must_stop()
    assert matcher.advance(1)


def test_ids_beyond_the_tokenizer_and_special_ones_are_in_no_mask() -> None:
    tokens = [*(bytes([b]) for b in range(256)), b"", b"", *([b""] * 40)]  # special, EOS, padding
    table = TokenTable(tokens, (257,), lambda text: list(text.encode()))
    grammar = AutomatonGrammar(build(r"[^\x{10FFFE}\x{10FFFF}]*", table.longest), table)
    matcher = grammar.matcher()
    row = np.zeros(table.width, np.int32)
    for token in (0x61, 0xC3, 0xA9):
        matcher.fill(row)
        assert max(ids_of(row)) <= 257
        assert 256 not in ids_of(row)
        assert matcher.advance(token)


def test_a_long_string_compiles_in_no_time_at_all() -> None:
    """Without a sentinel in front the automaton doubles with each character."""
    automaton = build(r'"[^"\\\x{10FFFE}\x{10FFFF}]{36}"', TABLE.longest)
    assert len(automaton.accepting) < 1000


def test_masks_that_are_kept_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sglang_lite.runtime.grammar.automaton.MAX_MASKS", 4)
    grammar = compiled("(?:abc){9}")
    matcher = grammar.matcher()
    row = np.zeros(TABLE.width, np.int32)
    for token in [0, 1, 2] * 9:
        matcher.fill(row)
        assert matcher.advance(token)
    assert grammar.nbytes < compiled("(?:abc){9}").nbytes + 5 * 4 * (TABLE.width + 64)


def test_a_regex_that_is_none_is_refused() -> None:
    with pytest.raises(Refusal, match="outlines-core"):
        build("(a", 4)
