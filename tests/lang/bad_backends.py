"""Backends that keep their protocol badly, or not at all."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

from sglang_lite.lang.backends.protocol import Ask, Part
from sglang_lite.lang.choices import Scores
from sglang_lite.lang.prompt import Generated
from sglang_lite.testing import ScriptedBackend

ANSWER = Part("ok", (Generated("ok"),))
Answers = Callable[[Ask], AsyncIterator[Part]]


class Bad(ScriptedBackend):
    """Its gens are answered by `answers`, which is called once somebody lets it; so is `score`."""

    def __init__(self, answers: Answers) -> None:
        super().__init__()
        self.answers = answers
        self.go = threading.Event()
        self.ended: list[str] = []  # how calls ended, one word each

    async def generate(self, ask: Ask) -> AsyncIterator[Part]:
        try:
            while not self.go.is_set():
                await asyncio.sleep(0.005)
            self.prompts.append(ask.prompt.text)
            async for part in self.answers(ask):
                yield part
        except BaseException as error:
            self.ended.append(type(error).__name__)
            raise
        self.ended.append("well")

    async def score(self, *arguments: Any, **named: Any) -> Scores:
        async for _ in self.generate(Ask(arguments[0], None)):  # type: ignore[arg-type]
            pass
        return Scores([[-1.0], [-2.0]])


def free(answers: Answers) -> Bad:
    """One that waits for nobody's leave."""
    backend = Bad(answers)
    backend.go.set()
    return backend


# -------------------------------------------------------------- answers


async def raises(ask: Ask) -> AsyncIterator[Part]:
    raise ValueError("broke")
    yield ANSWER


async def raises_half_way(ask: Ask) -> AsyncIterator[Part]:
    yield Part("o")
    raise ValueError("broke")


async def raises_after_the_samples(ask: Ask) -> AsyncIterator[Part]:
    yield ANSWER
    raise ValueError("broke")


async def says_nothing(ask: Ask) -> AsyncIterator[Part]:
    return
    yield ANSWER


async def gives_no_samples(ask: Ask) -> AsyncIterator[Part]:
    yield Part("o")


async def gives_rubbish(ask: Ask) -> AsyncIterator[Any]:
    yield 5


def gives_no_iterator(ask: Ask) -> Any:
    return None


async def exits(ask: Ask) -> AsyncIterator[Part]:
    raise SystemExit("broke")
    yield ANSWER


async def interrupts(ask: Ask) -> AsyncIterator[Part]:
    raise KeyboardInterrupt("broke")
    yield ANSWER


async def was_cancelled_inside(ask: Ask) -> AsyncIterator[Part]:
    raise asyncio.CancelledError("broke")
    yield ANSWER


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no words for it")


async def raises_what_cannot_be_printed(ask: Ask) -> AsyncIterator[Part]:
    raise Unprintable
    yield ANSWER


async def never(ask: Ask) -> AsyncIterator[Part]:
    await asyncio.sleep(3600)
    yield ANSWER


async def never_ends(ask: Ask) -> AsyncIterator[Part]:
    yield ANSWER
    await asyncio.sleep(3600)


async def never_closes(ask: Ask) -> AsyncIterator[Part]:
    try:
        yield Part("o")
        await asyncio.sleep(3600)
    finally:
        await asyncio.sleep(3600)


async def cannot_be_cancelled(ask: Ask) -> AsyncIterator[Part]:
    for _ in range(60):
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.1)
        yield Part("o")
    yield ANSWER
