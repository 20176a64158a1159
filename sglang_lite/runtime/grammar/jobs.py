"""What the runtime and the compiling process tell each other."""

from __future__ import annotations

import re
from typing import Literal

import msgspec

from sglang_lite import errors
from sglang_lite.config import GrammarLimits
from sglang_lite.errors import InvalidRequest
from sglang_lite.params import Constraint
from sglang_lite.runtime.grammar.automaton import Automaton


class Job(msgspec.Struct, frozen=True, array_like=True):
    """What to compile, with nothing left to default, and what to know of the vocabulary."""

    constraint: Constraint
    limits: GrammarLimits
    longest: int  # bytes of its longest token
    missing: bytes  # bytes that no token of it spells


class Made(msgspec.Struct, frozen=True, tag="made", array_like=True):
    """An automaton, or the source that llguidance is to compile."""

    engine: str
    automaton: Automaton | None
    source: str
    notes: str


class Refused(msgspec.Struct, frozen=True, tag="refused", array_like=True):
    kind: Literal["InvalidGrammar", "UnsupportedGrammar", "GrammarTooLarge"]
    reason: str
    param: str | None

    def error(self) -> InvalidRequest:
        made: InvalidRequest = getattr(errors, self.kind)(self.reason, param=self.param)
        return made


class Broke(msgspec.Struct, frozen=True, tag="broke", array_like=True):
    """It failed for no fault of the constraint that anybody foresaw."""

    reason: str


def short_of_memory(text: str) -> bool:
    """Whether an error says that there is no memory left, in whose words ever."""
    return re.search("memory|map segment", text, re.IGNORECASE) is not None


Result = Made | Refused | Broke
encode = msgspec.msgpack.Encoder().encode
decode_job = msgspec.msgpack.Decoder(Job).decode
decode_result = msgspec.msgpack.Decoder(Result).decode
