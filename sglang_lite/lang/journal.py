"""The text of a branch as it grows, for any number of readers, each from the beginning."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, NamedTuple


class Entry(NamedTuple):
    variable: str | None  # that the text belongs to; None: a literal
    text: str
    meta: dict[str, Any]


class Journal:
    """Written from one loop, read from any thread or loop."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._closed = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()
        self._wake: set[Callable[[], None]] = set()

    def add(self, variable: str | None, text: str, meta: dict[str, Any]) -> None:
        with self._changed:
            self._entries.append(Entry(variable, text, meta))
            self._announce()

    def close(self, error: BaseException | None = None) -> None:
        """No more will come; `error` is raised to those who read to the end."""
        with self._changed:
            if not self._closed:
                self._closed, self._error = True, error
                self._announce()

    def __iter__(self) -> Iterator[Entry]:
        at = 0
        while True:
            with self._changed:
                while not self._closed and len(self._entries) <= at:
                    self._changed.wait()
                news = self._entries[at:]
            if not news:
                return self._end()
            yield from news
            at += len(news)

    async def __aiter__(self) -> AsyncIterator[Entry]:
        loop, event, at = asyncio.get_running_loop(), asyncio.Event(), 0

        def wake() -> None:
            loop.call_soon_threadsafe(event.set)

        with self._changed:
            self._wake.add(wake)
        try:
            while True:
                event.clear()
                with self._changed:
                    news, closed = self._entries[at:], self._closed
                for entry in news:
                    yield entry
                at += len(news)
                if not news:
                    if closed:
                        self._end()
                        return
                    await event.wait()
        finally:
            with self._changed:
                self._wake.discard(wake)

    def _end(self) -> None:
        if self._error is not None:
            raise self._error

    def _announce(self) -> None:
        self._changed.notify_all()
        for wake in self._wake:
            wake()
