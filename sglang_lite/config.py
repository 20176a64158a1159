"""How a runtime is set up: what the operator asked for, and what was decided.

`EngineConfig` is what a person writes: `None` or "auto" means "decide for me". `resolve` decides
every one of them, once, from facts about the model and the machine, and returns a new object;
nothing patches a config later. No torch here: the facts are handed in.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args

from sglang_lite.errors import InvalidConfig

Dtype = Literal["auto", "bfloat16", "float32"]
Policy = Literal["lpm", "fcfs", "dfs", "priority", "random"]
PrefixCacheKind = Literal["tree", "table"]
GrammarEngine = Literal["auto", "outlines", "llguidance"]
Whitespace = Literal["compact", "single", "bounded"]

DTYPE_BYTES = {"bfloat16": 2, "float32": 4}
MAX_POOL_TOKENS = 1 << 20
MAX_RETENTION_SECONDS = 3600
CHUNK = {"cpu": 512, "cuda": 8192}
RUNNING = {"cpu": 64, "cuda": 256}


@dataclass(frozen=True, slots=True, kw_only=True)
class GrammarLimits:
    """The most that one constraint may ask for, whatever the engine."""

    regex_bytes: int = 16 << 10
    grammar_bytes: int = 64 << 10  # of Lark or GBNF
    repeat: int = 65_536  # a bound of a repetition: {m,n}, maxLength, maxItems ...
    expanded: int = 1_000_000  # atoms of a regex or nodes of a schema, repetitions written out
    automaton: int = 40_000  # atoms of a regex that becomes an automaton; 0.7 s of compiling
    choices: int = 5_000  # of a choice list or an enum
    depth: int = 64  # levels of a schema, or of groups in a regex
    properties: int = 512  # of one object
    branches: int = 256  # of one anyOf, oneOf or allOf

    @classmethod
    def of(cls, limits: dict[str, int]) -> GrammarLimits:
        """The usual limits but for those named.

        Raises:
            InvalidConfig: there is no limit of a name, or a value is no positive number.
        """
        known = [each.name for each in fields(cls)]
        for name, value in limits.items():
            if name not in known:
                raise _bad("grammar_limit", name, f"names one of {', '.join(known)}")
            if not isinstance(value, int) or value < 1:
                raise _bad("grammar_limit", f"{name}={value}", "has values of at least 1")
        return cls(**limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """The options of a runtime. Names as SGLang has them, where it has one.

    Raises:
        InvalidConfig: a value is out of its range; the message names option, value and range.
    """

    model: str = "smollm2"  # a known name, a hub id, a folder or a .gguf file
    served_model_name: str | None = None
    device: str = "auto"
    dtype: Dtype = "auto"
    context_length: int | None = None
    page_size: int | None = None
    max_total_tokens: int | None = None  # KV pool, in tokens
    mem_fraction_static: float = 0.6  # share of free memory that weights and KV pool may take
    max_running_requests: int | None = None
    max_queued_requests: int = 4096
    chunked_prefill_size: int | None = None  # most tokens one step computes
    schedule_policy: Policy = "lpm"
    disable_radix_cache: bool = False
    prefix_cache: PrefixCacheKind = "tree"  # table: only whole texts are found, for comparisons
    retention_share: float = 0.5  # of the KV pool: what hints may have evicted last; 0: nothing
    retention_seconds: float = 30.0  # the longest that a hint is heeded
    deterministic: bool = False
    attention_backend: str = "auto"
    threads: int | None = None
    grammar_engine: GrammarEngine = "auto"
    grammar_whitespace: Whitespace = "single"  # what constrained JSON may have between tokens
    grammar_cache_mb: int = 256  # memory for compiled grammars and their masks
    grammar_queue: int = 64  # most different grammars that wait to be compiled
    grammar_compile_seconds: int = 5  # CPU time that compiling one may take; 4 times that by clock
    grammar_compile_mb: int = 1024  # address space of the process that compiles
    grammar_limits: dict[str, int] = field(default_factory=dict)  # over those of `GrammarLimits`
    jump_forward: bool = True  # take forced tokens without decoding them one by one

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise _bad(name, getattr(self, name), f"is one of {', '.join(choices)}")
        if self.page_size is not None and not 1 <= self.page_size <= 256:
            raise _bad("page_size", self.page_size, "is between 1 and 256")
        if not 0.0 < self.mem_fraction_static < 1.0:
            raise _bad("mem_fraction_static", self.mem_fraction_static, "is between 0 and 1")
        if not 0.0 <= self.retention_share <= 1.0:
            raise _bad("retention_share", self.retention_share, "is between 0 and 1")
        if not 0.0 <= self.retention_seconds <= MAX_RETENTION_SECONDS:
            rule = f"is between 0 and {MAX_RETENTION_SECONDS}"
            raise _bad("retention_seconds", self.retention_seconds, rule)
        GrammarLimits.of(self.grammar_limits)
        for name in _COUNTS:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise _bad(name, value, "is at least 1")

    @classmethod
    def of(cls, options: dict[str, Any]) -> EngineConfig:
        """A config from keyword options; an unknown name is refused with the known ones."""
        known = {each.name for each in fields(cls)}
        if unknown := sorted(options.keys() - known):
            raise InvalidConfig(
                f"unknown option {unknown[0]!r}; the options are {', '.join(sorted(known))}."
            )
        return cls(**options)


_CHOICES = {
    "dtype": get_args(Dtype),
    "schedule_policy": get_args(Policy),
    "prefix_cache": get_args(PrefixCacheKind),
    "grammar_engine": get_args(GrammarEngine),
    "grammar_whitespace": get_args(Whitespace),
}
_COUNTS = (
    "context_length",
    "max_total_tokens",
    "max_running_requests",
    "max_queued_requests",
    "chunked_prefill_size",
    "threads",
    "grammar_cache_mb",
    "grammar_queue",
    "grammar_compile_seconds",
    "grammar_compile_mb",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Facts about where the runtime runs, measured by `execution.device`."""

    device: str  # "cpu" or "cuda"
    free_bytes: int  # memory that weights and KV may use
    cores: int
    fast_bfloat16: bool  # the device multiplies bfloat16 matrices in hardware


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFacts:
    """What sizing needs to know about a model, read from its config."""

    context_length: int
    parameters: int
    kv_elements_per_token: int  # 2 (K and V) * layers * KV heads * head size


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """An `EngineConfig` with nothing left to decide."""

    config: EngineConfig
    device: str
    dtype: Literal["bfloat16", "float32"]
    page_size: int
    num_pages: int  # without page 0, which belongs to nobody
    context_length: int  # most tokens of one request, bounded by model, option and pool
    max_running_requests: int
    chunk: int
    threads: int

    @property
    def max_total_tokens(self) -> int:
        return self.num_pages * self.page_size

    def describe(self) -> str:
        """One line that says what was chosen."""
        return (
            f"{self.device}, {self.dtype}, {self.threads} threads, KV pool of "
            f"{self.max_total_tokens:,} tokens in pages of {self.page_size}, context "
            f"{self.context_length:,}, {self.max_running_requests} rows, {self.chunk} tokens a step"
        )


def resolve(config: EngineConfig, model: ModelFacts, machine: Machine) -> Resolved:
    """Decide everything the operator left open.

    Raises:
        InvalidConfig: the model or the pool asked for does not fit into memory.
    """
    dtype: Literal["bfloat16", "float32"]
    if config.dtype == "auto":
        dtype = "bfloat16" if machine.fast_bfloat16 else "float32"
    else:
        dtype = config.dtype
    page_size = config.page_size or (16 if machine.device == "cuda" else 1)
    tokens = config.max_total_tokens or _pool_tokens(config, model, machine, dtype)
    num_pages = max(1, tokens // page_size)
    context = min(config.context_length or model.context_length, num_pages * page_size)
    return Resolved(
        config=config,
        device=machine.device,
        dtype=dtype,
        page_size=page_size,
        num_pages=num_pages,
        context_length=context,
        max_running_requests=config.max_running_requests or RUNNING[machine.device],
        chunk=config.chunked_prefill_size or CHUNK[machine.device],
        threads=config.threads or machine.cores,
    )


def _pool_tokens(config: EngineConfig, model: ModelFacts, machine: Machine, dtype: str) -> int:
    """As many tokens as the allowed share of free memory holds beside the weights."""
    weights = model.parameters * DTYPE_BYTES[dtype]
    spare = int(machine.free_bytes * config.mem_fraction_static) - weights
    tokens = spare // (model.kv_elements_per_token * DTYPE_BYTES[dtype])
    if tokens < 256:
        raise InvalidConfig(
            f"the model's weights need {weights >> 20} MiB as {dtype}, and "
            f"{config.mem_fraction_static:.0%} of the {machine.free_bytes >> 20} MiB free leave "
            f"room for {max(tokens, 0)} KV tokens (at least 256 are needed); free memory, raise "
            "--mem-fraction-static or choose a smaller model or dtype."
        )
    return min(tokens, MAX_POOL_TOKENS)


def _bad(name: str, value: object, rule: str) -> InvalidConfig:
    return InvalidConfig(f"--{name.replace('_', '-')} {rule}, got {value!r}.")
