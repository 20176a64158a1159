"""What measures programs, measured: the optimum, the meter, tables and charts."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import ablations
from benchmarks.charts import bars, markdown
from benchmarks.meter import Meter, Reading, fewest
from benchmarks.programs import make, run

FAKE = {"core": "sglang_lite.testing:fake_core"}


def test_the_fewest_tokens_are_the_nodes_that_no_generation_wrote() -> None:
    assert fewest([]) == 0
    assert fewest([([1, 2, 3], []), ([1, 2, 4], [])]) == 4
    assert fewest([([1, 2], [3]), ([1, 2, 3, 4], [])]) == 3, "the 3 was generated"
    assert fewest([([1, 2, 3, 4], []), ([1, 2], [3])]) == 3, "whatever came first"


@pytest.fixture(scope="module")
def meter() -> Iterator[Meter]:
    with Meter("fake?eos=0", **FAKE) as meter:
        yield meter


@pytest.mark.parametrize(
    ("name", "size", "programs"),
    [
        ("chat_short", {"conversations": 1}, 1),
        ("skeleton_of_thought", {"topics": 1}, 6),
        ("tree_of_thought", {"tasks": 1}, 1),
    ],
)
def test_all_that_can_be_found_is_found(
    meter: Meter, name: str, size: dict[str, int], programs: int
) -> None:
    reading = meter.read(partial(run, make(name, **size)))
    assert reading.programs == programs
    assert reading.duplicates == 0
    assert reading.computed == reading.reported
    assert 0.5 < reading.achieved <= reading.optimal + 0.001
    assert reading.ratio > 0.98


def test_without_a_cache_all_is_computed() -> None:
    with Meter("fake?eos=0", **FAKE, disable_radix_cache=True) as meter:
        reading = meter.read(partial(run, make("chat_short", conversations=1)))
    assert reading.achieved == 0
    assert reading.ratio == 0


def test_a_table_in_markdown() -> None:
    assert markdown(["a", "b"], [["x", "1"]]) == "| a | b |\n| --- | ---: |\n| x | 1 |\n"


def test_bars_are_as_high_as_their_values() -> None:
    root = ElementTree.fromstring(bars("T & U", {"one": {"a": 0.5, "b": 1.5}, "two": {"a": 1.0}}))
    tag = "{http://www.w3.org/2000/svg}"
    titles = {rect.findtext(f"{tag}title"): rect for rect in root.iter(f"{tag}rect")}
    heights = {title: rect.get("height") for title, rect in titles.items() if title}
    assert heights == {"one, a: 0.50": "100", "one, b: 1.50": "300", "two, a: 1.00": "200"}
    assert titles["one, a: 0.50"].get("fill") == titles["two, a: 1.00"].get("fill")
    assert "T & U" in [text.text for text in root.iter(f"{tag}text")]


def reading(seconds: float, computed: int) -> Reading:
    return Reading(10, seconds, 1000, computed, 200, computed, 0)


def test_a_report_has_ratios_and_hit_rates() -> None:
    case = ablations.CASES["mmlu"]
    without = [
        ablations.Outcome(case, ablation, ratios, reading(1, 200), reading(4, 1000))
        for ablation, ratios in ((ablations.NO_CACHE, [0.3, 0.2]), (ablations.NO_HINT, [1.0]))
    ]
    text = ablations.report(without)
    assert "| mmlu | 10.00 | 0.25 (0.16) | 1.00 (0.98) |" in text
    assert "| mmlu | 1,500 | 80.0% | 80.0% | 0.0% | 0.0% |" in text
    assert "mmlu, no cache: 0.25" in ablations.chart(without)


def test_ablations_from_the_command_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def compare(whole: Meter, case: ablations.Case, ablation: ablations.Ablation, pairs: int):  # type: ignore[no-untyped-def]
        asked.append(ablation.name)
        return ablations.Outcome(case, ablation, [0.5] * pairs, reading(1, 200), reading(2, 900))

    monkeypatch.setattr(ablations, "compare", compare)
    monkeypatch.setattr(ablations, "warm_meter", lambda case: Meter("fake?eos=0", **FAKE))
    ablations.main(["mmlu"], no_cache=True, policy=["random"], results=tmp_path)
    assert asked == ["no cache", "random"]
    assert "0.50 (0.98)" in (tmp_path / "ablations.md").read_text()
    assert (tmp_path / "ablations.svg").read_text().startswith("<svg")
    assert "random: 0.50" in capsys.readouterr().out
    asked.clear()
    ablations.main(["mmlu"], results=tmp_path)
    assert asked == list(ablations.PAPER_ORDER)
