"""Sets of characters against Python's sets, and their regexes against Python's `re`."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sampling import compiled

from sglang_lite.runtime.grammar.characters import (
    character_of,
    counted_character,
    free_character,
    spells_json,
)
from sglang_lite.runtime.grammar.codepoints import (
    CHARACTERS,
    Ranges,
    class_of,
    complement,
    intersect,
    literal,
    normalise,
    of,
)
from sglang_lite.runtime.grammar.refusal import Refusal

SMALL = 40
pairs = st.tuples(st.integers(0, SMALL), st.integers(0, SMALL)).map(
    lambda pair: tuple(sorted(pair))
)
sets = st.lists(pairs, max_size=6).map(normalise)


def members(ranges: Ranges) -> set[int]:
    return {point for low, high in ranges for point in range(low, high + 1)}


@given(st.lists(pairs, max_size=6))
def test_normal_ranges_are_sorted_and_apart(ranges: list[tuple[int, int]]) -> None:
    normal = normalise(ranges)

    assert members(normal) == members(tuple(ranges))
    assert all(left[1] + 1 < right[0] for left, right in pairwise(normal))


@given(sets, sets)
def test_the_algebra_is_that_of_sets(first: Ranges, second: Ranges) -> None:
    within = ((0, SMALL),)

    assert members(intersect(first, second)) == members(first) & members(second)
    assert members(complement(first, within)) == set(range(SMALL + 1)) - members(first)
    assert complement(complement(first, within), within) == first


@given(sets.filter(bool))
def test_a_class_matches_its_members(ranges: Ranges) -> None:
    pattern = compiled(class_of(ranges))

    matched = {point for point in range(SMALL + 10) if pattern.fullmatch(chr(point))}

    assert matched == members(ranges)


def test_the_sentinels_are_in_no_class() -> None:
    everything_but_a = compiled(class_of(complement(of("a"))))

    assert everything_but_a.fullmatch("\U0010fffd")
    assert not everything_but_a.fullmatch("\U0010fffe")
    assert not everything_but_a.fullmatch("\U0010ffff")


def test_the_class_of_nothing_is_a_mistake_of_ours() -> None:
    with pytest.raises(ValueError, match="empty set"):
        class_of(())


@given(st.text(st.characters(exclude_categories=["Cs"], max_codepoint=0x10FFFD)))
def test_a_literal_matches_itself(text: str) -> None:
    assert compiled(literal(text)).fullmatch(text)


def test_a_literal_names_the_character_that_cannot_be_spelled() -> None:
    with pytest.raises(Refusal, match=r"U\+00E9 \(\u00e9\)"):
        literal("caf\u00e9", ((0, 0x7F),))


def test_json_characters_have_the_spellings_of_json() -> None:
    free = compiled(free_character(CHARACTERS))
    counted = compiled(counted_character(CHARACTERS))

    def spelled(texts: list[str]) -> list[tuple[bool, bool]]:
        return [(bool(free.fullmatch(text)), bool(counted.fullmatch(text))) for text in texts]

    assert set(spelled(["a", "\u4e2d", "\\n", "\\/", '\\"'])) == {(True, True)}
    assert set(spelled(["\\u00e9", "\\uD83D\\uDE00"])) == {(True, False)}
    unspelled = ['"', "\\", "\n", "\\uD83D", "\\uDE00", "\\x", ""]
    assert set(spelled(unspelled)) == {(False, False)}


def test_a_json_character_escapes_what_it_must() -> None:
    quote_or_a = compiled(character_of(of('"a\n'), CHARACTERS))

    assert [bool(quote_or_a.fullmatch(text)) for text in ('\\"', "a", "\\n", '"', "\n")] == [
        True, True, True, False, False,
    ]  # fmt: skip
    with pytest.raises(Refusal, match=r"U\+0001"):
        character_of(of("\x01"), CHARACTERS)


def test_json_needs_printable_ascii() -> None:
    assert spells_json(((0x20, 0x7E),))
    assert not spells_json(complement(of("{")))
