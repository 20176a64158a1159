"""A value that will be there once: set in one place, waited for in any thread or loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, TypeVar

from sglang_lite.loop import refuse_to_block

T = TypeVar("T")

_guard = threading.Lock()  # of every cell's callbacks: held for a few instructions
_here = threading.local()  # what a thread is to do before it waits


def when_waiting(act: Callable[[], Callable[[], None]] | None) -> None:
    """Call `act` whenever this thread is about to wait for a cell, and what it returns after."""
    _here.act = act


def block(wait: Callable[[], bool]) -> bool:
    """What `wait` returns, which may take long.

    Raises:
        RuntimeError: this is the thread of the loop in which programs run.
    """
    refuse_to_block()
    act: Callable[[], Callable[[], None]] | None = getattr(_here, "act", None)
    after = act() if act else None
    try:
        return wait()
    finally:
        if after:
            after()


class Cell(Generic[T]):
    """Lighter than a future: a program makes one for each variable."""

    __slots__ = ("_callbacks", "_error", "_trace", "_value", "done")

    def __init__(self) -> None:
        self.done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._trace: TracebackType | None = None
        self._callbacks: list[Callable[[], None]] | None = None

    @classmethod
    def of(cls, value: T) -> Cell[T]:
        cell = cls()
        cell._value, cell.done = value, True
        return cell

    def set(self, value: T) -> None:
        self._value = value
        self._settle()

    def fail(self, error: BaseException) -> None:
        self._error, self._trace = error, error.__traceback__
        self._settle()

    def then(self, callback: Callable[[], None]) -> None:
        """Call `callback` once the cell is set or has failed, in the thread that does it."""
        with _guard:
            if not self.done:
                self._callbacks = [*(self._callbacks or ()), callback]
                return
        callback()

    @property
    def error(self) -> BaseException | None:
        """Why there is no value; None as long as that is open, too."""
        return self._error

    def get(self, timeout: float | None = None) -> T:
        """Wait for the value.

        Raises:
            TimeoutError: it is not there after `timeout` seconds; it may still come.
            BaseException: what the cell failed with.
        """
        if not self.done:
            self._wait(timeout)
        if self._error is not None:  # as it was: a traceback would grow with each reader
            raise self._error.with_traceback(self._trace)
        return self._value  # type: ignore[return-value]

    def wait(self, timeout: float | None = None) -> None:
        """Wait until there is a value or an error."""
        if not self.done:
            self._wait(timeout)

    def __await__(self) -> Generator[Any, None, T]:
        if not self.done:
            loop = asyncio.get_running_loop()
            woken: asyncio.Future[None] = loop.create_future()

            def tell() -> None:
                if not woken.done():  # nobody waits any more: the waiting was cancelled
                    woken.set_result(None)

            def wake() -> None:
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(tell)

            self.then(wake)
            yield from woken
        return self.get()

    def _wait(self, timeout: float | None) -> None:
        lock = threading.Lock()
        lock.acquire()
        self.then(lock.release)
        if not block(lambda: lock.acquire(timeout=-1 if timeout is None else _within(timeout))):
            raise TimeoutError(f"not there after {timeout:g} s; it may still come.")

    def _settle(self) -> None:
        with _guard:
            self.done = True
            callbacks, self._callbacks = self._callbacks, None
        for callback in callbacks or ():
            callback()


def _within(seconds: float) -> float:
    """What a lock takes: nothing below 0, and not more than the clock holds."""
    return min(max(seconds, 0.0), threading.TIMEOUT_MAX)
