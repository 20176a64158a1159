"""Sampling parameters as programs name them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sglang_lite.errors import Unsupported


def _texts(value: Any) -> Any:
    """One or several as a tuple; what is neither is refused with the other parameters."""
    if isinstance(value, (str, int)):
        return (value,)
    return tuple(value) if isinstance(value, Iterable) else value


# the name in `gen` and `run` -> ours, and what makes our value of the one given
SAMPLING: Mapping[str, tuple[str, Callable[[Any], Any] | None]] = {
    "max_new_tokens": ("max_tokens", None),
    "max_tokens": ("max_tokens", None),
    "min_tokens": ("min_tokens", None),
    "stop": ("stop", _texts),
    "stop_token_ids": ("stop_token_ids", _texts),
    "temperature": ("temperature", None),
    "top_p": ("top_p", None),
    "top_k": ("top_k", None),
    "min_p": ("min_p", None),
    "frequency_penalty": ("frequency_penalty", None),
    "presence_penalty": ("presence_penalty", None),
    "repetition_penalty": ("repetition_penalty", None),
    "logit_bias": ("logit_bias", None),
    "ignore_eos": ("ignore_eos", None),
}
# read together: whether there are logprobs, and of how many ids
LOGPROBS = ("return_logprob", "top_logprobs_num")

# the name in `run` -> the field of `Gen` that it is for, where the gen does not say
ASKED: Mapping[str, str] = {
    "n": "n",
    "logprob_start_len": "logprob_start",
    "return_text_in_logprobs": "logprob_text",
}


NAMES = frozenset({*SAMPLING, *ASKED, *LOGPROBS, "stop_regex"})  # all that `run` takes for gens


def asked_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of `Gen` that `given` says for all gens of a run; None means: not said."""
    said = {ours: given.get(name) for name, ours in ASKED.items()}
    return {ours: value for ours, value in said.items() if value is not None}


def sampling_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of `SamplingParams` that `given` says; None means: not said.

    Raises:
        Unsupported: `stop_regex`.
    """
    if given.get("stop_regex") is not None:
        raise Unsupported(
            "`stop_regex` is not available: a pattern over all of the text costs more with every "
            "token; use `stop`, or `regex` for what the whole answer matches.",
            param="stop_regex",
        )
    found = {}
    for name, value in given.items():
        if value is not None and name in SAMPLING:
            ours, make = SAMPLING[name]
            found[ours] = make(value) if make else value
    if given.get("return_logprob"):
        found["logprobs"] = given.get("top_logprobs_num") or 0
    return found
