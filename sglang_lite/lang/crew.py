"""Threads in which the bodies of a batch run: few, and more only while those there are wait."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator

from sglang_lite.lang.cells import when_waiting

MOST_THREADS = 2048


class Crew:
    """Runs jobs in order, each in one thread, `wanted` of them at a time.

    A thread that waits for a cell does not count, so that a body that reads its variables keeps
    no other from starting; `push` starts the crew, and makes way when bodies are kept by something
    else.

    Args:
        jobs: called by the threads, one at a time; the end of it is the end of the crew.
        room: most jobs that are begun and not `leave`n.
    """

    def __init__(self, jobs: Iterator[Callable[[], None]], room: int) -> None:
        self._jobs, self._room = jobs, room
        self._enough = room - max(1, room // 4)  # inside at most, before others are let in
        self._changed = threading.Condition()
        self._threads = self._awake = 0
        self._left: deque[None] = deque()  # one for each job that has ended
        self._hungry = False  # a thread waits for room
        self._wanted = 0
        self._over = self._resting = False
        self.begun = 0  # jobs, so far

    def leave(self) -> None:
        """What one of the jobs started has ended.

        Nothing is locked, and nobody woken, until there is room for several: a lock that is
        fought over once for each job costs more than most jobs do.
        """
        self._left.append(None)
        if self._hungry and self._inside <= self._enough:
            with self._changed:
                self._hungry = False
                self._changed.notify_all()

    @property
    def _inside(self) -> int:
        return self.begun - len(self._left)

    def push(self) -> None:
        """Jobs are begun too slowly: let one more thread be awake."""
        with self._changed:
            if not self._over and self._inside < self._room:
                self._wanted += 1
        self._call()

    def stop(self) -> None:
        """Begin no more jobs."""
        with self._changed:
            self._over = True
            self._changed.notify_all()

    @property
    def over(self) -> bool:
        return self._over

    def _call(self) -> None:
        """Start a thread, unless enough are awake."""
        with self._changed:
            if self._over or self._awake >= self._wanted or self._threads >= MOST_THREADS:
                return
            self._threads += 1
            self._awake += 1
        thread = threading.Thread(target=self._work, name="sglang-lite batch", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has no more: those there are go on alone
            with self._changed:
                self._threads -= 1
                self._awake -= 1

    def _work(self) -> None:
        when_waiting(self._asleep)
        while job := self._next():
            job()
        with self._changed:
            self._threads -= 1
            self._awake -= 1

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            while not self._over and self._awake <= self._wanted:
                if self._inside < self._room:
                    job = next(self._jobs, None)
                    if job is None:
                        self._over = True
                        self._changed.notify_all()
                        break
                    self.begun += 1
                    return job
                self._hungry = True
                if self._inside > self._enough:
                    self._changed.wait()
            return None

    def _asleep(self) -> Callable[[], None]:
        with self._changed:
            self._awake -= 1
        self._call()
        return self._woken

    def _woken(self) -> None:
        with self._changed:
            self._awake += 1
