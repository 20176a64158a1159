"""What a request may ask of this runtime: from `Submit` to `Request`, or a refusal with numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sglang_lite.errors import InvalidRequest
from sglang_lite.params import Hint
from sglang_lite.runtime.scheduling.batch import Int
from sglang_lite.runtime.scheduling.finish import StopStrings
from sglang_lite.runtime.scheduling.request import Key, Request
from sglang_lite.wire import Submit, unpack

NO_HINT = Hint()


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    vocab_size: int
    context_length: int  # most tokens of a prompt and its output; the KV pool holds them
    max_queued_requests: int
    eos_token_ids: frozenset[int]


def accept(key: Key, message: Submit, limits: Limits, arrival: int) -> Request:
    """The request that `message` asks for.

    Raises:
        InvalidRequest: a field is out of its range; the message names it, its value and range.
    """
    tokens, params = unpack(message.tokens), message.params
    _check_prompt(tokens, params.max_tokens, limits)
    _below("stop_token_ids", params.stop_token_ids, limits.vocab_size)
    _below("logit_bias", params.logit_bias, limits.vocab_size)
    count = len(tokens)
    score_from = count if message.logits_from is None else max(1, message.logits_from)
    if message.logits_from is not None and not 0 <= message.logits_from <= count:
        raise InvalidRequest(
            f"`logits_from` is between 0 and the prompt's length {count}, "
            f"got {message.logits_from}.",
            param="logits_from",
        )
    eos = frozenset(params.stop_token_ids)
    ids = np.empty(count + max(1, min(params.max_tokens, 256)), np.int32)
    ids[:count] = tokens
    return Request(
        key=key,
        params=params,
        prompt_length=count,
        limit=min(limits.context_length, count + params.max_tokens),
        eos=eos if params.ignore_eos else eos | limits.eos_token_ids,
        namespace=message.namespace,
        arrival=arrival,
        ids=ids,
        known=count,
        score_from=min(score_from, count),
        prefill_only=count - 1 if score_from < count else count,
        stops=StopStrings(params.stop),
        bias=(
            np.array(list(params.logit_bias), np.int32),
            np.array(list(params.logit_bias.values()), np.float32),
        ),
        model_eos=limits.eos_token_ids,
        hint=message.hint or NO_HINT,
    )


def _check_prompt(tokens: Int, max_tokens: int, limits: Limits) -> None:
    count, room = len(tokens), limits.context_length - (1 if max_tokens else 0)
    if not count:
        raise InvalidRequest("the prompt is empty; it needs at least one token.", param="prompt")
    if count > room:
        raise InvalidRequest(
            f"the prompt has {count} tokens and at most {room} fit: the context holds "
            f"{limits.context_length} tokens of prompt and output together (model, "
            "--context-length and KV pool bound it); shorten the prompt.",
            param="prompt",
        )
    low, high = int(tokens.min()), int(tokens.max())
    if low < 0 or high >= limits.vocab_size:
        raise InvalidRequest(
            f"token id {low if low < 0 else high} is out of range; ids are between 0 and "
            f"{limits.vocab_size - 1}.",
            param="prompt",
        )


def _below(name: str, ids: tuple[int, ...] | dict[int, float], vocab_size: int) -> None:
    if ids and max(ids) >= vocab_size:
        raise InvalidRequest(
            f"`{name}` has token id {max(ids)}; ids are between 0 and {vocab_size - 1}.",
            param=name,
        )
