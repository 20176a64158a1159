"""The text of a branch as it grows, for any number of readers, each from the beginning."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from sglang_lite.lang.cells import block


class Entry(msgspec.Struct, frozen=True, gc=False):
    variable: str | None  # that the text belongs to; None: a literal
    text: str
    meta: dict[str, Any]


class Journal:
    """Written by one thread at a time, read from any thread or loop.

    A reader says how to wake it before it looks whether there is more, and a writer looks whom to
    wake after it wrote: so nothing is missed, and without readers nothing is locked.
    """

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self.closed = False
        self._error: BaseException | None = None
        self._wake: list[Callable[[], None]] = []

    def add(self, variable: str | None, text: str, meta: dict[str, Any]) -> None:
        self._entries.append(Entry(variable, text, meta))
        self.announce()

    def close(self, error: BaseException | None = None) -> None:
        """No more will come; `error` is raised to those who read to the end."""
        if not self.closed:
            self._error, self.closed = error, True
            self.announce()

    def read(self, over: Callable[[], bool]) -> Iterator[Entry]:
        """The entries; they end when `over`, which is asked after each, and nothing is left."""
        changed, at = threading.Event(), 0
        self._wake.append(changed.set)
        try:
            while True:
                changed.clear()
                closed, news = over(), self._entries[at:]
                yield from news
                at += len(news)
                if not news:
                    if closed:
                        self._end()
                        return
                    block(changed.wait)
        finally:
            self._wake.remove(changed.set)

    async def read_async(self, over: Callable[[], bool]) -> AsyncIterator[Entry]:
        """The same in an event loop."""
        loop, changed, at = asyncio.get_running_loop(), asyncio.Event(), 0

        def wake() -> None:
            with suppress(RuntimeError):  # the reader's loop is closed
                loop.call_soon_threadsafe(changed.set)

        self._wake.append(wake)
        try:
            while True:
                changed.clear()
                closed, news = over(), self._entries[at:]
                for entry in news:
                    yield entry
                at += len(news)
                if not news:
                    if closed:
                        self._end()
                        return
                    await changed.wait()
        finally:
            self._wake.remove(wake)

    def _end(self) -> None:
        if self._error is not None:
            raise self._error

    def announce(self) -> None:
        """Have readers look whether there is more, or whether it is over."""
        for wake in tuple(self._wake):
            wake()
