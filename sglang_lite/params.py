"""The one declaration of every runtime parameter of a request.

The wire carries these classes as they are, the language forwards keyword arguments to them and
the sampler reads them. Names follow OpenAI's API where it has one. Each edge that speaks other
names (HTTP bodies, SGLang's `sampling_params`) has its own table, tested to cover every field.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import msgspec

from sglang_lite.errors import GrammarTooLarge, InvalidRequest

MAX_STOPS = 32
MAX_STOP_BYTES = 1_024
MAX_LOGPROBS = 100
MAX_LOGIT_BIAS = 1_024
MAX_TOKENS = 1 << 20
MAX_GRAMMAR_BYTES = 256 << 10
MAX_GRAMMAR_DEPTH = 64  # levels of a schema, or of groups in a regex
MAX_SEED = 1 << 63
MAX_PRIORITY = 1_000
MAX_RETAIN_MS = 600_000
MAX_ID = (1 << 31) - 1  # of a token, in any vocabulary

GREEDY_BELOW = 1e-6  # a temperature under this means: take the most likely token


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """How to choose the next token, and when to stop.

    Raises:
        InvalidRequest: a value is out of its range; the message names field, value and range.
    """

    max_tokens: int = 128  # 0: compute the prompt and generate nothing
    min_tokens: int = 0  # no stop of any kind (ids, strings, EOS) before this many tokens
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1  # -1: off
    min_p: float = 0.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: dict[int, float] = {}
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    seed: int | None = None  # None: the client draws one, so a request can be retracted and resumed
    logprobs: int | None = None  # None: none; 0: the chosen token's; n: the n likeliest as well

    def __post_init__(self) -> None:
        _typed(self, _SAMPLING)
        _within("max_tokens", self.max_tokens, 0, MAX_TOKENS)
        _within("min_tokens", self.min_tokens, 0, MAX_TOKENS)
        _within("temperature", self.temperature, 0.0, 100.0)
        _within("min_p", self.min_p, 0.0, 1.0)
        _within("frequency_penalty", self.frequency_penalty, -2.0, 2.0)
        _within("presence_penalty", self.presence_penalty, -2.0, 2.0)
        if not 0.0 < self.top_p <= 1.0:
            raise _bad("top_p", self.top_p, "must be above 0 and at most 1")
        if not (self.top_k == -1 or 1 <= self.top_k <= MAX_ID):
            raise _bad("top_k", self.top_k, f"must be -1 (off) or between 1 and {MAX_ID}")
        if not 0.0 < self.repetition_penalty <= 10.0:
            raise _bad("repetition_penalty", self.repetition_penalty, "must be above 0, at most 10")
        if self.seed is not None:
            _within("seed", self.seed, -MAX_SEED, MAX_SEED - 1)
        if self.logprobs is not None:
            _within("logprobs", self.logprobs, 0, MAX_LOGPROBS)
        self._check_stops()
        self._check_logit_bias()

    @property
    def greedy(self) -> bool:
        return self.temperature < GREEDY_BELOW or self.top_k == 1

    @property
    def penalised(self) -> bool:
        """Whether the sampler must know which tokens this request has seen."""
        return bool(
            self.frequency_penalty or self.presence_penalty or self.repetition_penalty != 1.0
        )

    def _check_stops(self) -> None:
        if self.stop:
            _all_of("stop", self.stop, str, "a text or several")
        if self.stop_token_ids:
            _all_of("stop_token_ids", self.stop_token_ids, int, "token ids")
        if len(self.stop) + len(self.stop_token_ids) > MAX_STOPS:
            count = len(self.stop) + len(self.stop_token_ids)
            raise _bad("stop", count, f"stops are too many, at most {MAX_STOPS}")
        for stop in self.stop:
            if not stop or len(stop.encode()) > MAX_STOP_BYTES:
                size = len(stop.encode())
                raise _bad("stop", f"{size} bytes", f"a stop has 1 to {MAX_STOP_BYTES} bytes")
        for id in self.stop_token_ids:
            _within("stop_token_ids", id, 0, MAX_ID)

    def _check_logit_bias(self) -> None:
        if not isinstance(self.logit_bias, dict):
            raise _bad("logit_bias", self.logit_bias, "must be a dict of token id to bias")
        if len(self.logit_bias) > MAX_LOGIT_BIAS:
            raise _bad("logit_bias", len(self.logit_bias), f"entries, at most {MAX_LOGIT_BIAS}")
        for id, bias in self.logit_bias.items():
            if type(id) is not int or type(bias) not in NUMBER:
                raise _bad("logit_bias", {id: bias}, "must map token ids to numbers")
            _within("logit_bias", id, 0, MAX_ID)
            _within("logit_bias", bias, -100.0, 100.0)


class Hint(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """What the sender knows of the program that a request belongs to. Advice, never a promise.

    Raises:
        InvalidRequest: a value is out of its range.
    """

    program: int = 0  # one run of a program, by a number of the client's; 0: none
    step: int = 0  # its requests so far, along this branch
    group: int = 0  # of branches that start from one text; numbered within the program, 0: none
    size: int = 1  # branches in the group
    more: bool = False  # a request that continues this one's text is likely
    retain_ms: int = 0  # how long its KV is wanted at most; 0: as the runtime thinks best
    steps_to_next: int = 0  # requests of the program before the text is continued
    priority: int = 0  # higher goes first where the policy looks at it

    def __post_init__(self) -> None:
        _typed(self, _HINT)
        _within("priority", self.priority, -MAX_PRIORITY, MAX_PRIORITY)
        _within("retain_ms", self.retain_ms, 0, MAX_RETAIN_MS)
        for name in ("program", "step", "group", "size", "steps_to_next"):
            _within(name, getattr(self, name), 0, MAX_SEED - 1)


class Constraint(msgspec.Struct, frozen=True, array_like=True):
    """What the output must match, whole. Equal constraints share one compiled grammar.

    Raises:
        InvalidRequest: `source` is empty.
        GrammarTooLarge: it is larger than `MAX_GRAMMAR_BYTES`.
    """

    kind: Literal["regex", "json_schema", "json_object", "choice", "ebnf", "structural_tag"]
    source: str  # the pattern; JSON of the schema, the choices or the tags; the grammar's text
    whitespace: Literal["default", "compact", "single", "bounded"] = (
        "default"  # between JSON tokens
    )
    closed: bool = True  # an object schema that is silent on additionalProperties allows none
    engine: Literal["default", "auto", "outlines", "llguidance"] = "default"

    def __post_init__(self) -> None:
        size = len(self.source.encode())
        if not size and self.kind != "json_object":
            raise _bad(self.kind, self.source, "is empty; leave it out for free text")
        if size > MAX_GRAMMAR_BYTES:
            message = f"`{self.kind}` has at most {MAX_GRAMMAR_BYTES} bytes, got {size}."
            raise GrammarTooLarge(message, param=self.kind)


INTEGER, NUMBER, TRUTH = frozenset({int}), frozenset({int, float}), frozenset({bool})
_KINDS = {INTEGER: "a whole number", NUMBER: "a number", TRUTH: "true or false"}
_SAMPLING = (
    *((name, INTEGER, False) for name in ("max_tokens", "min_tokens", "top_k")),
    *((name, INTEGER, True) for name in ("seed", "logprobs")),
    *(
        (name, NUMBER, False)
        for name in (
            "temperature", "top_p", "min_p", "frequency_penalty", "presence_penalty",
            "repetition_penalty",
        )
    ),
    ("ignore_eos", TRUTH, False),
)  # fmt: skip
_HINT = (
    *((name, INTEGER, False) for name in Hint.__struct_fields__ if name != "more"),
    ("more", TRUTH, False),
)


def _typed(params: object, kinds: Sequence[tuple[str, frozenset[type], bool]]) -> None:
    """Raise InvalidRequest for a value of a wrong type: the wire would not carry it. In Python
    True is an integer; here it is none."""
    for name, kind, optional in kinds:
        value = getattr(params, name)
        if type(value) not in kind and not (optional and value is None):
            raise _bad(name, value, f"must be {_KINDS[kind]}")


def _all_of(name: str, values: object, kind: type, what: str) -> None:
    if type(values) is not tuple or not all(type(value) is kind for value in values):
        raise _bad(name, values, f"must be {what}")


def _within(name: str, value: float, low: float, high: float) -> None:
    if not (low <= value <= high) or math.isnan(value):
        raise _bad(name, value, f"must be between {low} and {high}")


def _bad(name: str, value: object, rule: str) -> InvalidRequest:
    return InvalidRequest(f"`{name}` {rule}, got {value!r}.", param=name)
