"""One run of a program: what its branches share, and what they did."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from sglang_lite.errors import InvalidRequest, RequestFailed
from sglang_lite.lang.backends.protocol import Backend
from sglang_lite.lang.nodes import Expr, Gen, Select
from sglang_lite.lang.prompt import Prompt
from sglang_lite.loop import LoopThread

if TYPE_CHECKING:
    from sglang_lite.lang.branch import Branch

Path = tuple[int, ...]
LONGEST_TIMEOUT = 1e8
CANCELLED = "the program was cancelled."
USAGE = ("prompt_tokens", "cached_tokens", "completion_tokens", "fast_forwarded_tokens")

# where a body runs to be traced: what a call of another program is there
TRACING: ContextVar[Callable[..., Any] | None] = ContextVar("tracing", default=None)

# the run whose body runs here: what it reads of itself ends with what it has appended
INSIDE: ContextVar[Run | None] = ContextVar("inside", default=None)

_numbers = count(1)


class Event(NamedTuple):
    """An expression that was executed."""

    branch: Path
    part: Expr
    began: float  # seconds, as `time.perf_counter` counts,
    first: float  # when the first piece of an answer came,
    ended: float
    before: Prompt  # the branch's text when it began,
    after: Prompt  # and when it ended
    meta: dict[str, Any]


@dataclass(eq=False)
class Run:
    backend: Backend
    loop: LoopThread
    options: dict[str, Any] = field(default_factory=dict)  # for gens that don't give their own
    asked: dict[str, Any] = field(default_factory=dict)  # the same, but no sampling parameters
    name: str = ""
    seed: int | None = None
    timeout: float | None = None  # seconds that a gen or select may take
    hints: bool = True  # tell the runtime what is known of the program
    turn: asyncio.Lock | None = None  # held by the branch that generates, if only one may
    speculation: int | None = None  # tokens to ask a completion API for ahead of later gens
    number: int = field(default_factory=lambda: next(_numbers))
    events: list[Event] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)  # bodies, if `async def`
    forks: int = 0  # groups made so far
    running: bool = True  # the body has not ended

    def __post_init__(self) -> None:
        seconds = self.timeout
        if seconds is not None and not (
            type(seconds) in (int, float) and 0 < seconds <= LONGEST_TIMEOUT
        ):
            message = f"`timeout` is a number of seconds above 0, at most {LONGEST_TIMEOUT:g}, got "
            raise InvalidRequest(f"{message}{seconds!r:.80}.", param="timeout")
        if self.seed is not None and type(self.seed) is not int:
            raise InvalidRequest(f"`seed` is a whole number, got {self.seed!r:.80}.", param="seed")

    def usage(self, wanted: Callable[[Event], bool] = lambda event: True) -> dict[str, Any]:
        """Tokens and seconds of gens and selects that have ended."""
        total: dict[str, Any] = dict.fromkeys(USAGE, 0)
        total |= {"calls": 0, "seconds": 0.0}
        for event in list(self.events):
            if isinstance(event.part, (Gen, Select)) and wanted(event):
                total["calls"] += 1
                total["seconds"] += event.ended - event.began
                for kind in USAGE:
                    total[kind] += event.meta.get(kind, 0)
        return total

    def cancel(self) -> None:
        """End what is still running; whoever waits gets RequestFailed."""
        self.abandon(RequestFailed(CANCELLED))

    def abandon(self, error: BaseException) -> None:
        """End all branches now; whoever waits, or reads later, gets `error`."""
        for branch in list(self.branches):
            branch.abandon(error)
        self.loop.post(lambda: [task.cancel() for task in list(self.tasks)])

    def keep(self, task: asyncio.Task[None]) -> None:
        """Hold on to a task of this run's until it ends; cancelling the run cancels it."""
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def finish(self) -> None:
        """The body has ended: readers of streams get to their end once all of it has run."""
        self.running = False
        for branch in self.branches[1:]:
            branch.when_idle(branch.close)
        self.branches[0].when_idle(self._end)

    def _end(self) -> None:
        self.branches[0].close()
        if self.hints and self.backend.takes_hints:
            leave = self.backend.end_program
            self.loop.post(lambda: leave(self.number))
