"""One compilation, as the compiling process does it: limits, then one engine after the other."""

from __future__ import annotations

from typing import Any

from sglang_lite import errors
from sglang_lite.errors import UnsupportedGrammar
from sglang_lite.runtime.grammar import limits, outlines, patterns, schema
from sglang_lite.runtime.grammar.codepoints import (
    CHARACTERS,
    Ranges,
    intersect,
    literal,
    normalise,
)
from sglang_lite.runtime.grammar.estimate import expanded_size
from sglang_lite.runtime.grammar.jobs import Job, Made, Refused, Result
from sglang_lite.runtime.grammar.refusal import Refusal
from sglang_lite.runtime.grammar.spacing import WHITESPACE


def compile_job(job: Job) -> Result:
    """Never raises for a bad constraint; only a lack of memory or time ends it otherwise."""
    try:
        return _compile(job)
    except (errors.InvalidGrammar, errors.GrammarTooLarge, UnsupportedGrammar) as error:
        return Refused(type(error).__name__, str(error), error.param)  # type: ignore[arg-type]


def _compile(job: Job) -> Made:
    constraint = job.constraint
    parsed = limits.check(constraint, job.limits)
    refusals = []
    for name, engine in (("outlines", _automaton), ("llguidance", _guidance)):
        if constraint.engine in ("auto", name):
            try:
                return engine(job, parsed)
            except Refusal as refusal:
                refusals.append(f"{name}: {refusal}")
    raise UnsupportedGrammar(
        f"this {constraint.kind} cannot be held exactly, and is not held loosely instead. "
        + "; ".join(refusals),
        param=constraint.kind,
    )


def _automaton(job: Job, parsed: Any) -> Made:
    regex, notes = _regex(job, parsed)
    size = expanded_size(regex)
    if size > job.limits.automaton:
        raise Refusal(
            f"its automaton would be built from {size:,} atoms, at most "
            f"{job.limits.automaton:,} (--grammar-limit automaton=...)"
        )
    return Made("outlines", outlines.build(regex, job.longest), "", notes)


def _regex(job: Job, parsed: Any) -> tuple[str, str]:
    constraint, alphabet = job.constraint, spelled_by(job.missing)
    if constraint.kind == "regex":
        return patterns.rewrite(constraint.source, alphabet), ""
    if constraint.kind == "choice":
        return "|".join(literal(each, alphabet) for each in parsed), ""
    if constraint.kind == "json_schema":
        held = schema.to_regex(
            parsed,
            whitespace=WHITESPACE[constraint.whitespace],
            closed=constraint.closed,
            alphabet=alphabet,
        )
        return held.regex, "; ".join(held.notes)
    raise Refusal("this kind is no regular language")


def _guidance(job: Job, parsed: Any) -> Made:
    from sglang_lite.runtime.grammar import guidance  # 60 ms, for those who need it

    written = guidance.source_of(job.constraint)
    guidance.probe(written.grammar)
    return Made("llguidance", None, written.grammar, written.notes)


def spelled_by(missing: bytes) -> Ranges:
    """The characters that a vocabulary without tokens for the bytes `missing` can spell.

    So that no automaton leads where no token can follow. U+100000 and above, which nobody has
    assigned, are left out: their first byte marks the ends of an automaton (see `outlines`).
    """
    lost = set(missing)
    ascii_part = [(byte, byte) for byte in range(0x80) if byte not in lost]
    wide = not lost & set(range(0x80, 0xC0))
    leads: list[tuple[int, int]] = []
    if wide:
        leads += [(lead - 0xC0 << 6, (lead - 0xC0 << 6) + 0x3F)
                  for lead in range(0xC2, 0xE0) if lead not in lost]  # fmt: skip
        leads += [(max(0x800, lead - 0xE0 << 12), (lead - 0xE0 << 12) + 0xFFF)
                  for lead in range(0xE0, 0xF0) if lead not in lost]  # fmt: skip
        leads += [(max(0x10000, lead - 0xF0 << 18), (lead - 0xF0 << 18) + 0x3FFFF)
                  for lead in range(0xF0, 0xF4) if lead not in lost]  # fmt: skip
    return intersect(CHARACTERS, normalise([*ascii_part, *leads]))
