"""What each idea is worth: the throughput of programs without it, relative to all of them.

    python -m benchmarks.ablations                        # all, into benchmarks/results
    python -m benchmarks.ablations --no-cache --policy fcfs --workload llm_judge

Each ablation runs beside the whole, in turn and in one process: whole, without, without, whole.
Pools are small, as they were for the published figures: what does not fit is evicted, and the
order in which programs are served matters.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.charts import bars, markdown
from benchmarks.machine import load
from benchmarks.meter import Meter, Reading
from benchmarks.programs import Stage, make, run

RESULTS = Path(__file__).parent / "results"
POLICIES = ("fcfs", "random")


@dataclass(frozen=True)
class Case:
    """A workload, and the KV pool that it runs in."""

    workload: str
    pool: int
    sizes: dict[str, int]

    def stages(self) -> list[Stage]:
        return make(self.workload, **self.sizes)


@dataclass(frozen=True)
class Ablation:
    name: str
    engine: dict[str, Any] = field(default_factory=dict)  # options of the engine,
    program: dict[str, Any] = field(default_factory=dict)  # and of `run_batch`


@dataclass(frozen=True)
class Outcome:
    case: Case
    ablation: Ablation
    ratios: list[float]  # throughput without, relative to with, of each pair
    whole: Reading
    without: Reading

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)


CASES = {
    case.workload: case
    for case in (
        Case("llm_judge", 1_800, {"articles": 3}),
        Case("tree_of_thought", 1_800, {"tasks": 1}),
        Case("mmlu", 1_500, {"groups": 4, "questions": 6}),
        Case("chat_short", 1_500, {"conversations": 6}),
    )
}
NO_CACHE = Ablation("no cache", {"disable_radix_cache": True})
NO_TREE = Ablation("no tree", {"prefix_cache": "table"})
NO_PARALLEL = Ablation("no parallelism", program={"parallel": False})
NO_HINT = Ablation("no hint", program={"hints": False})

# Figure 8c of the paper on SGLang (arXiv 2312.07104), as measured in the drawing.
PAPER = {
    "llm_judge": (0.41, 0.47, 0.15, 0.50, 0.53, 0.51),
    "tree_of_thought": (0.28, 0.37, 0.36, 0.47, 0.36, 0.87),
    "mmlu": (0.16, 0.60, 0.98, 0.98, 0.98, 0.98),
    "chat_short": (0.54, 0.88, 0.55, 0.68, 0.95, 0.98),
}
PAPER_ORDER = ("no cache", "no tree", "fcfs", "random", "no parallelism", "no hint")


def compare(whole: Meter, case: Case, ablation: Ablation, pairs: int) -> Outcome:
    """Run with and without, `pairs` times; which goes first alternates."""
    stages = case.stages()
    turns: list[tuple[Reading, Reading]] = []
    with warm_meter(case, **ablation.engine) as meter:
        for pair in range(pairs):
            runs = [
                (whole, partial(run, stages)),
                (meter, partial(run, stages, **ablation.program)),
            ]
            order = (0, 1) if pair % 2 == 0 else (1, 0)
            read = {at: runs[at][0].read(runs[at][1]) for at in order}
            turns.append((read[0], read[1]))
    ratios = [without.rate / full.rate for full, without in turns]
    return Outcome(case, ablation, ratios, *turns[0])


def warm_meter(case: Case, **options: Any) -> Meter:
    """A meter whose engine has computed something before it is timed."""
    meter = Meter(max_total_tokens=case.pool, **options)
    meter.read(partial(run, make("mmlu", groups=1, questions=1)))
    return meter


def report(outcomes: Iterable[Outcome]) -> str:
    """Markdown: ratios beside the paper's, then what was found in the cache."""
    found = list(outcomes)
    cases = list(dict.fromkeys(each.case.workload for each in found))
    names = list(dict.fromkeys(each.ablation.name for each in found))
    cells = {(each.case.workload, each.ablation.name): each for each in found}
    ratios, rates = [], []
    for case in cases:
        mine = [cells.get((case, name)) for name in names]
        first = next(each for each in mine if each is not None)
        ratios.append([case, f"{first.whole.rate:.2f}", *(_ratio(each) for each in mine)])
        rates.append(
            [case, f"{first.case.pool:,}", f"{first.whole.optimal:.1%}"]
            + [f"{first.whole.achieved:.1%}"]
            + [f"{each.without.achieved:.1%}" if each else "" for each in mine]
        )
    return (
        "Throughput relative to the whole (in brackets: the paper's):\n\n"
        + markdown(["workload", "programs/s", *names], ratios)
        + "\nHit rates, in pools of so many tokens:\n\n"
        + markdown(["workload", "pool", "optimal", "whole", *names], rates)
    )


def _ratio(outcome: Outcome | None) -> str:
    if outcome is None:
        return ""
    theirs = dict(zip(PAPER_ORDER, PAPER[outcome.case.workload], strict=True))
    return f"{outcome.ratio:.2f} ({theirs[outcome.ablation.name]:.2f})"


def chart(outcomes: Iterable[Outcome]) -> str:
    groups: dict[str, dict[str, float]] = {}
    for each in outcomes:
        groups.setdefault(each.case.workload, {})[each.ablation.name] = each.ratio
    return bars("Throughput without each idea, relative to the whole", groups)


def main(
    workload: Annotated[list[str] | None, typer.Option(help="One of CASES; all if none.")] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Keep no KV.")] = False,
    no_tree: Annotated[bool, typer.Option("--no-tree", help="Find only whole texts.")] = False,
    policy: Annotated[list[str] | None, typer.Option(help="fcfs or random.")] = None,
    no_parallel: Annotated[
        bool, typer.Option("--no-parallel", help="Branches of a program one after another.")
    ] = False,
    no_hint: Annotated[
        bool, typer.Option("--no-hint", help="Tell the runtime nothing of the program.")
    ] = False,
    pairs: Annotated[int, typer.Option(min=1)] = 2,
    results: Annotated[Path, typer.Option(help="Where the table and the chart go.")] = RESULTS,
) -> None:
    """Measure the ablations that are asked for; all of them if none is."""
    wanted = [
        *[NO_CACHE] * no_cache,
        *[NO_TREE] * no_tree,
        *(Ablation(name, {"schedule_policy": name}) for name in policy or ()),
        *[NO_PARALLEL] * no_parallel,
        *[NO_HINT] * no_hint,
    ] or everything()
    outcomes = []
    for name in workload or CASES:
        case = CASES[name]
        with warm_meter(case) as whole:
            for ablation in wanted:
                outcomes.append(compare(whole, case, ablation, pairs))
                print(f"{name}, {ablation.name}: {outcomes[-1].ratio:.2f} of the whole")
    results.mkdir(exist_ok=True)
    text = f"{report(outcomes)}\nMedians of {pairs} pairs; {load()} at the end.\n"
    (results / "ablations.md").write_text(text)
    (results / "ablations.svg").write_text(chart(outcomes))
    print(text)


def everything() -> list[Ablation]:
    orders = [Ablation(name, {"schedule_policy": name}) for name in POLICIES]
    return [NO_CACHE, NO_TREE, *orders, NO_PARALLEL, NO_HINT]


if __name__ == "__main__":
    typer.run(main)
