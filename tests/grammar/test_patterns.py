"""Rewritten regexes against Python's `re`, and `pattern` against a search in the decoded string."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sampling import compiled

from sglang_lite.runtime.grammar.codepoints import CHARACTERS, complement, of
from sglang_lite.runtime.grammar.estimate import ENOUGH, expanded_size
from sglang_lite.runtime.grammar.patterns import in_json_string, rewrite
from sglang_lite.runtime.grammar.refusal import Refusal

atoms = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", r"\d", r"\W", r"\.", '"', r"\\", "\u00e9", r"\n"]
)
regexes = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join),
        st.tuples(inner, st.sampled_from(["*", "+?", "?", "{2}", "{1,2}", "{0}"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
        inner.map(lambda regex: f"({regex})"),
        inner.map(lambda regex: f"^{regex}"),
        inner.map(lambda regex: f"{regex}$"),
    ),
    max_leaves=5,
)
texts = st.text(st.sampled_from('ab1."\\\u00e9\n_'), max_size=5)


@settings(deadline=None, derandomize=True, max_examples=300)
@given(regexes, st.lists(texts, min_size=1, max_size=8))
def test_a_rewritten_regex_matches_what_python_matches_whole(
    pattern: str, tried: list[str]
) -> None:
    try:
        rewritten = compiled(rewrite(pattern, CHARACTERS))
    except Refusal as refusal:
        assume("anchor" not in refusal.reason)
        raise
    expected = re.compile(pattern, re.ASCII)

    for text in tried:
        assert bool(rewritten.fullmatch(text)) == bool(expected.fullmatch(text)), text


@settings(deadline=None, derandomize=True, max_examples=300)
@given(
    regexes,
    st.lists(texts, min_size=1, max_size=8),
    st.integers(0, 3),
    st.none() | st.integers(3, 5),
)
def test_a_pattern_is_searched_in_the_decoded_string(
    pattern: str, tried: list[str], shortest: int, longest: int | None
) -> None:
    try:
        body = in_json_string(pattern, CHARACTERS, shortest, longest)
    except Refusal as refusal:
        reason = refusal.reason
        assume("anchor" not in reason and "length" not in reason)
        raise
    matcher = None if body is None else compiled(body)
    # ECMA's `$` is the end and nothing else.
    expected = re.compile(pattern.replace("$", r"\Z"), re.ASCII)

    for text in tried:
        spelled = json.dumps(text, ensure_ascii=False)[1:-1]
        fits = shortest <= len(text) and (longest is None or len(text) <= longest)
        found = matcher is not None and bool(matcher.fullmatch(spelled))
        assert found == (fits and bool(expected.search(text))), text


@pytest.mark.parametrize(
    ("pattern", "matches", "fails"),
    [
        ("^abc$", ["abc"], ["abcd", "xabc"]),
        ("^a|b$", ["a", "b"], ["ab", "c"]),
        (r"\Aa\Z", ["a"], ["a\n"]),
        ("a|ab", ["a", "ab"], ["abb"]),
        (r"\d+", ["12"], ["\u0663"]),
        (r"\w", ["_"], ["\u00e9"]),
        (r"\s", ["\v"], ["\u00a0"]),
        (".", ["\r", "\u2028"], ["\n"]),
        (r"[^\W\d]", ["_", "z"], ["1", "-"]),
        ("(?P<year>[0-9]{4})", ["1999"], ["99"]),
        ("(a)(?:b)??", ["a", "ab"], ["b"]),
        ("[[a]", ["[", "a"], ["]"]),
        ("", [""], ["a"]),
    ],
)
def test_the_dialect_of_plain_regexes(pattern: str, matches: list[str], fails: list[str]) -> None:
    matcher = compiled(rewrite(pattern, CHARACTERS))

    assert all(matcher.fullmatch(text) for text in matches)
    assert not any(matcher.fullmatch(text) for text in fails)


@pytest.mark.parametrize(
    ("pattern", "matches", "fails"),
    [
        ("^a|b$", ["ax", "xb"], ["xa", "bx", "c"]),
        ("(?:^|-)a", ["a", "x-ab"], ["xa"]),
        (r"^\s$", ["\u00a0", "\ufeff", "\t"], ["\x85", "x"]),
        ("^.$", ["x", "\u00e9"], ["\n", "\r", "\u2028"]),
        ("^[^x]$", ["\n", '"', "\\"], ["x"]),
        ("^$", [""], ["a"]),
        ("", ["", "any\n"], []),
    ],
)
def test_the_dialect_of_json_schema(pattern: str, matches: list[str], fails: list[str]) -> None:
    body = in_json_string(pattern, CHARACTERS)
    assert body is not None
    matcher = compiled(body)

    assert all(matcher.fullmatch(json.dumps(text, ensure_ascii=False)[1:-1]) for text in matches)
    assert not any(matcher.fullmatch(json.dumps(text)[1:-1]) for text in fails)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(?i)a", "flags"),
        ("(?i:a)", "flags"),
        (r"\bword", "boundary"),
        ("a(?=b)", "assert"),
        ("(?<!a)b", "assert not"),
        (r"(a)\1", "groupref"),
        ("(a)?(?(1)b|c)", "groupref exists"),
        ("a$b", "neither at the start nor at the end"),
        ("(?:^a)*", "neither at the start nor at the end"),
        ("a{1001}", "1001"),
        ("a{3,2000}", "2000"),
        ("(", "not a regex"),
        ("[b-a]", "not a regex"),
        (r"\p{L}", "not a regex"),
        ("\ud800", r"U\+D800"),
        ("(" * 150 + ")" * 150, "nested"),
        ("(" * 30_000 + ")" * 30_000, "nested"),
        ("|".join(["^a$"] * 100) + "|(^b|c)" * 100, "anchors in more than"),
    ],
)
def test_what_is_not_exact_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(Refusal, match=reason):
        rewrite(pattern, CHARACTERS)
    with pytest.raises(Refusal):
        in_json_string(pattern, CHARACTERS)


@pytest.mark.parametrize(
    "pattern",
    [
        r"\Aa",
        r"a\Z",
        r"\a",
        "a{,3}",
        "[]a]",
        "[^]a]",
        "(?P<n>a)",
        r"[\a]",
        r"\01",
        r"\101",
        r"[\1]",
    ],
)
def test_what_python_and_ecma_read_differently_is_refused(pattern: str) -> None:
    with pytest.raises(Refusal, match="dialect"):
        in_json_string(pattern, CHARACTERS)


def test_a_literal_that_the_vocabulary_cannot_spell_is_named() -> None:
    without = complement(of("\u00e9\t"))

    with pytest.raises(Refusal, match=r"cannot spell U\+00E9"):
        rewrite("caf\u00e9", without)
    assert not compiled(rewrite("[^x]", without)).fullmatch("\u00e9")
    # JSON has another spelling for the tab.
    assert compiled(in_json_string("^\t$", without) or "").fullmatch("\\t")


@pytest.mark.parametrize(
    ("pattern", "shortest", "longest", "lengths"),
    [
        ("^[a-c]+$", 2, 4, {2, 3, 4}),
        ("^[a-c]{2,8}$", 0, 3, {2, 3}),
        ("^a[a-c]*$", 3, 3, {3}),
        ("^a", 0, 2, {1, 2}),
        ("^[a-c]{3}$", 1, 5, {3}),
        ("^a$", 2, None, set()),
    ],
)
def test_a_length_is_counted_into_a_pattern(
    pattern: str, shortest: int, longest: int | None, lengths: set[int]
) -> None:
    body = in_json_string(pattern, CHARACTERS, shortest, longest)

    found = {n for n in range(9) if body is not None and compiled(body).fullmatch("a" * n)}

    assert found == lengths


def test_a_length_that_two_repeats_share_is_refused() -> None:
    with pytest.raises(Refusal, match="length"):
        in_json_string("^a*b*$", CHARACTERS, 0, 5)


@pytest.mark.parametrize(
    ("regex", "size"),
    [
        ("abc", 3),
        ("a|bc", 3),
        ("(?:ab){10}", 20),
        ("(?:ab){2,}", 6),
        ("a{0,3}", 3),
        ("[a-z]{5}", 15),
        (r"\x{22}\x{4E2D}", 4),
        ("(?:(?:a{10}){10}){10}", 1000),
        ("(a|b)*a(a|b){18}", 39),
        ("(?:(?:(?:(?:a{1000}){1000}){1000}){1000}){1000}", ENOUGH),
        ("[" * 1000, 3),
        ("a" * 10_000, 10_000),
    ],
)
def test_the_size_of_a_regex_counts_its_repeats(regex: str, size: int) -> None:
    assert expanded_size(regex) == size
