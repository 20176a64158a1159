"""What one step has to tell each client, as parallel columns."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from sglang_lite.runtime.scheduling.request import Key
from sglang_lite.wire import Finish, TopLogprobs


@dataclass(slots=True)
class Output:
    """The columns of a `wire.Step` for one client, and the failures beside it."""

    ids: list[int] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)  # one per token, or none at all
    top: dict[int, TopLogprobs] = field(default_factory=dict)
    scores: dict[int, list[float]] = field(default_factory=dict)
    score_top: dict[int, list[TopLogprobs]] = field(default_factory=dict)
    finishes: dict[int, Finish] = field(default_factory=dict)
    # (id, status, reason, the field at fault)
    failures: list[tuple[int, int, str, str | None]] = field(default_factory=list)


class Outbox:
    """Collects words for clients until the step's end. A request's last word comes once."""

    def __init__(self) -> None:
        self._of: dict[bytes, Output] = {}

    def token(
        self, key: Key, token: int, logprob: float | None, top: TopLogprobs | None = None
    ) -> None:
        out = self._for(key)
        if logprob is not None and not out.logprobs:
            out.logprobs = [math.nan] * len(out.tokens)
        if top is not None:
            out.top[len(out.tokens)] = top
        if out.ids and out.ids[-1] == key[1]:
            out.counts[-1] += 1
        else:
            out.ids.append(key[1])
            out.counts.append(1)
        out.tokens.append(token)
        if out.logprobs or logprob is not None:
            out.logprobs.append(math.nan if logprob is None else logprob)

    def scores(self, key: Key, scores: Iterable[float], top: list[TopLogprobs]) -> None:
        out = self._for(key)
        out.scores.setdefault(key[1], []).extend(scores)
        if top:
            out.score_top.setdefault(key[1], []).extend(top)

    def finish(self, key: Key, finish: Finish) -> None:
        self._for(key).finishes[key[1]] = finish

    def fail(self, key: Key, status: int, reason: str, param: str | None = None) -> None:
        self._for(key).failures.append((key[1], status, reason, param))

    def forget(self, client: bytes) -> None:
        self._of.pop(client, None)

    def take(self) -> dict[bytes, Output]:
        out, self._of = self._of, {}
        return out

    def __bool__(self) -> bool:
        return bool(self._of)

    def _for(self, key: Key) -> Output:
        return self._of.setdefault(key[0], Output())
