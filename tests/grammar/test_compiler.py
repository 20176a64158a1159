"""Compiling beside the runtime: once for all who ask, bounded in every way, and never fatal."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator

import psutil
import pytest

from benchmarks.hostile import SIZES
from sglang_lite.config import GrammarLimits
from sglang_lite.errors import (
    EngineFailed,
    GrammarTooLarge,
    InvalidGrammar,
    InvalidRequest,
    Overloaded,
    RuntimeUnavailable,
    SglangLiteError,
    UnsupportedGrammar,
)
from sglang_lite.params import Constraint
from sglang_lite.runtime.grammar.compiler import Grammars
from sglang_lite.runtime.grammar.jobs import Job, Made, Refused
from sglang_lite.runtime.grammar.options import GrammarOptions
from sglang_lite.runtime.grammar.process import ONE_THREAD, CompilingProcess
from sglang_lite.runtime.grammar.protocol import CompiledGrammar, Ticket
from sglang_lite.runtime.grammar.table import TokenTable
from sglang_lite.runtime.grammar.walk import accepts
from sglang_lite.testing import ByteTokenizer

TABLE = TokenTable.of(ByteTokenizer())
SLOW = "(a|b)*a(a|b){18}"  # an automaton of half a million states


@pytest.fixture
def grammars() -> Iterator[Grammars]:
    made = Grammars(TABLE, GrammarOptions(seconds=2, queue=4), warm=False)
    yield made
    made.close()


def wait(ticket: Ticket, seconds: float = 30.0) -> Ticket:
    until = time.monotonic() + seconds
    while not ticket.done:
        assert time.monotonic() < until, "the ticket is not settled"
        time.sleep(0.001)
    return ticket


def grammar(grammars: Grammars, kind: str, source: object, **options: object) -> CompiledGrammar:
    text = source if isinstance(source, str) else json.dumps(source)
    ticket = wait(grammars.request(Constraint(kind, text, **options)))  # type: ignore[arg-type]
    if ticket.error:
        raise ticket.error
    assert ticket.grammar
    return ticket.grammar


def children() -> set[int]:
    return {
        child.pid
        for child in psutil.Process().children(recursive=True)
        if "sglang_lite.runtime.grammar.child" in child.cmdline()
    }


@pytest.mark.parametrize(
    ("kind", "source", "engine", "good", "bad"),
    [
        ("regex", "[a-c]{3}|ab", "outlines", ["abc", "ab"], ["a", "abcd"]),
        ("regex", r"\p{L}+", "llguidance", ["é"], ["1"]),
        ("choice", ["a", "ab", "é"], "outlines", ["a", "ab", "é"], ["b"]),
        ("json_schema", {"type": "boolean"}, "outlines", ["true"], ["True", "1"]),
        ("json_schema", {"type": "object"}, "llguidance", ['{"a": [1]}'], ["[]"]),
        ("json_schema", True, "llguidance", ["1", "[]", '"a"'], ["a", ""]),
        ("json_object", "", "llguidance", ["{}"], ["[]"]),
        ("ebnf", 'root ::= "a" root | "b"', "llguidance", ["aab"], ["a"]),
    ],
)
def test_each_kind_goes_to_the_engine_that_holds_it(
    grammars: Grammars, kind: str, source: object, engine: str, good: list[str], bad: list[str]
) -> None:
    made = grammar(grammars, kind, source)
    assert made.engine == engine
    assert all(accepts(made, TABLE, list(text.encode())) for text in good)
    assert not any(accepts(made, TABLE, list(text.encode())) for text in bad)


def test_who_asks_for_the_same_gets_the_same(grammars: Grammars) -> None:
    first = grammars.request(Constraint("regex", "ab*"))
    assert grammars.request(Constraint("regex", "ab*")) is first
    assert wait(first).grammar is wait(grammars.request(Constraint("regex", "ab*"))).grammar
    assert grammars.stats()["grammars_compiled"] == 1
    assert grammars.stats()["grammars_reused"] == 1
    explicit = Constraint("regex", "ab*", "single", engine="auto")
    assert grammars.request(explicit) is first
    assert grammars.request(Constraint("regex", "ab*", engine="llguidance")) is not first


def test_a_ticket_is_heard_of(grammars: Grammars) -> None:
    import select

    ticket = grammars.request(Constraint("regex", "a{3}"))
    assert select.select([grammars.fileno()], [], [], 10)[0]
    assert ticket.done
    grammars.drain()
    assert not select.select([grammars.fileno()], [], [], 0)[0]


def test_a_refusal_names_both_engines_and_is_remembered(grammars: Grammars) -> None:
    never = Constraint("json_schema", '{"not": {"type": "null"}}')
    error = wait(grammars.request(never)).error
    assert isinstance(error, UnsupportedGrammar)
    assert "outlines: " in str(error)
    assert "llguidance: " in str(error)
    assert grammars.request(never).error is error
    assert grammars.stats()["grammars_refused"] == 1


@pytest.mark.parametrize("source", ["[1,2]", "3", '"text"', "{", ""])
def test_what_is_no_schema_is_invalid(grammars: Grammars, source: str) -> None:
    if source:
        error = wait(grammars.request(Constraint("json_schema", source))).error
        assert isinstance(error, InvalidGrammar)
    else:
        with pytest.raises(SglangLiteError, match="empty"):
            Constraint("json_schema", source)


def test_an_engine_can_be_chosen(grammars: Grammars) -> None:
    assert grammar(grammars, "regex", "a+", engine="llguidance").engine == "llguidance"
    assert grammar(grammars, "regex", "a+", engine="outlines").engine == "outlines"
    with pytest.raises(UnsupportedGrammar, match=r"outlines: ") as caught:
        grammar(grammars, "json_object", "", engine="outlines")
    assert "llguidance" not in str(caught.value)


def test_whitespace_is_the_operators_choice_and_the_requests() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"]}
    made = Grammars(TABLE, GrammarOptions(whitespace="compact"), warm=False)
    try:
        compact = grammar(made, "json_schema", schema)
        single = grammar(made, "json_schema", schema, whitespace="single")
    finally:
        made.close()
    assert not accepts(compact, TABLE, list(b'{"a": null}'))
    assert accepts(compact, TABLE, list(b'{"a":null}'))
    assert accepts(single, TABLE, list(b'{"a": null}'))


def test_too_much_time_ends_the_process_and_not_the_service(grammars: Grammars) -> None:
    began = time.monotonic()
    slow = grammars.request(Constraint("regex", SLOW, engine="outlines"))
    quick = grammars.request(Constraint("regex", "a+"))
    assert wait(quick).grammar, "another process compiles beside it"
    assert not slow.done
    error = wait(slow).error
    assert isinstance(error, GrammarTooLarge)
    assert "--grammar-compile-seconds" in str(error)
    assert time.monotonic() - began < 12
    assert grammar(grammars, "regex", "b+").engine == "outlines"
    assert grammars.request(Constraint("regex", SLOW, engine="outlines")) is not slow


def test_slow_grammars_make_only_each_other_wait(grammars: Grammars) -> None:
    slow = [
        grammars.request(Constraint("regex", f"{SLOW}{'x' * at}", engine="outlines"))
        for at in range(3)
    ]
    began = time.monotonic()
    assert wait(grammars.request(Constraint("regex", "a+"))).grammar
    assert time.monotonic() - began < 8, "each of the slow ones is given up by the quick process"
    assert not all(ticket.done for ticket in slow)
    assert all(isinstance(wait(ticket).error, GrammarTooLarge) for ticket in slow)


def test_what_nobody_waits_for_is_not_compiled(grammars: Grammars) -> None:
    slow = [grammars.request(Constraint("regex", SLOW, engine="outlines")) for _ in range(2)]
    assert slow[0] is slow[1]
    left = grammars.request(Constraint("regex", "left"))
    grammars.leave(left)
    wanted = grammars.request(Constraint("regex", "wanted"))
    again = grammars.request(Constraint("regex", "wanted"))
    grammars.leave(again)
    assert wait(wanted).grammar, "one of two waits still"
    assert not left.done
    grammars.leave(slow[0])
    grammars.leave(slow[1])
    assert wait(grammars.request(Constraint("regex", "left"))).grammar, "it was only put off"


def test_a_killed_process_fails_one_request_and_is_replaced(grammars: Grammars) -> None:
    before = children()
    ticket = grammars.request(Constraint("regex", SLOW, engine="outlines"))
    while not children() - before:
        time.sleep(0.01)
    time.sleep(0.3)
    for pid in children():
        os.kill(pid, signal.SIGKILL)
    assert isinstance(wait(ticket).error, GrammarTooLarge)
    assert grammar(grammars, "regex", "b+").engine == "outlines"


@pytest.mark.parametrize("size", [1, 1 << 18])
def test_a_process_that_hangs_is_ended_by_the_clock(size: int) -> None:
    process = CompilingProcess(1, 1024)
    job = Job(Constraint("regex", "a" * size, engine="outlines"), GrammarLimits(), 1, b"")
    try:
        for patience in (None, 0.3):
            os.kill(process.start().pid, signal.SIGSTOP)
            began = time.monotonic()
            if patience:
                assert process.compile(job, patience) is None
            else:
                with pytest.raises(GrammarTooLarge, match="by the clock"):
                    process.compile(job)
            assert time.monotonic() - began < 8
        assert isinstance(process.compile(job), Made if size == 1 else Refused)
    finally:
        process.stop()


def test_the_queue_is_bounded(grammars: Grammars) -> None:
    for size in range(4):
        grammars.request(Constraint("regex", f"{SLOW}{'x' * size}", engine="outlines"))
    with pytest.raises(Overloaded, match="--grammar-queue"):
        grammars.request(Constraint("regex", "another"))


def test_the_least_recently_used_are_given_up() -> None:
    made = Grammars(TABLE, GrammarOptions(cache_bytes=20_000), warm=False)
    try:
        first = grammar(made, "regex", "a{9}")
        for size in range(10, 40):
            grammar(made, "regex", f"a{{{size}}}")
            assert grammar(made, "regex", "a{9}") is first, "it is used all the time"
        assert int(made.stats()["grammar_bytes"]) <= 20_000
        assert int(made.stats()["grammars"]) < 25
    finally:
        made.close()


def test_closing_leaves_no_process_and_refuses_more() -> None:
    before = children()
    made = Grammars(TABLE, GrammarOptions())
    made.request(Constraint("regex", SLOW, engine="outlines"))
    while not children() - before:
        time.sleep(0.01)
    made.close()
    made.close()
    assert children() == before
    with pytest.raises(RuntimeUnavailable):
        made.request(Constraint("regex", "a"))


@pytest.mark.parametrize("name", SIZES)
def test_a_hostile_constraint_is_refused_at_once_by_the_limit_it_passes(
    grammars: Grammars, name: str
) -> None:
    kind, source, limit = SIZES[name]
    began = time.monotonic()
    with pytest.raises(SglangLiteError, match=limit) as caught:
        grammar(grammars, kind, source)
    assert caught.value.status == 400
    assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    ("kind", "source"),
    [
        ("json_schema", {"$ref": "#"}),
        ("json_schema", {"type": 5}),
        ("json_schema", {"properties": 3, "type": "object"}),
        ("json_schema", {"type": "string", "pattern": "("}),
        ("json_schema", {"type": "string", "minLength": -1}),
        ("json_schema", {"type": "string", "minLength": 5, "maxLength": 2}),
        ("json_schema", {"enum": []}),
        ("json_schema", {"type": "string", "nullable": True}),
        ("json_schema", False),
        ("regex", "["),
        ("regex", "a{2,1}"),
        ("regex", r"(a)\1"),
        ("ebnf", "("),
        ("ebnf", 'start: "a" start'),
    ],
)
def test_a_broken_constraint_is_refused(grammars: Grammars, kind: str, source: object) -> None:
    with pytest.raises(SglangLiteError) as caught:
        grammar(grammars, kind, source)
    assert caught.value.status == 400
    assert grammar(grammars, "regex", "a+").engine == "outlines"


def test_a_process_that_cannot_run_is_no_fault_of_the_constraint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(ONE_THREAD, "PYTHONHOME", "/nowhere")
    process = CompilingProcess(1, 1024)
    with pytest.raises(EngineFailed, match="by itself"):
        process.compile(Job(Constraint("regex", "a"), GrammarLimits(), 1, b""))
    process.stop()


def test_getting_ready_may_fail_and_the_service_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: CompilingProcess) -> None:
        raise BlockingIOError("no more processes")

    with monkeypatch.context() as patch:
        patch.setattr(CompilingProcess, "start", broken)
        made = Grammars(TABLE, GrammarOptions())
        error = wait(made.request(Constraint("regex", "a"))).error
        assert isinstance(error, EngineFailed)
        assert "no more processes" in str(error)
    try:
        assert grammar(made, "regex", "a").engine == "outlines"
    finally:
        made.close()


@pytest.mark.parametrize(
    ("schema", "error"),
    [
        ({"prefixItems": [{"$ref": "#/prefixItems/%C2%B2"}]}, UnsupportedGrammar),
        ({"type": "string", "maxLength": 10**400}, SglangLiteError),
        ({"type": "object", "properties": {"default": {"maxLength": 10**6}}}, GrammarTooLarge),
        ({"type": "object", "properties": {"default": {"nullable": True}}}, UnsupportedGrammar),
        ({"$defs": {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(600)}
          | {"d600": {"type": "null"}}, "$ref": "#/$defs/d0"}, InvalidRequest),
    ],
)  # fmt: skip
def test_odd_schemas_are_refused_and_not_failed_over(
    grammars: Grammars, schema: object, error: type[Exception]
) -> None:
    found = wait(grammars.request(Constraint("json_schema", json.dumps(schema)))).error
    assert isinstance(found, error)
    assert not isinstance(found, EngineFailed)


def test_a_property_may_be_called_nullable_and_a_group_be_escaped(grammars: Grammars) -> None:
    schema = {"type": "object", "properties": {"nullable": {"const": True}}}
    assert accepts(grammar(grammars, "json_schema", schema), TABLE, list(b'{"nullable":true}'))
    assert grammar(grammars, "regex", r"\(" * 200 + "[(]").engine == "outlines"


def test_references_by_anchor_are_written_out_as_well(grammars: Grammars) -> None:
    fan = {
        f"d{n}": {"$anchor": f"d{n}", "prefixItems": 2 * [{"$ref": f"#d{n + 1}"}]}
        for n in range(25)
    }
    schema = {"$defs": {**fan, "d25": {"$anchor": "d25", "type": "null"}}, "$ref": "#d0"}
    with pytest.raises(GrammarTooLarge, match="expanded"):
        grammar(grammars, "json_schema", schema)


def test_masks_count_while_they_are_made() -> None:
    made = Grammars(TABLE, GrammarOptions(cache_bytes=1), warm=False)
    try:
        ticket = wait(made.request(Constraint("regex", "a")))
        assert made.stats()["grammars"] == 0
        assert ticket.grammar is not None
        matcher = ticket.grammar.matcher()
        before = ticket.grammar.nbytes
        assert matcher.advance(ord("a"))
        matcher.allowed(9)
        assert ticket.grammar.nbytes > before
    finally:
        made.close()
