"""Forced text comes in the tokens that the tokenizer would choose for the whole."""

from __future__ import annotations

from pathlib import Path

import pytest
from grammars import EOS, TABLE, encode
from hypothesis import given, settings
from hypothesis import strategies as st

from sglang_lite.runtime.grammar.canonical import continuation
from sglang_lite.runtime.grammar.table import TokenTable
from sglang_lite.runtime.tokenizer import Tokenizer


@given(before=st.text("abc", max_size=8), forced=st.text("abc", min_size=1, max_size=12),
       last=st.booleans())  # fmt: skip
def test_a_spelling_stays_the_tokenizers_own(before: str, forced: str, last: bool) -> None:
    """Unless the last token before, which is there for good, would have been another."""
    tail = encode(before)
    new = continuation(TABLE, tail, forced.encode(), following=b"" if last else None)
    text = b"".join(TABLE.tokens[id] for id in new).decode()
    assert forced.startswith(text)
    whole = encode(before + forced)
    if whole[: len(tail)] == tail:
        assert text == forced or not last
        assert [*tail, *new] == whole[: len(tail) + len(new)]


@given(before=st.text("abc", max_size=8), drawn=st.integers(0, 5),
       forced=st.text("abc", max_size=6), last=st.booleans())  # fmt: skip
def test_what_was_drawn_is_spelled_with_what_it_forces(
    before: str, drawn: int, forced: str, last: bool
) -> None:
    tail = encode(before)
    head = TABLE.tokens[drawn].decode()
    new = continuation(TABLE, tail, forced.encode(), drawn=drawn, following=b"" if last else None)
    text = b"".join(TABLE.tokens[id] for id in new).decode()
    assert text.startswith(head)
    assert (head + forced).startswith(text)
    if not forced:
        assert new == [drawn]
    whole = encode(before + head + forced)
    if forced and last and whole[: len(tail)] == tail:
        assert [*tail, *new] == whole


def test_what_may_grow_is_left_to_the_model() -> None:
    assert continuation(TABLE, [], b"ab") == []
    assert continuation(TABLE, [], b"ab", following=b"") == [3]
    assert continuation(TABLE, [], b"abcab") == [5]


def test_a_tail_in_another_spelling_is_no_obstacle() -> None:
    # "a" then "b" is spelled "ab": both are there already, apart, and stay so.
    assert continuation(TABLE, [0], b"bc", following=b"") == [4]
    assert continuation(TABLE, [0, 1], b"abc", following=b"") == [5]


def test_a_drawn_token_may_be_joined_with_what_follows() -> None:
    assert continuation(TABLE, [2], b"bc", drawn=0, following=b"") == [5]
    assert continuation(TABLE, [2], b"b", drawn=0) == [3], "never drawn apart"
    assert continuation(TABLE, [2], b"a", drawn=0) == [0]


def test_special_tokens_end_the_tail() -> None:
    assert continuation(TABLE, [0, EOS], b"bc", following=b"") == [4]


def test_the_last_token_is_taken_if_it_stays_whatever_follows() -> None:
    assert continuation(TABLE, [], b"cab", following=b"a") == [2, 3]
    assert continuation(TABLE, [], b"cab", following=b"c") == [2], "it may become abc"
    assert continuation(TABLE, [], b"cab", following=b"abc") == [2]
    assert continuation(TABLE, [], b"cab", following="é".encode()[:1]) == [2, 3]


def test_half_a_character_is_left_to_the_model() -> None:
    assert continuation(TABLE, [], "é".encode()[:1]) == []
    assert continuation(TABLE, [], b"\xff") == []
    assert continuation(TABLE, [7], "é".encode()[1:], following=b"") == [8]


@pytest.fixture(scope="module")
def table(smollm2_folder: Path) -> TokenTable:
    return TokenTable.of(Tokenizer.load(smollm2_folder))


@pytest.mark.model
def test_on_the_small_models_vocabulary(table: TokenTable) -> None:
    @settings(max_examples=300, deadline=None)
    @given(
        before=st.text(max_size=6),
        forced=st.text("{}[]\":, \n0123abcABCé日😀truefalsnmeyl", min_size=1, max_size=24),
        more=st.text("{}\":, abc12\n", max_size=6),
    )  # fmt: skip
    def check(before: str, forced: str, more: str) -> None:
        tail = table.encode(before)
        new = continuation(table, tail, forced.encode())
        assert forced.encode().startswith(b"".join(table.tokens[id] for id in new))
        assert continuation(table, tail, forced.encode(), following=b"")[: len(new)] == new
        whole = table.encode(before + forced + more)
        if whole[: len(tail)] == tail and len(new) > 1:
            # The last of them may still join what follows; the others stay, whatever it is.
            assert whole[: len(tail) + len(new) - 1] == [*tail, *new[:-1]]

    check()


@pytest.mark.model
def test_special_tokens_of_the_small_model_have_no_bytes(table: TokenTable) -> None:
    assert table.size == 49_152
    assert 2 in table.eos
    assert all(table.tokens[id] == b"" for id in range(17))
    assert len(table.encode("<|im_end|>")) > 1
    assert table.missing_bytes.startswith(b"\x04\x06")
