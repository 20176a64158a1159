"""One step of the runtime: plan, launch, commit. The protocol a runner fulfils."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from sglang_lite.errors import EngineFailed
from sglang_lite.runtime.grammar.protocol import GrammarSource
from sglang_lite.runtime.scheduling.assemble import Plan
from sglang_lite.runtime.scheduling.batch import Batch, Sampled
from sglang_lite.runtime.scheduling.output import Output
from sglang_lite.runtime.scheduling.scheduler import Scheduler
from sglang_lite.wire import Submit


class Pending(Protocol):
    """Results on their way to the host."""

    def wait(self) -> Sampled:
        """Block until the host has them."""
        ...


class Runner(Protocol):
    """What runs the model. Batches take effect in the order in which they are handed over."""

    def forward(self, batch: Batch) -> None:
        """Write the KV of every token and keep what `sample` needs of the wanted ones."""
        ...

    def sample(self, batch: Batch) -> Pending:
        """Logits, scores and draws of the batch last handed to `forward`.

        Writes each draw into `last_token[slot]`, where a later batch's token -1 finds it.
        """
        ...


class _Launched(NamedTuple):
    plan: Plan
    pending: Pending


class EngineCore:
    """Scheduler and runner, stepped from outside. `overlap` plans a step before the last one is
    read, so that the device never waits for the host."""

    def __init__(self, scheduler: Scheduler, runner: Runner, *, overlap: bool = False) -> None:
        self.scheduler, self.runner, self.overlap = scheduler, runner, overlap
        self.steps = 0
        self._launched: _Launched | None = None
        self._failures = 0  # launches in a row that failed

    @property
    def grammars(self) -> GrammarSource | None:
        return self.scheduler.compiling.source

    def submit(self, client: bytes, message: Submit) -> None:
        """Queue a request; see `Scheduler.submit` for what it raises."""
        self.scheduler.submit((client, message.id), message)

    def abort(self, client: bytes, id: int) -> None:
        self.scheduler.abort((client, id))

    def drop(self, client: bytes) -> None:
        self.scheduler.drop(client)

    def end_program(self, client: bytes, program: int) -> None:
        """Retain nothing of a program any more."""
        self.scheduler.cache.retention.end(client, program)

    @property
    def idle(self) -> bool:
        """Whether nothing waits, runs, is in flight or is left to be said."""
        return self.scheduler.idle and self._launched is None

    @property
    def stalled(self) -> bool:
        """Whether a step would do nothing before a message comes, or a grammar is compiled."""
        return self.scheduler.stalled and self._launched is None

    def step(self) -> dict[bytes, Output]:
        """Run one batch, if there is one, and return what each client is to be told.

        Raises:
            EngineFailed: two launches in a row failed; the runtime is not to be trusted any more.
        """
        before, self._launched = self._launched, None
        plan, launched, error = self.scheduler.plan(), None, None
        if plan is not None:
            self.steps += 1
            try:
                self.runner.forward(plan.batch)
                launched = _Launched(plan, self.runner.sample(plan.batch))
            except Exception as caught:  # noqa: BLE001 - whatever broke, its rows must hear of it
                error = caught
        if self.overlap:
            self._launched, launched = launched, None
        if before is not None:
            self._read(before)
        if plan is not None and error is not None:
            self._failed(plan, error)
        if launched is not None:
            self._read(launched)
        return self.scheduler.outbox.take()

    def stats(self) -> dict[str, float | int | str | bool]:
        return {"steps": self.steps, **self.scheduler.stats()}

    def flush(self) -> bool:
        """Forget every cached page; False, and nothing is done, while requests are here."""
        if not self.idle:
            return False
        self.scheduler.cache.flush()
        return True

    def close(self, reason: str) -> dict[bytes, Output]:
        """Fail everything that is still here; return the last words."""
        self._launched = None
        self.scheduler.close(reason)
        if self.grammars is not None:
            self.grammars.close()
        return self.scheduler.outbox.take()

    def check(self) -> None:
        """Raise AssertionError unless every page, slot and request is accounted for."""
        self.scheduler.check()

    def _read(self, launched: _Launched) -> None:
        try:
            sampled = launched.pending.wait()
        except Exception as error:  # noqa: BLE001
            later, self._launched = self._launched, None
            self._failed(launched.plan, error, later.plan if later else None)
            return
        self._failures = 0
        self.scheduler.commit(launched.plan, sampled)

    def _failed(self, plan: Plan, error: Exception, later: Plan | None = None) -> None:
        self._failures += 1
        self.scheduler.fail(plan, error, later)
        if self._failures >= 2:
            raise EngineFailed(
                f"two forward passes in a row failed; the last with {type(error).__name__}: {error}"
            ) from error
