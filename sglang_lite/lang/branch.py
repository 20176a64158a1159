"""One line of execution: expressions go in from the author's thread, and run in order.

There is no thread for a branch. What waits for nobody is executed where it is appended; the first
expression that waits moves the branch to the event loop until its queue is empty. Variables are
cells, made when the expression that sets them is appended, so that reading one waits for it, and
an error reaches whoever reads what comes after.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from time import perf_counter
from typing import Any, ClassVar

from sglang_lite.errors import RequestFailed
from sglang_lite.lang.cells import Cell
from sglang_lite.lang.context import Snapshot
from sglang_lite.lang.errors import ProgramError
from sglang_lite.lang.execute import Executor
from sglang_lite.lang.nodes import Expr, Gen, Nothing, RoleEnd
from sglang_lite.lang.outputs import Form
from sglang_lite.lang.run import Path, Run


@dataclass(frozen=True, eq=False)
class Job(Expr):
    """Something that is not an expression of the language, done in its turn."""

    work: Callable[[], Awaitable[None]]
    what: str
    names: tuple[str, ...] = ()  # the variables that it sets
    sources: tuple[Path, ...] = ()  # the branches that it takes something from

    waits: ClassVar[bool] = True


class Moment(Nothing):
    """Where what the branch knows is asked for."""


MOMENT = Moment()
_IDLE = ""  # in place of a variable's name: nothing is asked but when


class Branch(Executor):
    def __init__(self, run: Run, path: Path = ()) -> None:
        super().__init__(run, path)
        self.origin = Snapshot()  # what was inherited
        self.cells: dict[str, Cell[Any]] = {}
        self.forms: dict[str, Form] = {}  # of variables whose text has a value
        self.error: BaseException | None = None
        self.forks = 0  # made so far: part of a child's path, and so of its seeds
        self._queue: deque[tuple[Expr, Sequence[tuple[str | None, Cell[Any]]]]] = deque()
        self._current: Sequence[tuple[str | None, Cell[Any]]] = ()  # of what is being waited for
        self._busy = False
        self._lost = False  # given up, though the loop may still be busy with it
        self._lock = threading.Lock()
        self._task: asyncio.Task[None] | None = None
        run.branches.append(self)

    # -------------------------------------------------------------- from the author's thread

    def append(self, parts: Sequence[Expr]) -> None:
        with self._lock:
            for part in parts:
                made = _cells(part.sets)
                self.cells.update(made)
                for name in part.sets:
                    self.forms.pop(name, None)  # a type is of what set the name last
                if isinstance(part, Gen) and part.name and part.form is not None:
                    self.forms[part.name] = part.form
                self._queue.append((part, made))
        self._go()

    def enqueue(self, job: Job) -> None:
        """Do `job` after all that was appended before."""
        made = _cells(job.names)
        with self._lock:
            self.cells.update(made)
            self._queue.append((job, made))
        self._go()

    def moment(self) -> Cell[Snapshot]:
        """What the branch knows once all that was appended so far has run; or its error."""
        cell: Cell[Snapshot] = Cell()
        with self._lock:
            self._queue.append((MOMENT, ((None, cell),)))
        self._go()
        return cell

    def when_idle(self, act: Callable[[], None]) -> None:
        """Call `act` once all that was appended so far has run."""
        cell: Cell[None] = Cell()
        cell.then(act)
        with self._lock:
            self._queue.append((MOMENT, ((_IDLE, cell),)))
        self._go()

    def inherit(self, parent: Branch, moment: Cell[Snapshot]) -> None:
        """Begin where `parent` is at `moment`."""
        self.cells, self.forms = dict(parent.cells), dict(parent.forms)

        async def take() -> None:
            self.origin = await moment
            self.restore(self.origin)

        job = Job(take, "fork", sources=(parent.path,))
        if not moment.done or moment.error is not None:
            self.enqueue(job)
            return
        began = perf_counter()  # nothing is to be waited for: branches begin in their order
        self.origin = moment.get()
        self.restore(self.origin)
        self.note(job, began, began, self.prompt, {})

    def fail(self, error: BaseException) -> None:
        """Nothing more is executed; whoever waits, or reads later, gets `error`."""
        if self.error is None:
            self.error = error
            self.journal.close(error)

    def abandon(self, error: BaseException) -> None:
        """End the branch now, whatever its backend makes of being cancelled."""
        with self._lock:
            self.error = self.error or error  # before what is appended now can see that we are lost
            self._lost = True
            left = [*self._current, *(cell for _, cells in self._queue for cell in cells)]
            self._current = ()
            self._queue.clear()
            task = self._task
        self.journal.close(self.error)
        self._settle(left)
        if task is not None:
            self.run.loop.post(task.cancel)

    def overdue(self, part: Expr) -> None:
        seconds = f"{self.run.timeout:g} s"
        error = TimeoutError(f"no answer within {seconds} (timeout={self.run.timeout:g})")
        self.abandon(self._blamed(part, error))

    def close(self) -> None:
        """Readers of the stream get to its end."""
        self.journal.close(self.error)

    def upcoming(self) -> list[Expr]:
        with self._lock:
            parts = [part for part, _ in self._queue]
        return list(takewhile(lambda part: not isinstance(part, RoleEnd), parts))

    def more_to_come(self) -> bool:
        with self._lock:
            queued = any(not isinstance(part, Nothing) for part, _ in self._queue)
        return queued or (self.run.running and not self.path)

    # -------------------------------------------------------------- in either thread

    def _go(self) -> None:
        with self._lock:
            if self._busy and not self._lost:
                return
            self._busy = True
        self._advance()

    def _advance(self) -> None:
        """Do what comes next, as long as it waits for nobody; hand the rest to the loop."""
        while True:
            with self._lock:
                if not self._queue:
                    self._busy = False
                    return
                if self._queue[0][0].waits and self.error is None:
                    break
                part, cells = self._queue.popleft()
            self._do(part)
            self._settle(cells)
        self.run.loop.post(self._start)

    def _start(self) -> None:
        self._task = asyncio.ensure_future(self._drain())

    async def _drain(self) -> None:
        while True:
            with self._lock:
                if self._lost or not self._queue:
                    self._busy, self._task = False, None
                    return
                part, self._current = self._queue.popleft()
            if part.waits and self.error is None:
                await self._wait_for(part)
            else:
                self._do(part)
            with self._lock:
                cells, self._current = self._current, ()
            self._settle(cells)

    def _do(self, part: Expr) -> None:
        if self.error is None and not isinstance(part, Nothing):
            try:
                self.do(part)
            except Exception as error:  # noqa: BLE001 - it is for who reads the branch
                self.fail(self._blamed(part, error))

    async def _wait_for(self, part: Expr) -> None:
        try:
            if isinstance(part, Job):
                began, before = perf_counter(), self.prompt
                await part.work()
                self.note(part, began, began, before, {})
            else:
                await self.ask(part)
        except BaseException as error:  # noqa: BLE001 - not even an exit may end everybody's loop
            self.fail(self._blamed(part, error))

    def _blamed(self, part: Expr, error: BaseException) -> BaseException:
        if isinstance(error, (ProgramError, RequestFailed)) and isinstance(part, Job):
            return error  # of the branch that was waited for
        if isinstance(error, ProgramError):
            return error
        return ProgramError(part.place, _call(part), error, self.run.name)

    def _settle(self, cells: Sequence[tuple[str | None, Cell[Any]]]) -> None:
        for name, cell in cells:
            if self.error is not None:
                cell.fail(self.error)
            elif name is None:
                cell.set(self.snapshot())
            else:
                cell.set(self.variables.get(name))
        if cells:
            self.journal.announce()  # who reads a variable's text has it all


def _cells(names: Sequence[str]) -> list[tuple[str, Cell[Any]]]:
    return [(name, Cell()) for name in names]


def _call(part: Expr) -> str:
    """How an error names the expression."""
    if isinstance(part, Job):
        return part.what
    name = getattr(part, "name", None) or getattr(part, "role", None)
    kind = type(part).__name__.lower()
    return f"{kind}({name!r})" if name else kind
