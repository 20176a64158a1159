"""`grammar check`: is my schema held exactly? Compiles each line and walks its examples."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sglang_lite.config import GrammarEngine, Whitespace
from sglang_lite.errors import InvalidConfig, SglangLiteError
from sglang_lite.params import Constraint
from sglang_lite.runtime.grammar.compiler import Grammars
from sglang_lite.runtime.grammar.options import GrammarOptions
from sglang_lite.runtime.grammar.protocol import CompiledGrammar
from sglang_lite.runtime.grammar.table import TokenTable
from sglang_lite.runtime.grammar.walk import accepts
from sglang_lite.runtime.model.hub import open_model
from sglang_lite.runtime.tokenizer import Tokenizer


class Example(msgspec.Struct):
    valid: bool
    data: Any


class Line(msgspec.Struct):
    """What a file holds, one a line: one constraint, and what it should and should not take."""

    name: str = ""
    schema: dict[str, Any] | bool | None = None
    regex: str | None = None
    choice: list[str] | None = None
    tests: list[Example] = []


class Report(msgspec.Struct):
    """What became of a line."""

    name: str
    engine: str  # "" if it was refused
    reason: str  # why it was refused, or in what the language held is narrower
    ms: float
    valid: int = 0
    valid_accepted: int = 0
    invalid: int = 0
    invalid_accepted: int = 0
    wrong: list[Any] = []  # the examples that were treated wrongly

    @property
    def right(self) -> bool:
        return bool(self.engine) and self.valid_accepted == self.valid and not self.invalid_accepted


def check_file(file: Path, model: str, engine: str, whitespace: str, as_json: bool) -> int:
    """Print a report of each line and the totals; the status is 1 if an invalid one was accepted.

    Raises:
        InvalidConfig: the file cannot be read, or a line of it is not of the shape of `Line`; no
            such engine or whitespace.
    """
    _known("--engine", engine, GrammarEngine)
    _known("--whitespace", whitespace, Whitespace)
    lines = list(read_lines(file))
    table = TokenTable.of(Tokenizer.load(open_model(model).folder))
    options = GrammarOptions(engine=engine, whitespace=whitespace)
    grammars = Grammars(table, options, warm=False)
    try:
        reports = [check_line(line, grammars, table) for line in lines]
    finally:
        grammars.close()
    if as_json:
        _print_json(reports)
    else:
        _print_table(reports)
    return 1 if any(each.invalid_accepted for each in reports) else 0


def _known(option: str, value: str, kind: Any) -> None:
    if value not in get_args(kind):
        raise InvalidConfig(f"{option} is one of {', '.join(get_args(kind))}, not {value!r}.")


def read_lines(file: Path) -> Iterator[Line]:
    """The lines of a file of constraints; see `check_file` for what it raises."""
    try:
        texts = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidConfig(f"{file} cannot be read: {error}") from error
    for number, text in enumerate(texts, 1):
        if not text.strip():
            continue
        try:
            line = msgspec.json.decode(text, type=Line)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise InvalidConfig(f"{file}:{number} is not a line of this format: {error}") from error
        if sum(each is not None for each in (line.schema, line.regex, line.choice)) != 1:
            raise InvalidConfig(f"{file}:{number} needs one of `schema`, `regex` and `choice`.")
        yield line


def check_line(line: Line, grammars: Grammars, table: TokenTable) -> Report:
    """Compile the constraint and walk its examples."""
    began = time.perf_counter()
    try:
        grammar = compile_line(line, grammars)
    except SglangLiteError as error:
        return Report(line.name, "", str(error), _ms(began))
    report = Report(line.name, grammar.engine, grammar.notes, _ms(began))
    for example in line.tests:
        spelled = _spellings(line, example.data)
        accepted = any(accepts(grammar, table, table.encode(text)) for text in spelled)
        if example.valid:
            report.valid += 1
            report.valid_accepted += accepted
            report.wrong += [] if accepted else [example.data]
        else:
            report.invalid += 1
            report.invalid_accepted += accepted
            report.wrong += [example.data] if accepted else []
    return report


def compile_line(line: Line, grammars: Grammars) -> CompiledGrammar:
    ticket = grammars.request(_constraint(line))
    while not ticket.done:
        time.sleep(0.0002)
        grammars.drain()
    if ticket.error is not None:
        raise ticket.error
    assert ticket.grammar is not None
    return ticket.grammar


def _constraint(line: Line) -> Constraint:
    kind: Literal["regex", "choice", "json_schema"]
    if line.regex is not None:
        kind, source = "regex", line.regex
    elif line.choice is not None:
        kind, source = "choice", _json(line.choice)
    else:
        kind, source = "json_schema", _json(line.schema)
    return Constraint(kind, source)


def _spellings(line: Line, data: Any) -> set[str]:
    """An example as text: JSON without spaces, and as Python writes it; a regex's as it is."""
    if line.schema is None:
        return {data if isinstance(data, str) else _json(data)}
    return {_json(data), json.dumps(data, ensure_ascii=False)}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _ms(began: float) -> float:
    return round((time.perf_counter() - began) * 1e3, 3)


def totals(reports: list[Report]) -> dict[str, Any]:
    """What all lines come to."""
    times = sorted(each.ms for each in reports)
    return {
        "lines": len(reports),
        "compiled": sum(bool(each.engine) for each in reports),
        "refused": sum(not each.engine for each in reports),
        "outlines": sum(each.engine == "outlines" for each in reports),
        "llguidance": sum(each.engine == "llguidance" for each in reports),
        "right": sum(each.right for each in reports),
        "valid": sum(each.valid for each in reports),
        "valid_accepted": sum(each.valid_accepted for each in reports),
        "invalid": sum(each.invalid for each in reports),
        "invalid_accepted": sum(each.invalid_accepted for each in reports),
        "median_ms": times[len(times) // 2] if times else 0.0,
        "p99_ms": times[min(len(times) - 1, int(len(times) * 0.99))] if times else 0.0,
        "most_ms": times[-1] if times else 0.0,
    }


def _wrong(report: Report) -> str:
    if report.engine and not report.valid + report.invalid:
        return "no examples in `tests`"
    shown = ", ".join(_json(each)[:60] for each in report.wrong[:3])
    return f"treated wrongly: {shown}{', …' if len(report.wrong) > 3 else ''}" if shown else ""


def _print_json(reports: list[Report]) -> None:
    console = Console(soft_wrap=True, highlight=False, markup=False)
    for each in reports:
        console.out(_json(msgspec.to_builtins(each)))
    console.out(_json({"totals": totals(reports)}))


def _print_table(reports: list[Report]) -> None:
    table = Table("name", "engine", "ms", "valid accepted", "invalid accepted", "note")
    for each in reports:
        bad = "[red]" if each.invalid_accepted else ""
        table.add_row(
            Text(each.name[:40]),
            each.engine or "[yellow]refused[/]",
            f"{each.ms:.1f}",
            f"{each.valid_accepted} of {each.valid}",
            f"{bad}{each.invalid_accepted} of {each.invalid}",
            Text("; ".join(filter(None, (each.reason, _wrong(each))))),
        )
    console = Console(highlight=False)
    console.print(table)
    for name, value in totals(reports).items():
        console.print(f"{name.replace('_', ' '):17} {value}")
