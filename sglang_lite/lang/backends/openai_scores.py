"""`select` on completions that echo the prompt with its logprobs.

All texts go in one request. Where an option's tokens begin is where its text's tokens stop being
those of the prompt alone, so that a token over the boundary counts to the option.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sglang_lite.errors import Unsupported
from sglang_lite.lang.backends.encoder import common
from sglang_lite.lang.choices import Scores

BATCH = 64  # texts in one request


@dataclass(frozen=True)
class Echo:
    """The tokens of a text, and their logprobs; the first one's is None."""

    tokens: Sequence[str]
    logprobs: Sequence[float | None]

    @classmethod
    def read(cls, who: str, answer: Any, count: int) -> list[Echo]:
        """The echoes in a completion's answer.

        Raises:
            Unsupported: the server did not echo.
        """
        try:
            ordered = sorted(answer["choices"], key=lambda choice: choice["index"])
            logprobs = [choice["logprobs"] for choice in ordered]
            echoes = [cls(each["tokens"], each["token_logprobs"]) for each in logprobs]
        except (KeyError, TypeError) as error:
            raise _silent(who) from error
        if len(echoes) != count or not all(echo.tokens for echo in echoes):
            raise _silent(who)
        return echoes

    def since(self, start: int) -> list[float]:
        """Logprobs of the tokens from `start` on; nothing is known before the first one."""
        return [0.0 if each is None else each for each in self.logprobs[start:]]


Ask = Callable[[Sequence[str]], Awaitable[tuple[list[Echo], dict[str, int]]]]


async def scores_of(ask: Ask, prompt: str, choices: Sequence[str], unconditional: bool) -> Scores:
    texts = [prompt] * bool(prompt) + [prompt + choice for choice in choices]
    echoes, usage = await _all(ask, texts)
    base: Sequence[str] = echoes.pop(0).tokens if prompt else ()
    starts = [common(base, echo.tokens) for echo in echoes]
    rows = [echo.since(start) for echo, start in zip(echoes, starts, strict=True)]
    without: list[list[float]] = []
    if unconditional:
        parts = [echo.tokens[start:] for echo, start in zip(echoes, starts, strict=True)]
        for echo, tokens in zip((await _all(ask, choices))[0], parts, strict=True):
            at = len(echo.tokens) - len(tokens)
            if at < 0 or list(echo.tokens[at:]) != list(tokens):
                return Scores(rows, None, usage)  # alone the option has other tokens
            without.append(echo.since(at))
    return Scores(rows, without or None, usage)


async def _all(ask: Ask, texts: Sequence[str]) -> tuple[list[Echo], dict[str, int]]:
    echoes: list[Echo] = []
    total: dict[str, int] = {}
    for at in range(0, len(texts), BATCH):
        found, usage = await ask(texts[at : at + BATCH])
        echoes += found
        total = {kind: total.get(kind, 0) + count for kind, count in usage.items()}
    return echoes, total


def _silent(who: str) -> Unsupported:
    return Unsupported(
        f"select: {who} does not echo a prompt's logprobs. Use gen(regex='(this|that)') where it "
        "holds constraints, or a server that echoes (sglang_lite, vLLM, SGLang).",
        param="choices",
    )
