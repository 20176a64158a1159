"""What the operator decides about grammars."""

from __future__ import annotations

from dataclasses import dataclass, field

from sglang_lite.config import GrammarLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class GrammarOptions:
    """See the fields of the same names in `EngineConfig`."""

    engine: str = "auto"
    whitespace: str = "single"
    cache_bytes: int = 256 << 20
    queue: int = 64
    seconds: int = 5
    megabytes: int = 1024
    limits: GrammarLimits = field(default_factory=GrammarLimits)
