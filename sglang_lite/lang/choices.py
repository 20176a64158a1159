"""How `select` decides, from the logprobs of each option's tokens.

The three methods and their meta data are those of SGLang; means are over exactly the option's own
tokens, never over the prompt's last one as well.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol


@dataclass(frozen=True)
class Scores:
    """Logprobs of each option's tokens, in the order of the options."""

    tokens: list[list[float]]
    unconditional: list[list[float]] | None = None  # the same without the prompt
    usage: dict[str, int] = field(default_factory=dict)
    ids: list[list[int]] | None = None  # the tokens; None: the backend does not tell


@dataclass(frozen=True)
class Decision:
    index: int
    meta: dict[str, Any]


class ChoicesMethod(Protocol):
    @property
    def needs_unconditional(self) -> bool: ...

    def __call__(self, scores: Scores) -> Decision: ...


@dataclass(frozen=True)
class TokenLengthNormalized:
    """The highest mean logprob; of equals, the first."""

    needs_unconditional: bool = False

    def __call__(self, scores: Scores) -> Decision:
        meta = _meta(scores)
        return Decision(_best(meta["normalized_prompt_logprobs"]), meta)


@dataclass(frozen=True)
class GreedyTokenSelection:
    """Token by token, the likeliest; an option that has ended goes on with its own mean."""

    needs_unconditional: bool = False

    def __call__(self, scores: Scores) -> Decision:
        width = max(map(len, scores.tokens))
        matrix = [row + [_mean(row)] * (width - len(row)) for row in scores.tokens]
        left = list(range(len(matrix)))
        for column in range(width):
            top = max(matrix[row][column] for row in left)
            left = [row for row in left if matrix[row][column] == top]
            if len(left) == 1:
                break
        return Decision(left[0], {**_meta(scores), "greedy_logprob_matrix": matrix})


@dataclass(frozen=True)
class UnconditionalLikelihoodNormalized:
    """The highest mean of logprob with the prompt minus logprob without it."""

    needs_unconditional: bool = True

    def __call__(self, scores: Scores) -> Decision:
        if scores.unconditional is None:
            raise ValueError("this method needs the options' logprobs without the prompt")
        pairs = zip(scores.tokens, scores.unconditional, strict=True)
        gains = [_mean([a - b for a, b in zip(*pair, strict=True)]) for pair in pairs]
        meta = {
            **_meta(scores),
            "normalized_unconditional_prompt_logprobs": gains,
            "unconditional_token_logprobs": _triples(scores.unconditional, scores.ids),
        }
        return Decision(_best(gains), meta)


token_length_normalized = TokenLengthNormalized()
greedy_token_selection = GreedyTokenSelection()
unconditional_likelihood_normalized = UnconditionalLikelihoodNormalized()


METHODS: dict[str, ChoicesMethod] = {
    "token_length_normalized": token_length_normalized,
    "greedy_token_selection": greedy_token_selection,
    "unconditional_likelihood_normalized": unconditional_likelihood_normalized,
}


def decide(
    scores: Scores, method: ChoicesMethod, temperature: float = 0.0, seed: int | None = None
) -> Decision:
    """Choose by `method`, or at a `temperature` above 0 at random by likelihood.

    The meta data are those of every method that the scores allow, `chosen` (method -> index) and
    `probs`: softmax of the options' summed logprobs, the model's own odds among these texts.
    """
    meta: dict[str, Any] = {}
    chosen = {}
    for name, each in METHODS.items():
        if scores.unconditional is not None or not each.needs_unconditional:
            made = each(scores)
            meta |= made.meta
            chosen[name] = made.index
    probs = _softmax([sum(row) for row in scores.tokens])
    if temperature > 0:
        weights = _softmax([sum(row) / temperature for row in scores.tokens])
        index = Random(seed).choices(range(len(weights)), weights)[0]
    else:
        made = method(scores)
        meta |= made.meta
        index = made.index
    return Decision(index, {**meta, "chosen": chosen, "probs": probs})


def _softmax(values: Sequence[float]) -> list[float]:
    top = max(values)
    powers = [math.exp(value - top) for value in values]
    return [power / sum(powers) for power in powers]


def _meta(scores: Scores) -> dict[str, Any]:
    return {
        "normalized_prompt_logprobs": [_mean(row) for row in scores.tokens],
        "input_token_logprobs": _triples(scores.tokens, scores.ids),
        "output_token_logprobs": [[] for _ in scores.tokens],
        **scores.usage,
    }


def _triples(
    rows: list[list[float]], ids: list[list[int]] | None
) -> list[list[tuple[float, int | None, None]]]:
    """SGLang's (logprob, id, text). A text's very first token may have no logprob."""
    named: Sequence[Sequence[int | None]] = ids or [[None] * len(row) for row in rows]
    return [
        [(logprob, id, None) for logprob, id in zip(row, those[-len(row) :], strict=True)]
        for row, those in zip(rows, named, strict=True)
    ]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else float("-inf")


def _best(values: Sequence[float]) -> int:
    return max(range(len(values)), key=values.__getitem__)
