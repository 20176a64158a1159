"""The programs with which prefix-sharing runtimes are compared, in their shape: how many calls,
what they share, how long the parts are. The text is made up, and answers have fixed lengths, so
that every run of a workload does the same work.

Lengths are those of the published scripts, scaled to a model of 135 million parameters. What
`parallel` says is how many programs of a batch are unfinished at a time.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import sglang_lite as sgl
from benchmarks.synthetic import text

Draw = random.Random


@dataclass(frozen=True)
class Stage:
    """A batch. The stages of a workload run one after another."""

    program: Any
    rows: Sequence[dict[str, Any]]
    parallel: int = 64

    def run(self, backend: Any, **options: Any) -> list[Any]:
        """The states; `options` are those of `run_batch`."""
        states: list[Any] = self.program.run_batch(
            self.rows, backend=backend, num_threads=self.parallel, seed=1, **options
        )
        return states


def _gen(name: str, tokens: int, temperature: float = 0.0) -> Any:
    return sgl.gen(name, max_tokens=tokens, ignore_eos=True, temperature=temperature)


# ---------------------------------------------------------------- one call


@sgl.function
def question(s: Any, shots: str, own: str, tokens: int) -> None:
    s += shots + own + _gen("answer", tokens)


def mmlu(draw: Draw, groups: int = 3, questions: int = 16) -> list[Stage]:
    """Five examples for each subject, then a question with its options: one token."""
    rows = []
    for _ in range(groups):
        shots = text(draw, 480)
        rows += [{"shots": shots, "own": text(draw, 85), "tokens": 1} for _ in range(questions)]
    return [Stage(question, rows)]


def rag(draw: Draw, questions: int = 16) -> list[Stage]:
    """Instructions and worked examples, then three passages and a question."""
    shots = text(draw, 1200)
    rows = [{"shots": shots, "own": text(draw, 135), "tokens": 16} for _ in range(questions)]
    return [Stage(question, rows)]


@sgl.function
def ending(s: Any, shots: str, story: str, endings: list[str]) -> None:
    s += shots + story + sgl.select("ending", endings)


def hellaswag(draw: Draw, questions: int = 12) -> list[Stage]:
    """Twenty examples, then a story and four endings to choose from."""
    shots = text(draw, 1000)
    rows = [
        {"shots": shots, "story": text(draw, 40), "endings": [text(draw, 20) for _ in range(4)]}
        for _ in range(questions)
    ]
    return [Stage(ending, rows)]


def generative_agents(draw: Draw, events: int = 5) -> list[Stage]:
    """Five functions over many events, one at a time."""
    stages = []
    for template, tokens in ((170, 2), (319, 20), (174, 6), (40, 10), (40, 5)):
        shots = text(draw, template)
        rows = [{"shots": shots, "own": text(draw, 40), "tokens": tokens} for _ in range(events)]
        stages.append(Stage(question, rows, parallel=1))
    return stages


# ---------------------------------------------------------------- one after another


@sgl.function
def conversation(s: Any, turns: list[tuple[str, int]]) -> None:
    for number, (said, tokens) in enumerate(turns):
        s += sgl.user(said)
        s += sgl.assistant(_gen(f"answer_{number}", tokens))


def _conversations(draw: Draw, count: int, shortest: int, longest: int) -> list[Stage]:
    rows = [
        {
            "turns": [
                (text(draw, draw.randint(64, 128)), draw.randint(shortest, longest))
                for _ in range(4)
            ]
        }
        for _ in range(count)
    ]
    return [Stage(conversation, rows)]


def chat_short(draw: Draw, conversations: int = 10) -> list[Stage]:
    """Four turns; nothing is shared but what was said before."""
    return _conversations(draw, conversations, 4, 8)


def chat_long(draw: Draw, conversations: int = 2) -> list[Stage]:
    """The same with long answers."""
    return _conversations(draw, conversations, 64, 128)


@sgl.function
def replayed_agent(s: Any, template: str, turns: list[str]) -> None:
    """An agent whose steps were recorded: what is generated is thrown away."""
    s += template
    for turn in turns:
        branch = s.fork(1)
        branch += _gen("step", 40)
        branch[0].sync()
        s += turn


def react(draw: Draw, agents: int = 3) -> list[Stage]:
    """A long template, then five turns of thought, action and observation."""
    template = text(draw, 1700)
    rows = [
        {"template": template, "turns": [text(draw, 60) for _ in range(5)]} for _ in range(agents)
    ]
    return [Stage(replayed_agent, rows)]


@sgl.function
def record(s: Any, document: str, fields: list[str]) -> None:
    s += document
    for number, field in enumerate(fields):
        length = 24 if number == len(fields) - 1 else 8
        s += f'\n"{field}": "'
        s += sgl.gen(f"field_{number}", max_tokens=48, regex=f"[a-z ]{{{length}}}", temperature=0)
        s += '",'


def json_fields(draw: Draw, documents: int = 4) -> list[Stage]:
    """A page, then a JSON object whose five values are held by a regex each."""
    rows = [
        {"document": text(draw, 700), "fields": text(draw, 5).split()} for _ in range(documents)
    ]
    return [Stage(record, rows)]


# ---------------------------------------------------------------- side by side


@sgl.function
def tree(s: Any, task: str, wishes: list[str]) -> None:
    s += task
    for leaf in _grow(s, wishes):
        leaf.sync()


def _grow(s: Any, wishes: list[str]) -> list[Any]:
    if not wishes:
        return [s]
    branches = s.fork(3)
    branches += wishes[0] + _gen("thought", 48, temperature=0.3)
    return [leaf for branch in branches for leaf in _grow(branch, wishes[1:])]


def tree_of_thought(draw: Draw, tasks: int = 1) -> list[Stage]:
    """Three plans, three solutions of each, three reflections on each: 39 calls."""
    rows = [
        {"task": text(draw, 60), "wishes": [text(draw, size) for size in (63, 43, 45)]}
        for _ in range(tasks)
    ]
    return [Stage(tree, rows, parallel=16)]


@sgl.function
def expansion(s: Any, template: str, tip: str) -> None:
    s += template + tip + _gen("explained", 64)


@sgl.function
def skeleton(s: Any, template: str, topic: str, runtime: Any, options: dict[str, Any]) -> Any:
    s += topic
    expansions = []
    for number in range(5):
        s += f"\n{number}." + _gen(f"tip_{number}", 24)
        tip = topic + s[f"tip_{number}"]
        expansions.append(expansion.run(template, tip, backend=runtime, **options))
    return expansions


@dataclass(frozen=True)
class Nested(Stage):
    """A batch of programs that start others; their states are counted as well."""

    def run(self, backend: Any, **options: Any) -> list[Any]:
        rows = [{**row, "runtime": backend, "options": options} for row in self.rows]
        states = Stage(self.program, rows, self.parallel).run(backend, **options)
        return [each for state in states for each in (state, *state.ret_value)]


def skeleton_of_thought(draw: Draw, topics: int = 2) -> list[Stage]:
    """Five short tips in a row; each starts a program of its own that explains it."""
    template = text(draw, 300)
    rows = [{"template": template, "topic": text(draw, 5)} for _ in range(topics)]
    return [Nested(skeleton, rows)]


@sgl.function
def judge(s: Any, head: str, article: str, wishes: list[str]) -> None:
    s += head + article
    branches = s.fork(len(wishes))
    branches += lambda i: wishes[i] + _gen("opinion", 32)
    branches.join()
    s += "".join(s["opinion"]) + _gen("grade", 2)


def llm_judge(draw: Draw, articles: int = 4) -> list[Stage]:
    """An article, six opinions on it side by side, and a grade."""
    head, wishes = text(draw, 30), [text(draw, 95) for _ in range(6)]
    rows = [{"head": head, "article": text(draw, 300), "wishes": wishes} for _ in range(articles)]
    return [Stage(judge, rows, parallel=8)]


WORKLOADS: dict[str, Callable[..., list[Stage]]] = {
    each.__name__: each
    for each in (
        mmlu,
        hellaswag,
        react,
        generative_agents,
        tree_of_thought,
        skeleton_of_thought,
        llm_judge,
        json_fields,
        chat_short,
        chat_long,
        rag,
    )
}


def make(name: str, **sizes: int) -> list[Stage]:
    return WORKLOADS[name](random.Random(f"{name}:1"), **sizes)


def run(stages: Sequence[Stage], backend: Any, **options: Any) -> list[Any]:
    """The states of all stages."""
    return [state for stage in stages for state in stage.run(backend, **options)]
