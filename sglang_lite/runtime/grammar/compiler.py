"""Compiled grammars by constraint: each is compiled once, beside the steps and never within one.

A constraint is asked for and gives a ticket at once. Threads of their own hand it to a compiling
process, each to its own, and settle the ticket. One of them has little patience: what takes longer
starts again with the other, so that slow grammars make only each other wait. Grammars are kept, the
least recently used ones given up when they take too much memory; a refusal is kept for a minute,
and what took too long or too much memory is not kept at all.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from sglang_lite.errors import (
    EngineFailed,
    InvalidGrammar,
    Overloaded,
    RuntimeUnavailable,
    SglangLiteError,
    UnsupportedGrammar,
)
from sglang_lite.params import Constraint
from sglang_lite.runtime.grammar import jobs
from sglang_lite.runtime.grammar.automaton import AutomatonGrammar
from sglang_lite.runtime.grammar.bell import Bell
from sglang_lite.runtime.grammar.options import GrammarOptions
from sglang_lite.runtime.grammar.process import CompilingProcess
from sglang_lite.runtime.grammar.protocol import CompiledGrammar, Ticket
from sglang_lite.runtime.grammar.refusal import Refusal
from sglang_lite.runtime.grammar.table import TokenTable

if TYPE_CHECKING:
    from sglang_lite.runtime.grammar.guidance import GuidanceEngine

PATIENCE = 1.0  # seconds that a grammar may take before it counts as slow
REMEMBER = 60.0  # seconds for which a refusal holds without being looked into again
MAX_REFUSALS = 1_024
TIDY_EVERY = 1.0  # seconds: the masks of grammars in use grow


@dataclass(slots=True, eq=False)
class _Entry(Ticket):
    constraint: Constraint
    until: float = float("inf")  # when a refusal is forgotten


@dataclass(slots=True)
class _Counters:
    compiled: int = 0
    refused: int = 0
    reused: int = 0


class Grammars:
    """The grammars of one vocabulary. `close` it: it has processes and threads."""

    def __init__(
        self, table: TokenTable, options: GrammarOptions | None = None, *, warm: bool = True
    ) -> None:
        self.table, self.options = table, options or GrammarOptions()
        self.counters = _Counters()
        self._entries: OrderedDict[Constraint, _Entry] = OrderedDict()
        self._quick: queue.Queue[_Entry | None] = queue.Queue()
        self._slow: queue.Queue[_Entry | None] = queue.Queue()
        self._waiting = 0
        self._lock = threading.Lock()
        self._guidance_lock = threading.Lock()
        self._guidance: GuidanceEngine | None = None
        self._closed = False
        self._tidied = time.monotonic()
        self._bell = Bell()
        limits = self.options.seconds, self.options.megabytes
        self._processes = [CompilingProcess(*limits) for _ in range(2)]
        self._threads = [
            threading.Thread(target=self._work_quickly, args=(self._processes[0], warm)),
            threading.Thread(target=self._work_slowly, args=(self._processes[1],)),
        ]
        for thread in self._threads:
            thread.daemon = True
            thread.start()

    def request(self, constraint: Constraint) -> Ticket:
        """A ticket for the grammar of `constraint`, settled already if it is known.

        Whoever waits for it no longer says so with `leave`.

        Raises:
            Overloaded: too many others wait to be compiled.
            RuntimeUnavailable: it was closed.
        """
        key = self._decided(constraint)
        with self._lock:
            if self._closed:
                raise RuntimeUnavailable("the runtime is stopping.")
            entry = self._entries.get(key)
            if entry is not None and entry.until > time.monotonic():
                self._entries.move_to_end(key)
                self.counters.reused += entry.grammar is not None
                entry.waiting += 1
                if time.monotonic() > self._tidied + TIDY_EVERY:
                    self._give_up()
                return entry
            if self._waiting >= self.options.queue:
                raise Overloaded(
                    f"{self._waiting} grammars wait to be compiled and at most "
                    f"{self.options.queue} may (--grammar-queue); try again later."
                )
            entry = self._entries[key] = _Entry(key, waiting=1)
            self._entries.move_to_end(key)
            self._waiting += 1
        self._quick.put(entry)
        return entry

    def leave(self, ticket: Ticket) -> None:
        """One less waits for `ticket`; what nobody waits for is not compiled."""
        with self._lock:
            ticket.waiting -= 1

    def fileno(self) -> int:
        """Readable once a ticket has been settled; `drain` it before looking."""
        return self._bell.fileno()

    def drain(self) -> None:
        self._bell.drain()

    def stats(self) -> dict[str, float | int | str | bool]:
        with self._lock:
            held = [entry.grammar for entry in self._entries.values() if entry.grammar]
            waiting = self._waiting
        return {
            "grammars": len(held),
            "grammar_bytes": sum(each.nbytes for each in held),
            "grammars_compiling": waiting,
            "grammars_compiled": self.counters.compiled,
            "grammars_refused": self.counters.refused,
            "grammars_reused": self.counters.reused,
        }

    def close(self) -> None:
        """End the processes and the threads; a second call does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        for process in self._processes:
            process.close()
        self._quick.put(None)
        self._slow.put(None)
        for thread in self._threads:
            thread.join(5.0)
        self._bell.close()

    # -------------------------------------------------------------- threads of work

    def _work_quickly(self, process: CompilingProcess, warm: bool) -> None:
        if warm:
            with contextlib.suppress(Exception):  # what fails now is told to who needs it later
                process.start()
                _ = self.table.levels
                self._engine()
        while entry := self._quick.get():
            if not self._dropped(entry) and not self._try(entry, process, PATIENCE):
                self._slow.put(entry)
        process.stop()

    def _work_slowly(self, process: CompilingProcess) -> None:
        while entry := self._slow.get():
            if not self._dropped(entry):
                self._try(entry, process, None)
        process.stop()

    def _dropped(self, entry: _Entry) -> bool:
        """Whether nobody waits for `entry`, which is forgotten then."""
        with self._lock:
            if entry.waiting:
                return False
            self._waiting -= 1
            del self._entries[entry.constraint]
            return True

    def _try(self, entry: _Entry, process: CompilingProcess, patience: float | None) -> bool:
        """Compile and settle; False, and nothing is settled, if patience did not suffice."""
        try:
            grammar = self._compile(entry.constraint, process, patience)
        except SglangLiteError as refusal:
            self._settle(entry, None, refusal)
        except Exception as broken:  # noqa: BLE001 - its requests must hear of it, whatever it is
            reason = f"compiling failed with {type(broken).__name__}: {broken}"
            self._settle(entry, None, EngineFailed(reason))
        else:
            if grammar is None:
                return False
            self._settle(entry, grammar, None)
        return True

    def _settle(
        self, entry: _Entry, grammar: CompiledGrammar | None, error: SglangLiteError | None
    ) -> None:
        with self._lock:
            self._waiting -= 1
            if error is not None:
                self.counters.refused += 1
                lasting = isinstance(error, (InvalidGrammar, UnsupportedGrammar))
                entry.until = time.monotonic() + REMEMBER if lasting else 0.0
                if not lasting and self._entries.get(entry.constraint) is entry:
                    del self._entries[entry.constraint]
            else:
                self.counters.compiled += 1
            entry.grammar, entry.error = grammar, error
            self._give_up()
            if not self._closed:
                self._bell.ring()

    def _compile(
        self, constraint: Constraint, process: CompilingProcess, patience: float | None
    ) -> CompiledGrammar | None:
        table, limits = self.table, self.options.limits
        job = jobs.Job(constraint, limits, table.longest, table.missing_bytes)
        result = process.compile(job, patience)
        if result is None:
            return None
        if isinstance(result, jobs.Refused):
            raise result.error()
        if isinstance(result, jobs.Broke):
            raise EngineFailed(result.reason)
        if result.automaton is None:
            return self._guided(constraint, result)
        grammar = AutomatonGrammar(result.automaton, self.table, result.notes, result.engine)
        grammar.mask(grammar.start)
        return grammar

    def _guided(self, constraint: Constraint, result: jobs.Made) -> CompiledGrammar:
        try:
            return self._engine().compile(result.source, result.notes)
        except Refusal as refusal:  # over bytes it passed
            raise UnsupportedGrammar(
                f"this {constraint.kind} cannot be held with this vocabulary: {refusal}",
                param=constraint.kind,
            ) from None

    def _engine(self) -> GuidanceEngine:
        with self._guidance_lock:
            if self._guidance is None:
                from sglang_lite.runtime.grammar.guidance import GuidanceEngine

                self._guidance = GuidanceEngine(self.table)
            return self._guidance

    # -------------------------------------------------------------- the cache

    def _decided(self, constraint: Constraint) -> Constraint:
        """`constraint` with nothing left to default."""
        options, given = self.options, constraint
        return msgspec.structs.replace(
            constraint,
            engine=options.engine if given.engine == "default" else given.engine,
            whitespace=options.whitespace if given.whitespace == "default" else given.whitespace,
        )

    def _give_up(self) -> None:
        """Forget the least recently used until the rest fits."""
        self._tidied = time.monotonic()
        room, refusals = self.options.cache_bytes, MAX_REFUSALS
        for key in reversed(list(self._entries)):
            entry = self._entries[key]
            if entry.grammar is not None:
                room -= entry.grammar.nbytes
            elif entry.error is not None:
                refusals -= 1
            if entry.done and (room < 0 or refusals < 0):
                del self._entries[key]
