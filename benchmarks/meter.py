"""Runs programs on an engine in this process, and counts what is sent and what is computed.

Nothing is taken on trust: prompts are noted where they leave the client, the runner counts the
positions it computes, and the optimum comes from a trie of the texts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import sglang_lite as sgl
from sglang_lite.runtime.stream import Stream

Work = Callable[[Any], Sequence[Any]]  # from a backend to the states of the programs it ran


@dataclass(frozen=True)
class Sent:
    """A request as it left the client."""

    prompt: list[int]
    stream: Stream

    @property
    def written(self) -> list[int]:
        """What was generated, as far as its KV was written: without the last token."""
        return self.stream.text.ids[:-1]


@dataclass(frozen=True)
class Reading:
    programs: int
    seconds: float
    prompt_tokens: int
    computed: int  # tokens of prompts, by the runner's count
    optimum: int  # what a tree that forgets nothing computes of them
    reported: int  # the scheduler's count of them
    duplicates: int  # tokens computed though the tree held them

    @property
    def rate(self) -> float:
        """Programs a second."""
        return self.programs / self.seconds

    @property
    def achieved(self) -> float:
        """The hit rate."""
        return 1 - self.computed / self.prompt_tokens

    @property
    def optimal(self) -> float:
        """The hit rate that a tree without limits has."""
        return 1 - self.optimum / self.prompt_tokens

    @property
    def ratio(self) -> float:
        return self.achieved / self.optimal if self.optimal else 1.0


class Meter:
    """An engine with its options, and readings of what runs on it."""

    def __init__(self, model: str = "smollm2", **options: Any) -> None:
        self.engine = sgl.Engine(model, **options)
        self.backend = self.engine.as_language_backend()
        self._sent: list[Sent] = []
        self._submit = self.engine.client.submit
        self.engine.client.submit = self._note  # type: ignore[method-assign]

    def read(self, work: Work) -> Reading:
        """Run `work` on an empty cache.

        Raises:
            ProgramError: a program failed.
        """
        assert self.engine.flush_cache(), "requests are still running"
        self._sent = []
        before, counted = self._stats(), self._counted
        begin = time.perf_counter()
        states = work(self.backend)
        for state in states:
            if error := state.error():
                raise error
        seconds = time.perf_counter() - begin
        after, sent = self._stats(), self._sent
        decoded = sum(len(each.written) for each in sent)
        return Reading(
            programs=len(states),
            seconds=seconds,
            prompt_tokens=sum(len(each.prompt) for each in sent),
            computed=self._counted - counted - decoded,
            optimum=fewest((each.prompt, each.written) for each in sent),
            reported=after["computed_prompt_tokens"] - before["computed_prompt_tokens"],
            duplicates=after["duplicate_prefill_tokens"] - before["duplicate_prefill_tokens"],
        )

    def __enter__(self) -> Meter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.engine.shutdown()

    @property
    def _counted(self) -> int:
        count: int = self.engine._built.runner.computed_tokens  # type: ignore[attr-defined]
        return count

    def _stats(self) -> dict[str, Any]:
        return self.engine.get_server_info()

    def _note(self, tokens: Sequence[int], *arguments: Any, **options: Any) -> Stream:
        stream = self._submit(tokens, *arguments, **options)
        self._sent.append(Sent(list(tokens), stream))
        return stream


def fewest(texts: Iterable[tuple[Sequence[int], Sequence[int]]]) -> int:
    """The least that must be computed of the prompts in (prompt, generated) texts: the nodes of a
    trie that lie in some prompt, and that no generation wrote."""
    trie: dict[int, Any] = {}
    asked, written = set[int](), set[int]()  # ids of nodes; all of them live as long as the trie
    for prompt, generated in texts:
        node = trie
        for places, tokens in ((asked, prompt), (written, generated)):
            for token in tokens:
                node = node.setdefault(token, {})
                places.add(id(node))
    return len(asked - written)
