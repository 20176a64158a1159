"""An event loop in a thread of its own, for those who call from outside any loop."""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from typing import Any, TypeVar

from sglang_lite.errors import RuntimeUnavailable

T = TypeVar("T")
CLOSED = "this runtime was closed."
_END = object()
_here = threading.local()


def refuse_to_block() -> None:
    """Raise RuntimeError in the thread of a loop: waiting there keeps all programs waiting."""
    if getattr(_here, "inside", False):
        raise RuntimeError(
            "this would block the event loop in which programs run, and wait for ever: in an "
            "`async def` program await what waits (await s['x'], await s.text(), await p.arun())"
        )


class LoopThread:
    """Runs coroutines for threads that have no loop, until `close`."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self._posted: deque[Callable[[], object]] = deque()
        self._called = False  # the loop is going to look at what is posted
        self._process = os.getpid()
        self._thread = threading.Thread(target=self._live, name=name, daemon=True)
        self._thread.start()

    def _live(self) -> None:
        _here.inside = True
        self.loop.run_forever()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` there and wait for it here; interrupted here, it is cancelled there.

        Raises:
            RuntimeError: here is there, which would wait for itself.
        """
        try:
            refuse_to_block()
        except RuntimeError:
            work.close()
            raise
        future = self._start(work)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def post(self, act: Callable[[], object]) -> None:
        """Call `act` there soon; many calls that are posted meanwhile cost one waking.

        Raises:
            RuntimeUnavailable: the loop was closed, or stayed behind in the process that forked.
        """
        self._posted.append(act)
        if not self._called:  # two who find it False at once wake the loop twice: no harm
            self._check()
            self._called = True
            try:
                self.loop.call_soon_threadsafe(self._act)
            except RuntimeError:
                raise RuntimeUnavailable(CLOSED) from None

    def _act(self) -> None:
        while True:
            while self._posted:
                self._do(self._posted.popleft())
            self._called = False
            if not self._posted:  # looked at after that: whoever comes later wakes us
                return

    def _do(self, act: Callable[[], object]) -> None:
        try:
            act()
        except Exception as error:  # noqa: BLE001 - those who posted others must not suffer
            context = {"message": "an action in the loop failed", "exception": error}
            self.loop.call_exception_handler(context)

    def _check(self) -> None:
        if self._process != os.getpid():
            raise RuntimeUnavailable(
                "this process was forked from the one that this backend belongs to, and its "
                "threads stayed there; make a new backend here, or start the process with `spawn`."
            )
        if self.loop.is_closed():
            raise RuntimeUnavailable(CLOSED)

    async def await_here(self, work: Coroutine[Any, Any, T]) -> T:
        """Run `work` there and await it in the caller's loop."""
        return await asyncio.wrap_future(self._start(work))

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Iterate over what is produced there; leaving early closes it."""
        try:
            while (item := self.run(_next(items))) is not _END:
                yield item
        finally:
            self.run(_close(items))

    async def iterate_here(self, items: AsyncIterator[T]) -> AsyncIterator[T]:
        """The same, from the caller's loop."""
        try:
            while (item := await self.await_here(_next(items))) is not _END:
                yield item
        finally:
            await self.await_here(_close(items))

    def _start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        try:
            self._check()
        except RuntimeUnavailable:
            work.close()
            raise
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def close(self) -> None:
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self.loop.close()


_shared: LoopThread | None = None
_guard = threading.Lock()


def shared_loop() -> LoopThread:
    """The loop of this process in which programs run and clients live; made on first use."""
    global _shared
    with _guard:
        if _shared is None or _shared.loop.is_closed() or _shared._process != os.getpid():
            _shared = LoopThread("sglang-lite loop")
        return _shared


async def _next(items: AsyncIterator[T]) -> T | Any:
    return await anext(items, _END)


async def _close(items: AsyncIterator[Any]) -> None:
    if close := getattr(items, "aclose", None):
        await close()
