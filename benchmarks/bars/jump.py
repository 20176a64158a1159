"""Forced tokens are not decoded one by one: the character sheets of a well-known benchmark.

Each of fifty outputs is one JSON object held by one regex, written without spaces. Which tokens
were forced is counted afterwards, on the finished texts, by asking the automaton at each token
whether its bytes could have been any others.
"""

from __future__ import annotations

import os
import re
import statistics
import time

from benchmarks.constrained import Answer, Ask, run, tokenizer
from benchmarks.drive import core_of
from benchmarks.machine import wait_until_calm
from sglang_lite.params import Constraint, SamplingParams
from sglang_lite.runtime.core import EngineCore
from sglang_lite.runtime.grammar.automaton import AutomatonGrammar
from sglang_lite.runtime.grammar.table import TokenTable

WORD = r"[\w\d ]{1,16}"
SHEET = (
    r'\{"name":"NAME","house":"(Gryffindor|Slytherin|Ravenclaw|Hufflepuff)",'
    r'"blood status":"(Pure-blood|Half-blood|Muggle-born)",'
    r'"occupation":"(student|teacher|auror|ministry of magic|death eater|order of the phoenix)",'
    rf'"wand":\{{"wood":"{WORD}","core":"{WORD}","length":[0-9]{{1,2}}\.[0-9]{{0,2}}\}},'
    rf'"alive":"(Alive|Deceased)","patronus":"{WORD}","bogart":"{WORD}"\}}'
)
FIRST = ["Harry", "Hermione", "Ron", "Luna", "Draco", "Ginny", "Cho", "Neville", "Cedric", "Tom"]
LAST = ["Potter", "Granger", "Weasley", "Lovegood", "Malfoy"]
NAMES = [f"{first} {last}" for first in FIRST for last in LAST]
FORCED, SPEED = 0.90, 0.9
STREAMS = 6
TEMPERATURE = float(os.environ.get("TEMPERATURE", "0"))  # the original is greedy


def measure() -> bool:
    wait_until_calm()
    engine = os.environ.get("ENGINE", "auto")
    on, off = core_of(), core_of(jump_forward=False)
    try:
        run(on, [_ask(NAMES[0], 0, engine)])
        run(off, [_ask(NAMES[0], 0, engine)])
        answers = run(on, [_ask(name, seed, engine) for seed, name in enumerate(NAMES)])
        fine = _report_batch(answers)
        return _report_streams(on, off, engine) and fine
    finally:
        on.close("the end")
        off.close("the end")


def _ask(name: str, seed: int, engine: str) -> Ask:
    prompt = f"{name} is a character in Harry Potter. The facts about {name}, as JSON:\n"
    params = SamplingParams(max_tokens=256, temperature=TEMPERATURE, seed=seed)
    regex = SHEET.replace("NAME", name)
    return Ask(prompt, params, Constraint("regex", regex, engine=engine))  # type: ignore[arg-type]


def _report_batch(answers: list[Answer]) -> bool:
    spell = tokenizer()
    table = TokenTable.of(spell)
    forced = skipped = tokens = valid = canonical = 0
    for answer, name in zip(answers, NAMES, strict=True):
        assert answer.finish is not None, answer.error
        ids = [id for id in answer.ids if id not in spell.special_ids]
        valid += re.fullmatch(SHEET.replace("NAME", name), answer.text, re.ASCII) is not None
        canonical += table.encode(answer.text) == ids
        forced += _forced(SHEET.replace("NAME", name), table, ids)
        skipped += answer.finish.fast_forwarded
        tokens += len(ids)
    share = skipped / forced
    print(f"{len(answers)} outputs, {tokens:,} tokens: {valid} valid, {canonical} canonically "
          f"tokenised (limit: all of both)")  # fmt: skip
    print(f"{forced:,} tokens were forced, {skipped:,} were not decoded one by one: {share:.1%} "
          f"(limit {FORCED:.0%})")  # fmt: skip
    return valid == canonical == len(answers) and share >= FORCED


def _forced(regex: str, table: TokenTable, ids: list[int]) -> int:
    """How many of `ids` lie wholly in text that could not have been another."""
    grammar = _automaton(regex, table)
    state, count = grammar.start, 0
    for id in ids:
        data = table.tokens[id]
        forced, _ = grammar.forced(state)
        count += forced.startswith(data)
        state = grammar.step(state, data)
    return count


def _automaton(regex: str, table: TokenTable) -> AutomatonGrammar:
    from sglang_lite.runtime.grammar.outlines import build
    from sglang_lite.runtime.grammar.patterns import rewrite
    from sglang_lite.runtime.grammar.work import spelled_by

    return AutomatonGrammar(
        build(rewrite(regex, spelled_by(table.missing_bytes)), table.longest), table
    )


def _report_streams(on: EngineCore, off: EngineCore, engine: str) -> bool:
    """One stream at a time, with jumps and without in turn; then fifty at once."""
    speed, steps = [], []
    for seed in range(STREAMS):
        ask = _ask(NAMES[seed * 7], 1, engine)
        fast, slow = _timed(on, [ask]), _timed(off, [ask])
        speed.append(slow[0] / fast[0] / (slow[2] / fast[2]))
        steps.append((slow[1] / slow[2]) / (fast[1] / fast[2]))
    faster, ratio = statistics.median(speed), statistics.median(steps)
    print(f"one stream: {faster:.2f} times as fast a token, with 1/{ratio:.2f} of the steps "
          f"(limit {SPEED:.1f} of the ratio of steps: {SPEED * ratio:.2f})")  # fmt: skip
    asked = [_ask(name, seed, engine) for seed, name in enumerate(NAMES)]
    fast, slow = _timed(on, asked), _timed(off, asked)
    print(f"{len(asked)} at once: {slow[0] / fast[0]:.2f} times as fast, "
          f"{fast[1]} steps instead of {slow[1]}")  # fmt: skip
    return faster >= SPEED * ratio


def _timed(core: EngineCore, asked: list[Ask]) -> tuple[float, int, int]:
    """Seconds, steps and tokens, without what compiling takes: each has been run before."""
    run(core, asked)
    core.flush()
    steps, began = core.steps, time.perf_counter()
    answers = run(core, asked)
    return time.perf_counter() - began, core.steps - steps, sum(len(a.ids) for a in answers)
