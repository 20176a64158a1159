"""llguidance: the engine for what the automaton path refuses, and for grammars and tags.

Its traps are closed here: the text of a special token is spelled as text, whitespace is bounded,
nothing is lenient, a schema's own "x-guidance" cannot loosen any of it, a wrong token never leads
to its sticky error state, and its limits are set. `source_of` and `probe` run in the compiling
process, where they can be ended; `GuidanceEngine` in the runtime's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import llguidance
import msgspec
import numpy as np
from llguidance.gbnf_to_lark import any_to_lark
from numpy.typing import NDArray

from sglang_lite.params import Constraint
from sglang_lite.runtime.grammar.canonical import continuation
from sglang_lite.runtime.grammar.closing import plainly
from sglang_lite.runtime.grammar.exact import ascii_classes
from sglang_lite.runtime.grammar.lark import refuse_ways_out
from sglang_lite.runtime.grammar.protocol import Row
from sglang_lite.runtime.grammar.refusal import Refusal
from sglang_lite.runtime.grammar.spacing import WHITESPACE
from sglang_lite.runtime.grammar.table import TokenTable
from sglang_lite.runtime.grammar.tags import lark_of_tags

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

NBYTES = 256 << 10  # a guess at what a compiled grammar takes, for the cache's accounts


class Written(NamedTuple):
    """A constraint as a grammar of llguidance's own, and in what it differs."""

    grammar: str
    notes: str = ""


def source_of(constraint: Constraint) -> Written:
    """The constraint as llguidance reads it.

    Raises:
        Refusal: it cannot be written so.
    """
    source = constraint.source
    if constraint.kind == "regex":
        return Written(llguidance.LLMatcher.grammar_from_regex(ascii_classes(source)))
    if constraint.kind == "choice":
        choices = msgspec.json.decode(source, type=list[str])
        return Written("start: " + " | ".join(msgspec.json.encode(x).decode() for x in choices))
    if constraint.kind == "structural_tag":
        options = json_options(constraint.whitespace)
        return Written(*lark_of_tags(source, options, closed=constraint.closed))
    if constraint.kind == "ebnf":
        return Written(_lark(source))
    schema = msgspec.json.decode(source) if constraint.kind == "json_schema" else {"type": "object"}
    schema, notes = plainly(schema, closed=constraint.closed)
    written = msgspec.json.encode({} if schema is True else schema).decode()
    options = json_options(constraint.whitespace)
    try:
        grammar = llguidance.LLMatcher.grammar_from_json_schema(written, overrides=options)
    except ValueError as error:
        raise Refusal(_short(str(error))) from error
    return Written(grammar, "; ".join(notes))


def _lark(source: str) -> str:
    # llguidance builds no trees, so that it does not know Lark's mark of inlined rules.
    plain = re.sub(r"^\?(?=[a-z_]\w*\b)", "", source, flags=re.MULTILINE)
    try:
        grammar = str(any_to_lark(plain))
    except Exception as error:  # the converter has errors of many kinds
        raise Refusal(f"this is neither Lark nor GBNF: {error}") from error
    refuse_ways_out(grammar)
    return grammar


def json_options(whitespace: str) -> JsonCompileOptions:
    """How JSON is written; over what a schema's "x-guidance" says."""
    return {
        "item_separator": ",",
        "key_separator": ":",
        "whitespace_flexible": whitespace != "compact",
        "whitespace_pattern": WHITESPACE[whitespace] or None,
        "coerce_one_of": False,
        "lenient": False,
        "json_allowed_escapes": '"\\bfnrt',  # no \\u: a name is told by its spelling
        "json_allow_general_unicode_escapes": False,
    }


def probe(source: str) -> None:
    """Compile over bytes and take a first step, as a trial.

    Raises:
        Refusal: llguidance refuses it, in its own words.
    """
    matcher = _matcher(_byte_tokenizer(), source)
    matcher.compute_bitmask()
    if forced := matcher.compute_ff_bytes():
        # What forces text without an end, such as `start: "a" start`, fails at the first of it.
        matcher.try_consume_tokens([forced[0]])
    if matcher.is_error():
        raise Refusal(_short(matcher.get_error()))


class GuidanceEngine:
    """llguidance over one vocabulary. Making it takes half a second, and holds up other threads."""

    def __init__(self, table: TokenTable) -> None:
        self.table = table
        self._tokenizer = llguidance.LLTokenizer(
            _Vocabulary(table),  # type: ignore[arg-type] # a duck, as its documentation says
            n_vocab=table.size,
            eos_token=list(table.eos),
        )
        self.matcher('start: "warm" /[0-9]/').compute_ff_tokens()

    def compile(self, source: str, notes: str = "") -> GuidanceGrammar:
        """A grammar in the form `source_of` gives.

        Raises:
            Refusal: llguidance refuses it.
        """
        return GuidanceGrammar(self.table, self.matcher(source), len(source), notes)

    def matcher(self, source: str) -> llguidance.LLMatcher:
        return _matcher(self._tokenizer, source)


class GuidanceGrammar:
    """See `CompiledGrammar`."""

    engine = "llguidance"

    def __init__(
        self, table: TokenTable, start: llguidance.LLMatcher, size: int, notes: str
    ) -> None:
        self.table, self.notes = table, notes
        self.nbytes = NBYTES + 16 * size
        self._start = start

    def matcher(self) -> GuidanceMatcher:
        return GuidanceMatcher(self.table, self._start.deep_copy())


class GuidanceMatcher:
    """See `Matcher`."""

    __slots__ = ("_ended", "_matcher", "_table")

    def __init__(self, table: TokenTable, matcher: llguidance.LLMatcher) -> None:
        self._table, self._matcher, self._ended = table, matcher, False

    def fill(self, row: Row) -> None:
        table = self._table
        if self.must_stop():
            row[:] = table.eos_row
            return
        self._matcher.unsafe_compute_mask_ptr(row.ctypes.data, row.nbytes)
        if self._matcher.is_error():
            row[:] = 0  # over one of its limits; whoever reads the row finds nothing allowed
        elif self._matcher.is_accepting():
            row |= table.eos_row
        else:
            row &= ~table.eos_row

    def allowed(self, limit: int) -> NDArray[np.int32] | None:
        return np.array(self._table.eos, np.int32) if self.must_stop() else None

    def advance(self, token: int) -> bool:
        if token in self._table.eos:
            if not self.may_stop() or self._ended:
                return False
            self._ended = True
            return True
        if self._ended or not 0 <= token < self._table.size:
            return False
        return bool(self._matcher.try_consume_tokens([token]) == 1)

    def validate(self, tokens: Sequence[int]) -> int:
        other = self.fork()
        return next((i for i, token in enumerate(tokens) if not other.advance(token)), len(tokens))

    def rollback(self, count: int) -> None:
        if count and self._ended:
            self._ended = False
            count -= 1
        if count:
            self._matcher.rollback(count)

    def jump_forward(self, tail: Sequence[int], drawn: int | None = None) -> list[int]:
        if drawn is not None and not self.advance(drawn):
            return []
        try:
            forced = b"" if self.must_stop() else self._matcher.compute_ff_bytes()
            return continuation(self._table, tail, forced, drawn=drawn)
        finally:
            self.rollback(0 if drawn is None else 1)

    def may_stop(self) -> bool:
        return self._ended or bool(self._matcher.is_accepting())

    def must_stop(self) -> bool:
        stopped = self._matcher.is_stopped() and not self._matcher.is_error()
        return self._ended or bool(stopped and self._matcher.is_accepting())

    def trouble(self) -> str:
        return _short(self._matcher.get_error()) if self._matcher.is_error() else ""

    def fork(self) -> GuidanceMatcher:
        other = GuidanceMatcher(self._table, self._matcher.deep_copy())
        other._ended = self._ended
        return other


class _Vocabulary:
    """A table in the shape that `LLTokenizer` reads. Special tokens have names, but no text."""

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, table: TokenTable) -> None:
        self.eos_token_id = table.eos[0]
        self.special_token_ids = [id for id, data in enumerate(table.tokens) if not data]
        self.tokens = list(table.tokens)
        for id in self.special_token_ids:
            self.tokens[id] = b"\xff" + (table.names.get(id) or f"[{id}]".encode())
        self._encode = table.encode

    def __call__(self, text: str | bytes) -> list[int]:
        return self._encode(text if isinstance(text, str) else text.decode())


@cache
def _byte_tokenizer() -> llguidance.LLTokenizer:
    tokens = [*(bytes([byte]) for byte in range(256)), b""]
    table = TokenTable(tokens, (256,), lambda text: list(text.encode()))
    return GuidanceEngine(table)._tokenizer


def _matcher(tokenizer: llguidance.LLTokenizer, source: str) -> llguidance.LLMatcher:
    limits = llguidance.LLParserLimits(
        max_items_in_row=2_000,
        initial_lexer_fuel=1_000_000,
        step_lexer_fuel=200_000,
        step_max_items=50_000,
        max_lexer_states=50_000,
        max_grammar_size=500_000,
        verbose_errors=False,
    )
    matcher = llguidance.LLMatcher(tokenizer, source, log_level=0, limits=limits)
    if matcher.is_error():
        raise Refusal(_short(matcher.get_error()))
    return matcher


def _short(error: str) -> str:
    return " ".join(error.split())[:500]
