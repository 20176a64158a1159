"""What each expression does to a branch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from time import perf_counter
from typing import Any, TypeVar

from sglang_lite.lang.backends.protocol import Ask, Part
from sglang_lite.lang.choices import decide
from sglang_lite.lang.context import Context
from sglang_lite.lang.nodes import (
    Argument,
    Assign,
    Expr,
    Gen,
    RoleBegin,
    RoleEnd,
    ScopeBegin,
    ScopeEnd,
    Select,
    Text,
    Variable,
    thoughts_of,
)
from sglang_lite.lang.prompt import Generated, Prompt
from sglang_lite.lang.run import USAGE, Event, Path, Run
from sglang_lite.lang.speculation import TRIES, after, cut, fits
from sglang_lite.params import Hint, SamplingParams
from sglang_lite.reasoning import split
from sglang_lite.seeds import derive_seed

T = TypeVar("T")


class Executor(Context):
    def __init__(self, run: Run, path: Path = ()) -> None:
        super().__init__(run)
        self.path = path
        self.group, self.size = 0, 1  # the fork that made this branch, and how many it made
        self.ahead = ""  # what the model wrote beyond what the program has used
        self.pause_ms = 0  # how long what comes next is expected to take, if the program knows
        self._gens = 0

    def more_to_come(self) -> bool:
        """Whether the branch's text is going to be continued, as far as one knows."""
        raise NotImplementedError

    def overdue(self, part: Expr) -> None:
        """The run's `timeout` is over, and `part` has not been answered."""
        raise NotImplementedError

    def upcoming(self) -> list[Expr]:
        """What is appended already, up to the end of the turn."""
        raise NotImplementedError

    # -------------------------------------------------------------- without waiting

    def do(self, part: Expr) -> None:
        """Execute an expression that waits for nobody."""
        began, before = perf_counter(), self.prompt
        DO[type(part)](self, part)
        self.note(part, began, perf_counter(), before, {})

    # -------------------------------------------------------------- with a backend

    async def ask(self, part: Expr) -> None:
        """Execute an expression that a backend answers."""
        if self.run.turn is None:
            await self._ask(part)
        else:
            async with self.run.turn:
                await self._ask(part)

    async def _ask(self, part: Expr) -> None:
        began, before = perf_counter(), self.prompt
        self._first = 0.0
        work = self._generate(part) if isinstance(part, Gen) else self._select(part)  # type: ignore[arg-type]
        meta = await self._in_time(part, work)
        self._gens += 1
        self.note(part, began, self._first or perf_counter(), before, meta)

    async def _in_time(self, part: Expr, work: Awaitable[T]) -> T:
        if self.run.timeout is None:
            return await work
        timer = asyncio.get_running_loop().call_later(self.run.timeout, self.overdue, part)
        try:
            return await work
        finally:
            timer.cancel()

    async def _generate(self, gen: Gen) -> dict[str, Any]:
        if open_ones := {k: v for k, v in self.run.asked.items() if getattr(gen, k) is None}:
            gen = replace(gen, **open_ones)
        if self._foresees(gen):
            return self._answered(gen, await self._foreseen(gen))
        self.ahead = ""
        if gen.options.get("max_tokens") == 0 and gen.options.get("logprobs"):
            return self._answered(gen, await self._peek(gen))
        if not gen.retries or gen.form is None:
            return self._answered(gen, await self._listen(gen, 0))
        tried: list[dict[str, Any]] = []
        for attempt in range(gen.retries + 1):
            last = await self._listen(gen, attempt)
            tried.append(last.meta)
            if all(gen.form.fits(sample.text) for sample in last.samples):
                break
        together = {kind: sum(each.get(kind, 0) for each in tried) for kind in USAGE}
        meta = {**last.meta, **together, "retries": len(tried) - 1}
        return self._answered(gen, Part(last.text, last.samples, meta))

    async def _listen(self, gen: Gen, attempt: int, *, quiet: bool = False) -> Part:
        """Ask, and pass on the pieces of the answer; return the last."""
        ask = Ask(
            self.prompt, self._params(gen, attempt), gen.n or 1, gen.constraint,
            self.conversation(), self.role, self._hint(), gen.logprob_start, bool(gen.logprob_text),
        )  # fmt: skip
        last = None
        async with aclosing(self.run.backend.generate(ask)) as parts:  # type: ignore[type-var]
            async for part in parts:
                self._first = self._first or perf_counter()
                if part.text and not (quiet or gen.retries):  # it may be taken back
                    self.journal.add(gen.name, part.text, part.meta)
                last = part
        if last is None or not last.samples:
            raise RuntimeError("the backend ended its answer without saying what it was")
        return last

    async def _peek(self, gen: Gen) -> Part:
        """What would come next and how likely, without going there."""
        one = replace(gen, options={**gen.options, "max_tokens": 1})
        last = await self._listen(one, 0, quiet=True)
        return Part(samples=(Generated(""),) * len(last.samples), meta=last.meta)

    # -------------------------------------------------------------- ahead of later gens

    def _foresees(self, gen: Gen) -> bool:
        """Whether the gen may be answered from, and with, what later ones need."""
        backend = self.run.backend
        if not self.run.speculation or not backend.speculates:
            return False
        plain = (gen.n or 1) == 1 and gen.constraint is None and "logprobs" not in gen.options
        return plain and bool(self._stops(gen) or not backend.continues)

    async def _foreseen(self, gen: Gen) -> Part:
        stops, meta = self._stops(gen), {"speculated": True}
        whole = self.ahead and not (stops and self.run.backend.continues)  # no more will come
        if not (found := cut(self.ahead, stops)) and not whole:
            last = await self._look_ahead(gen)
            text, meta = self.ahead + last.samples[0].text, last.meta
            found = cut(text, stops) or (text, "")
        answer, self.ahead = found or (self.ahead, "")
        if answer:
            self.journal.add(gen.name, answer, meta)
        return Part(samples=(Generated(answer),), meta=meta)

    async def _look_ahead(self, gen: Gen) -> Part:
        """Ask for more than the gen needs; of an API that cannot go on, until it fits the turn."""
        assert self.run.speculation is not None
        tokens = max(self.run.speculation, self._params(gen, 0).max_tokens)
        wide = replace(gen, ends=(), options={**gen.options, "max_tokens": tokens, "stop": ()})
        turn = [gen, *self.upcoming()]
        before, self.prompt = self.prompt, self.prompt.add(self.ahead)
        begun = ""  # of a turn that the API writes from its beginning
        if not self.run.backend.continues:
            begun = before.text[self.content_from :]
            self.prompt = Prompt().add(before.text[: self.content_from])
        try:
            for attempt in range(TRIES):
                last = await self._listen(wide, attempt, quiet=True)
                text = last.samples[0].text
                rest = text[len(begun) :]
                if self.run.backend.continues:
                    return last
                if text.startswith(begun) and fits(rest, turn, self._stops):
                    return Part(samples=(Generated(rest),), meta=last.meta)
        finally:
            self.prompt = before
        raise RuntimeError(
            f"the answer had not the form of the turn in {TRIES} tries; this API cannot continue "
            f"a turn that has begun. The last was {text[:80]!r}"
        )

    def _stops(self, gen: Gen) -> tuple[str, ...]:
        return self._params(gen, 0).stop

    def write(self, text: str, variable: str | None = None) -> None:
        super().write(text, variable)
        if self.ahead:
            self.ahead = after(self.ahead, text)

    # -------------------------------------------------------------- answers

    def _answered(self, gen: Gen, last: Part) -> dict[str, Any]:
        first, texts = last.samples[0], [sample.text for sample in last.samples]
        many = (gen.n or 1) > 1
        if many or gen.retries:
            self.journal.add(gen.name, first.text, last.meta)
        if gen.reasoning:
            pairs = [split(gen.reasoning, text) for text in texts]
            thoughts, texts = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
            if gen.name:
                self.set(thoughts_of(gen.name), thoughts if many else thoughts[0], last.meta)
            self.prompt = self.prompt.add(texts[0])  # a conversation goes on from the answer alone
        elif first.text or first.ids:
            self.prompt = self.prompt.add(first)
        self.set(gen.name, texts if many else texts[0], last.meta)
        return last.meta

    async def _select(self, select: Select) -> dict[str, Any]:
        backend, alone = self.run.backend, select.all_scores
        if alone is None:
            alone = backend.scores_alone
        scores = await backend.score(
            self.prompt,
            select.choices,
            unconditional=alone or select.method.needs_unconditional,
            hint=self._hint(),
        )
        decision = decide(scores, select.method, select.temperature, self._seed())
        chosen = select.choices[decision.index]
        self.write(chosen, select.name)
        self.set(select.name, chosen, decision.meta)
        return decision.meta

    def _params(self, gen: Gen, attempt: int) -> SamplingParams:
        options = {**self.run.options, **gen.options}
        turn = self.run.backend.template.stops if self.role is not None else ()
        if more := (*gen.ends, *turn):
            options["stop"] = tuple(dict.fromkeys((*options.get("stop", ()), *more)))
        seed = options.get("seed", self._seed())
        if seed is not None:
            options["seed"] = derive_seed(seed, "attempt", attempt) if attempt else seed
        return SamplingParams(**options)

    def _seed(self) -> int | None:
        """Of this branch's next call: it depends on the run's, and on nothing but the place."""
        if self.run.seed is None:
            return None
        return derive_seed(self.run.seed, *self.path, self._gens)

    def _hint(self) -> Hint | None:
        if not (self.run.hints and self.run.backend.takes_hints):
            return None
        return Hint(
            program=self.run.number,
            step=self._gens,
            group=self.group,
            size=self.size,
            more=self.more_to_come(),
            retain_ms=self.pause_ms,
        )

    def note(
        self, part: Expr, began: float, first: float, before: Prompt, meta: dict[str, Any]
    ) -> None:
        """Remember what was done: the run's graph and its usage are made of it."""
        if before is not self.prompt:
            before.forget_text()
        event = Event(self.path, part, began, first, perf_counter(), before, self.prompt, meta)
        self.run.events.append(event)


def _text(branch: Context, part: Text) -> None:
    branch.write(part.text)


def _assign(branch: Context, part: Assign) -> None:
    branch.set(part.name, part.value, {})


def _nothing(branch: Context, part: Expr) -> None:
    """What a trace cannot know."""


DO: dict[type[Expr], Callable[[Any, Any], None]] = {
    Text: _text,
    Assign: _assign,
    Argument: _nothing,
    Variable: _nothing,
    RoleBegin: lambda branch, part: branch.begin_turn(part.role),
    RoleEnd: lambda branch, part: branch.end_turn(part.role),
    ScopeBegin: lambda branch, part: branch.begin_scope(part.name),
    ScopeEnd: lambda branch, part: branch.end_scope(part.name),
}
