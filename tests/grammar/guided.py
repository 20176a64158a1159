"""Constraints held by llguidance over bytes."""

from __future__ import annotations

import json

from sglang_lite.params import Constraint
from sglang_lite.runtime.grammar.guidance import GuidanceEngine, GuidanceGrammar, probe, source_of
from sglang_lite.runtime.grammar.table import TokenTable
from sglang_lite.runtime.grammar.walk import accepts
from sglang_lite.testing import ByteTokenizer

TABLE = TokenTable.of(ByteTokenizer())
ENGINE = GuidanceEngine(TABLE)


def compiled(
    kind: str, source: object, whitespace: str = "bounded", *, closed: bool = True
) -> GuidanceGrammar:
    text = source if isinstance(source, str) else json.dumps(source)
    made = source_of(Constraint(kind, text, whitespace, closed))  # type: ignore[arg-type]
    probe(made.grammar)
    return ENGINE.compile(made.grammar, made.notes)


def takes(grammar: GuidanceGrammar, text: str) -> bool:
    return accepts(grammar, TABLE, list(text.encode()))
