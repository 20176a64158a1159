"""One line of execution: expressions go in from the author's thread, and run in order in a loop.

There is no thread for a branch. Variables are futures, made when the expression that sets them is
appended, so that reading one waits for it, and an error reaches whoever reads what comes after.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from sglang_lite.lang.backends.protocol import Ask, Backend
from sglang_lite.lang.errors import ProgramError
from sglang_lite.lang.journal import Journal
from sglang_lite.lang.nodes import (
    Expr,
    Gen,
    Nothing,
    Place,
    RoleBegin,
    RoleEnd,
    ScopeBegin,
    ScopeEnd,
    Select,
    Text,
    here,
    names_of,
)
from sglang_lite.lang.prompt import Generated, Prompt
from sglang_lite.loop import LoopThread
from sglang_lite.params import SamplingParams
from sglang_lite.seeds import derive_seed


@dataclass(frozen=True)
class Run:
    """What all branches of one run of a program share."""

    backend: Backend
    loop: LoopThread
    options: dict[str, Any]  # sampling parameters for gens that don't give their own
    seed: int | None = None
    usage: list[dict[str, int]] = field(default_factory=list)


@dataclass(frozen=True)
class Snapshot:
    """All that a branch knows at one moment; a fork starts from one."""

    prompt: Prompt = field(default_factory=Prompt)
    variables: dict[str, Any] = field(default_factory=dict)
    meta: dict[str, dict[str, Any]] = field(default_factory=dict)
    messages: tuple[dict[str, Any], ...] = ()
    role: str | None = None  # the turn that is open,
    content_from: int = 0  # where its content begins in the text,
    chat_from: int | None = None  # and where the conversation does

    def conversation(self) -> list[dict[str, Any]]:
        """Messages up to now; the open turn's with what it has so far."""
        turns = [dict(message) for message in self.messages]
        if self.role is not None:
            turns[-1]["content"] = self.prompt.text[self.content_from :]
        return turns


Work = Callable[[], Coroutine[Any, Any, None]]


class _Item(NamedTuple):
    work: Work | None
    place: Place
    what: str
    futures: Sequence[tuple[str | None, Future[Any]]]  # of variables; None: of the snapshot


class Branch:
    def __init__(self, run: Run, path: tuple[int, ...] = ()) -> None:
        self.run, self.path = run, path
        self.now = Snapshot()
        self.origin = Prompt()  # what was inherited
        self.futures: dict[str, Future[Any]] = {}
        self.error: BaseException | None = None
        self.journal = Journal()
        self._scopes: dict[str, int] = {}
        self._gens = 0
        self.forks = 0  # made so far: part of a child's path, and so of its seeds
        self._queue: deque[_Item] = deque()
        self._busy = False
        self._lock = threading.Lock()

    # -------------------------------------------------------------- from the author's thread

    def append(self, parts: Sequence[Expr]) -> None:
        for part in parts:
            names = names_of([part])
            if not isinstance(part, Nothing):
                self.enqueue(partial(self._execute, part), part.place, _call(part), names)

    def enqueue(self, work: Work, place: Place, what: str, names: Sequence[str] = ()) -> None:
        """Run `work` after all that was enqueued before; it sets the variables `names`."""
        made = [(name, Future[Any]()) for name in names]
        with self._lock:
            self.futures.update(made)
            self._queue.append(_Item(work, place, what, made))
        self._start()

    def moment(self) -> Future[Snapshot]:
        """What the branch knows once all that was enqueued so far has run; or its error."""
        future: Future[Snapshot] = Future()
        with self._lock:
            self._queue.append(_Item(None, here(), "", [(None, future)]))
        self._start()
        return future

    def inherit(self, parent: Branch, moment: Future[Snapshot]) -> None:
        """Begin where `parent` is at `moment`."""
        self.futures = dict(parent.futures)

        async def take() -> None:
            self.now = await asyncio.wrap_future(moment)
            self.origin = self.now.prompt

        self.enqueue(take, here(), "fork")

    def fail(self, error: BaseException) -> None:
        """Nothing more is executed; whoever waits, or reads later, gets `error`."""
        if self.error is None:
            self.error = error

    # -------------------------------------------------------------- in the loop

    def _start(self) -> None:
        with self._lock:
            idle, self._busy = not self._busy, True
        if idle:
            asyncio.run_coroutine_threadsafe(self._drain(), self.run.loop.loop)

    async def _drain(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._busy = False
                    return
                item = self._queue.popleft()
            if self.error is None and item.work is not None:
                try:
                    await item.work()
                except Exception as error:  # noqa: BLE001 - it is for who reads the branch
                    known = isinstance(error, ProgramError)
                    self.fail(error if known else ProgramError(item.place, item.what, error))
            for name, future in item.futures:
                if self.error is not None:
                    future.set_exception(self.error)
                else:
                    future.set_result(self.now if name is None else self.now.variables[name])

    async def _execute(self, part: Expr) -> None:
        if isinstance(part, Text):
            self.write(part.text)
        elif isinstance(part, Gen):
            await self._generate(part)
        elif isinstance(part, Select):
            await self._select(part)
        elif isinstance(part, RoleBegin):
            self._begin(part.role)
        elif isinstance(part, RoleEnd):
            self._end(part.role)
        elif isinstance(part, ScopeBegin):
            self._scopes[part.name] = len(self.now.prompt.text)
        elif isinstance(part, ScopeEnd):
            self.set(part.name, self.now.prompt.text[self._scopes.pop(part.name) :], {})
        else:
            raise TypeError(f"{type(part).__name__} cannot be executed")

    def write(self, text: str, variable: str | None = None) -> None:
        if text:
            self.now = replace(self.now, prompt=self.now.prompt.add(text))
            self.journal.add(variable, text, {})

    def extend(self, pieces: Sequence[str | Generated]) -> None:
        """Append what another branch has, generated ids as they are."""
        for piece in pieces:
            self.now = replace(self.now, prompt=self.now.prompt.add(piece))
            self.journal.add(None, piece if isinstance(piece, str) else piece.text, {})

    def set(self, name: str | None, value: Any, meta: dict[str, Any]) -> None:
        if name is None:
            return
        variables, known = {**self.now.variables, name: value}, {**self.now.meta, name: meta}
        self.now = replace(self.now, variables=variables, meta=known)

    async def _generate(self, gen: Gen) -> None:
        params, backend, last = self._params(gen), self.run.backend, None
        ask = Ask(
            self.now.prompt,
            params,
            gen.n,
            gen.constraint,
            self.now.conversation(),
            self.now.role,
        )
        async for part in backend.generate(ask):
            if part.text:
                self.journal.add(gen.name, part.text, part.meta)
            last = part
        assert last is not None
        first, texts = last.samples[0], [sample.text for sample in last.samples]
        if gen.n > 1:
            self.journal.add(gen.name, first.text, last.meta)
        if first.text or first.ids:
            self.now = replace(self.now, prompt=self.now.prompt.add(first))
        self._count(last.meta)
        self.set(gen.name, texts if gen.n > 1 else texts[0], last.meta)

    def _params(self, gen: Gen) -> SamplingParams:
        options = {**self.run.options, **gen.options}
        turn = self.run.backend.template.stops if self.now.role is not None else ()
        if more := (*gen.ends, *turn):
            options["stop"] = tuple(dict.fromkeys((*options.get("stop", ()), *more)))
        if "seed" not in options and self.run.seed is not None:
            options["seed"] = derive_seed(self.run.seed, *self.path, self._gens)
        self._gens += 1
        return SamplingParams(**options)

    async def _select(self, select: Select) -> None:
        scores = await self.run.backend.score(
            self.now.prompt, select.choices, unconditional=select.method.needs_unconditional
        )
        decision = select.method(scores)
        self._count(decision.meta)
        self.write(select.choices[decision.index], select.name)
        self.set(select.name, select.choices[decision.index], decision.meta)

    def _begin(self, role: str) -> None:
        now = self.now
        if now.role is not None:
            raise ValueError(f"the {now.role} turn is still open; end it before {role} begins")
        text = now.prompt.text
        start = len(text) if now.chat_from is None else now.chat_from
        opening = self.run.backend.template.begin(now.messages, role, text[start:])
        prompt = now.prompt.add(opening.text)
        if opening.afresh:
            prompt = Prompt().add(text[:start]).add(opening.text)
        self.journal.add(None, opening.text, {})
        self.now = replace(
            now,
            prompt=prompt,
            messages=(*now.messages, {"role": role, "content": ""}),
            role=role,
            content_from=len(prompt.text),
            chat_from=start,
        )

    def _end(self, role: str) -> None:
        if self.now.role != role:
            raise ValueError(f"the {role} turn is not open")
        messages = tuple(self.now.conversation())
        self.now = replace(self.now, messages=messages, role=None)
        self.write(self.run.backend.template.end(messages, role))

    def _count(self, meta: dict[str, Any]) -> None:
        kinds = ("prompt_tokens", "cached_tokens", "completion_tokens")
        if "prompt_tokens" in meta:
            self.run.usage.append({kind: meta.get(kind, 0) for kind in kinds})


def _call(part: Expr) -> str:
    """How an error names the expression."""
    name = getattr(part, "name", None) or getattr(part, "role", None)
    kind = type(part).__name__.lower()
    return f"{kind}({name!r})" if name else kind
