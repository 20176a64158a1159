"""Programs that say whether they go on find more of their KV again than least-recently-used keeps.

Seeded workloads on a pool that is too small for them, without a model: a runner that counts what
it computes, and a clock that moves with the steps. `chat_short`: conversations of four turns with
pauses between. `agent_replay`: agents that share a template, with tool calls between their turns,
and strangers all the while. `mixed`: the conversations, and strangers with prompts of two kinds,
who must not pay for it. `few_shot`: all at once, where the order of admission decides. How other
policies and caches do is printed too.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from benchmarks.workloads import distinct_tokens
from sglang_lite.params import Hint, SamplingParams
from sglang_lite.runtime.core import EngineCore
from sglang_lite.runtime.scheduling.cache import PrefixCache
from sglang_lite.runtime.scheduling.intake import Limits
from sglang_lite.runtime.scheduling.retention import RetentionLimits
from sglang_lite.runtime.scheduling.scheduler import Scheduler
from sglang_lite.testing import FakeRunner
from sglang_lite.wire import Submit, pack

# By how much the hit rate must exceed that of LRU, with the same policy.
LIMITS = {"chat_short": 0.08, "agent_replay": 0.02, "mixed": 0.04}
STRANGERS_LIMIT = -0.01  # what strangers may lose of theirs in `mixed`
SEED, POOL, STEP_SECONDS = 1, 8_192, 0.05
CLIENT, VOCAB = b"benchmark", 1_000


class Turn(NamedTuple):
    words: list[int]
    answer: int  # tokens
    pause: int  # steps until the next turn


@dataclass
class Program:
    start: int  # the step of its first request
    turns: list[Turn]
    text: list[int] = field(default_factory=list)
    stranger: bool = False  # it tells the runtime nothing of itself
    siblings: int = 0  # the program whose fork group it is in


class Setup(NamedTuple):
    name: str
    policy: str = "lpm"
    hints: bool = False
    cached: bool = True
    whole_only: bool = False
    share: float = 0.5


LRU, RETENTION = Setup("LRU, lpm"), Setup("retention, lpm", hints=True)
SETUPS = [
    Setup("no cache", cached=False),
    Setup("table of whole texts, lpm", whole_only=True),
    *(Setup(f"LRU, {policy}", policy) for policy in ("random", "fcfs", "dfs")),
    LRU,
    *(Setup(f"retention, {policy}", policy, hints=True) for policy in ("fcfs", "dfs")),
    RETENTION,
    Setup("retention of all the pool, lpm", hints=True, share=1.0),
]
ORDERS = [
    *(Setup(f"LRU, {policy}", policy) for policy in ("random", "fcfs", "lpm", "dfs")),
    Setup("fork groups, fcfs", "fcfs", hints=True),
]


def _words(draw: random.Random, size: int) -> list[int]:
    return [draw.randrange(VOCAB) for _ in range(size)]


def chat_short(draw: random.Random) -> list[Program]:
    """160 conversations that begin one after another."""

    def turn() -> Turn:
        words = _words(draw, draw.randint(64, 128))
        return Turn(words, draw.randint(4, 8), draw.randint(20, 200))

    return [Program(8 * at, [turn() for _ in range(4)]) for at in range(160)]


def agent_replay(draw: random.Random) -> list[Program]:
    """36 agents of 5 turns, and 144 requests that have nothing to do with them."""
    template = _words(draw, 1_700)
    programs = []
    for at in range(36):
        turns = [Turn(_words(draw, 60), 40, draw.randint(20, 120)) for _ in range(5)]
        programs.append(Program(40 * at, turns, list(template)))
    for at in range(144):
        alone = Turn(_words(draw, draw.randint(200, 600)), 8, 0)
        programs.append(Program(10 * at, [alone], stranger=True))
    return programs


def mixed(draw: random.Random) -> list[Program]:
    """`chat_short`, and 120 requests of strangers, each with one of two long heads."""
    programs, heads = chat_short(draw), [_words(draw, 500) for _ in range(2)]
    for at in range(120):
        turn = Turn(_words(draw, 60), 8, 0)
        programs.append(Program(12 * at + 5, [turn], list(draw.choice(heads)), stranger=True))
    return programs


def few_shot(draw: random.Random) -> list[Program]:
    """12 questions with each of 40 heads, shuffled and asked at once."""
    programs = []
    for subject in range(40):
        head = _words(draw, 480)
        for _ in range(12):
            question = Turn(_words(draw, 85), 1, 0)
            programs.append(Program(0, [question], list(head), siblings=1_000 + subject))
    draw.shuffle(programs)
    return programs


class Replay:
    """Programs and a core, in steps. Counts what was asked and what the runner computed."""

    def __init__(self, programs: list[Program], setup: Setup) -> None:
        self.programs, self.setup = programs, setup
        self.step = self.asked = self.decoded = 0
        self.strangers = [0, 0]  # tokens that they asked for, and that were found
        self.core = _core(setup, lambda: self.step * STEP_SECONDS)
        self._texts: list[list[int]] = []  # whose every token was computed, or found
        self._open: dict[int, Program] = {}  # id of a request -> whose it is
        self._waiting = [(program.start, at, 0) for at, program in enumerate(programs)]
        heapq.heapify(self._waiting)

    def run(self) -> None:
        while self._waiting or self._open:
            while self._waiting and self._waiting[0][0] <= self.step:
                _, at, turn = heapq.heappop(self._waiting)
                self._ask(at, turn)
            for output in self.core.step().values():
                assert not output.failures, output.failures
                tokens = iter(output.tokens)
                for id, count in zip(output.ids, output.counts, strict=True):
                    self._open[id].text += [next(tokens) for _ in range(count)]
                for id, finish in output.finishes.items():
                    self._answered(id, finish.cached_tokens)
            self.step += 1
        assert self.core.stats()["duplicate_prefill_tokens"] == 0

    @property
    def hit_rate(self) -> float:
        """The share of prompt tokens that the runner did not compute."""
        computed: int = self.core.runner.computed_tokens  # type: ignore[attr-defined]
        return 1 - (computed - self.decoded) / self.asked

    @property
    def optimum(self) -> float:
        """The hit rate of a perfect tree in a pool without end."""
        return 1 - (distinct_tokens(self._texts) - self.decoded) / self.asked

    @property
    def strangers_rate(self) -> float:
        return self.strangers[1] / max(1, self.strangers[0])

    def _ask(self, at: int, turn: int) -> None:
        program = self.programs[at]
        words, answer, _ = program.turns[turn]
        program.text += words
        self.asked += len(program.text)
        if program.stranger:
            self.strangers[0] += len(program.text)
        params = SamplingParams(max_tokens=answer, temperature=0.0, ignore_eos=True)
        id = at * 10 + turn
        message = Submit(id, pack(program.text), params, hint=self._hint(at, turn))
        self.core.submit(CLIENT, message)
        self._open[id] = program

    def _hint(self, at: int, turn: int) -> Hint | None:
        program = self.programs[at]
        if not self.setup.hints or program.stranger:
            return None
        if program.siblings:
            return Hint(program=program.siblings, group=1)
        return Hint(program=at + 1, step=turn, more=turn + 1 < len(program.turns))

    def _answered(self, id: int, found: int) -> None:
        program, (at, turn) = self._open.pop(id), divmod(id, 10)
        _, answer, pause = program.turns[turn]
        self.decoded += answer - 1
        self._texts.append(program.text[:-1])
        if program.stranger:
            self.strangers[1] += found
        if turn + 1 < len(program.turns):
            heapq.heappush(self._waiting, (self.step + pause, at, turn + 1))


def _core(setup: Setup, clock: Callable[[], float]) -> EngineCore:
    retention = RetentionLimits(share=setup.share, clock=clock)
    cache = PrefixCache(
        POOL, 1, enabled=setup.cached, whole_only=setup.whole_only, retention=retention
    )
    limits = Limits(
        vocab_size=VOCAB,
        context_length=POOL,
        max_queued_requests=10_000,
        eos_token_ids=frozenset(),
    )
    words = [b"word "] * VOCAB
    scheduler = Scheduler(cache, limits, words, policy=setup.policy, chunk=256, max_running=8)
    return EngineCore(scheduler, FakeRunner(1, range(VOCAB)))


def _replay(make: Callable[[random.Random], list[Program]], setup: Setup) -> Replay:
    name = make.__name__
    replay = Replay(make(random.Random(f"{name}:{SEED}")), setup)
    replay.run()
    strangers = f", strangers {replay.strangers_rate:.1%}" if name == "mixed" else ""
    print(
        f"{name}, {setup.name}: {replay.hit_rate:.1%} of {replay.asked:,} prompt tokens found"
        f"{strangers} (optimum {replay.optimum:.1%}), {replay.step} steps"
    )
    return replay


def measure() -> bool:
    met = True
    for make in (chat_short, agent_replay, mixed):
        name = make.__name__
        setups = SETUPS if name == "chat_short" else [LRU, RETENTION, SETUPS[-1]]
        replays = {setup.name: _replay(make, setup) for setup in setups}
        plain, retained = replays[LRU.name], replays[RETENTION.name]
        gain = retained.hit_rate - plain.hit_rate
        met = met and gain >= LIMITS[name]
        print(f"{name}: retention finds {gain:+.1%} (limit {LIMITS[name]:+.0%})")
        if name == "mixed":
            gain = retained.strangers_rate - plain.strangers_rate
            met = met and gain >= STRANGERS_LIMIT
            print(f"{name}: strangers find {gain:+.1%} (limit {STRANGERS_LIMIT:+.0%})")
    for setup in ORDERS:
        _replay(few_shot, setup)
    return met
