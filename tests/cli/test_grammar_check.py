"""`grammar check`: which examples are treated wrongly, and a table that shows any text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from sglang_lite.cli.grammar import Example, Line, Report, _print_table, check_line, read_lines
from sglang_lite.errors import InvalidConfig
from sglang_lite.runtime.grammar.compiler import Grammars
from sglang_lite.runtime.grammar.table import TokenTable
from sglang_lite.testing import ByteTokenizer

TABLE = TokenTable.of(ByteTokenizer())


@pytest.fixture(scope="module")
def grammars() -> Iterator[Grammars]:
    made = Grammars(TABLE, warm=False)
    yield made
    made.close()


def test_examples_are_counted_and_the_wrong_ones_named(grammars: Grammars) -> None:
    tests = [Example(True, "ab"), Example(True, "c"), Example(False, "b"), Example(False, "a")]
    report = check_line(Line("x", regex="ab?", tests=tests), grammars, TABLE)

    assert report.engine == "outlines"
    assert (report.valid, report.valid_accepted) == (2, 1)
    assert (report.invalid, report.invalid_accepted) == (2, 1)
    assert report.wrong == ["c", "a"]
    assert not report.right


def test_a_refusal_is_reported_with_its_reason(grammars: Grammars) -> None:
    report = check_line(Line("x", regex="(?=a)b"), grammars, TABLE)

    assert report.engine == ""
    assert "cannot be held" in report.reason


def test_the_table_shows_texts_that_look_like_markup(capsys: pytest.CaptureFixture[str]) -> None:
    _print_table([Report("a[/b]", "", r"the pattern \[/x]", 1.0),
                  Report("b", "outlines", "", 1.0, valid=1, wrong=["[red]"])])  # fmt: skip

    shown = "".join(capsys.readouterr().out.split())
    assert "a[/b]" in shown
    assert "[/x]" in shown
    assert "wrongly" in shown


@pytest.mark.parametrize("line", ["foo", "{}", json.dumps({"regex": "a", "choice": ["a"]})])
def test_a_line_of_another_shape_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "lines.jsonl"
    file.write_text('{"regex": "a"}\n' + line)

    with pytest.raises(InvalidConfig, match=":2 "):
        list(read_lines(file))
