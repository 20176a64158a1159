"""A program's state in an `async def` body: what waits in a `ProgramState` is awaited here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sglang_lite.lang.cells import Cell
from sglang_lite.lang.state import State, conversation
from sglang_lite.lang.tools import MOST_STEPS, Read, run_awaited


class AsyncState(State):
    """`await s["x"]`, `await s.text()`; appending, forking and joining wait for nobody."""

    async def text(self) -> str:
        """The whole text so far. Raises ProgramError if something on the way failed."""
        return (await self._branch.moment()).prompt.text

    async def messages(self) -> list[dict[str, Any]]:
        """The conversation so far."""
        return conversation(await self._branch.moment())

    def __getitem__(self, name: str) -> Cell[Any]:
        """Something to await for the value of a variable.

        Raises:
            KeyError: no expression so far sets it.
            ProgramError: when awaited: it could not be set; the cause is the backend's error.
        """
        return self._cell(name)

    async def get_var(self, name: str) -> Any:
        return await self._cell(name)

    async def value(self, name: str) -> Any:
        """What a variable says, of the type that its `gen` was given."""
        return self._value(name, await self._cell(name))

    async def tool_loop(
        self,
        tools: Sequence[Any],
        name: str = "answer",
        *,
        max_steps: int = MOST_STEPS,
        **sampling: Any,
    ) -> str:
        """See `ProgramState.tool_loop`; tools that are no coroutine functions run in threads."""
        steps = self._tools(tools, name, max_steps, sampling)
        reply: Any = None
        while True:
            try:
                wanted = steps.send(reply)
            except StopIteration as end:
                self[name] = end.value
                return str(end.value)
            if isinstance(wanted, Read):
                reply = await self.value(wanted.name)
            else:
                reply = await run_awaited(wanted.call)

    async def get_meta_info(self, name: str) -> Any:
        """What is known of how a variable came about: tokens, logprobs, why it ended."""
        await self._cell(name)
        return self._branch.meta.get(name)

    async def error(self) -> BaseException | None:
        """Wait for the end of what was appended; return what went wrong, if anything did."""
        await self.sync()
        return self._branch.error

    async def sync(self) -> None:
        """Wait until all that was appended so far has run, well or not."""
        moment = self._branch.moment()
        try:
            await moment
        except Exception:
            if moment.error is None:
                raise
