"""The table of keywords against the front end, and the page against the table."""

from __future__ import annotations

from pathlib import Path

import pytest

from sglang_lite.runtime.grammar.codepoints import CHARACTERS
from sglang_lite.runtime.grammar.refusal import Refusal
from sglang_lite.runtime.grammar.schema import keywords, to_regex
from sglang_lite.runtime.grammar.schema.formats import FORMATS
from tools import keyword_table

PAGE = Path(__file__).parents[2] / "docs" / "structured_output.md"


def test_the_page_shows_the_table() -> None:
    shown = PAGE.read_text().split(keyword_table.BEGIN)[1].split(keyword_table.END)[0]

    assert shown.strip() == keyword_table.table()


def test_the_page_lists_the_formats() -> None:
    text = PAGE.read_text()

    assert all(f"`{name}`" in text for name in FORMATS)


def test_writing_the_page_again_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / "page.md"
    copy.write_text(PAGE.read_text())
    monkeypatch.setattr(keyword_table, "PAGE", copy)

    keyword_table.main()

    assert copy.read_text() == PAGE.read_text()
    assert str(copy) in capsys.readouterr().out


@pytest.mark.parametrize("name", sorted(keywords.names(held=False)))
def test_a_refused_keyword_is_refused_with_a_pointer_to_it(name: str) -> None:
    schema = {"type": "object", "properties": {"a/b": {"type": "string", name: True}}}

    with pytest.raises(Refusal, match="refused") as caught:
        to_regex(schema, whitespace="", closed=True, alphabet=CHARACTERS)

    assert caught.value.pointer == f"/properties/a~1b/{name}"


def test_no_keyword_is_in_two_rows() -> None:
    listed = [name for row in keywords.TABLE for name in row.names]

    assert len(listed) == len(set(listed))


SURROUNDINGS: dict[str, dict[str, object]] = {
    "string": {"type": "string"},
    "number": {"type": "number"},
    "array": {"type": "array", "items": {"type": "null"}},
    "object": {"type": "object", "additionalProperties": {"type": "null"}},
    "additionalItems": {"type": "array", "items": []},
    "const": {"type": "number"},
}
WRONG: dict[str, object] = {"uniqueItems": True, "format": "hostname", "const": float("inf")}


@pytest.mark.parametrize("name", sorted(keywords.names(held=True)))
def test_a_held_keyword_is_read_by_some_writer(name: str) -> None:
    """A value that it cannot have, or that is not held, is noticed."""
    row = keywords.row_of(name)
    assert row is not None
    around = SURROUNDINGS.get(name) or SURROUNDINGS[row.family or "number"]
    schema = {**around, name: WRONG.get(name, "nonsense" if name != "pattern" else 5)}

    with pytest.raises(Refusal) as caught:
        to_regex(schema, whitespace="", closed=True, alphabet=CHARACTERS)

    assert caught.value.pointer is not None
