"""What a grammar engine gives the scheduler: compiled grammars, and a matcher for each request.

A compiled grammar belongs to one vocabulary and is shared; a matcher follows one request's tokens.
Ending is the matcher's matter: EOS is a token like the others to it, allowed when the output may
end. No torch and no engine here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sglang_lite.errors import SglangLiteError
from sglang_lite.params import Constraint

FEW = 256  # allowed ids up to this many are told one by one, and are looked up instead of masked
Row = NDArray[np.int32]  # [W] a bit for each token id, W = ceil(model vocabulary / 32)


class Matcher(Protocol):
    """Where one request stands in its grammar."""

    def fill(self, row: Row) -> None:
        """Write the mask of the next token over `row`; EOS is in it if the output may end."""
        ...

    def allowed(self, limit: int) -> NDArray[np.int32] | None:
        """The allowed ids, if they are at most `limit` and cheap to name; else None."""
        ...

    def advance(self, token: int) -> bool:
        """Take one token. False: not allowed, and nothing has changed."""
        ...

    def validate(self, tokens: Sequence[int]) -> int:
        """How many of `tokens` could be taken one after another; changes nothing."""
        ...

    def rollback(self, count: int) -> None:
        """Take back the last `count` tokens, EOS among them."""
        ...

    def jump_forward(self, tail: Sequence[int], drawn: int | None = None) -> list[int]:
        """Tokens that must follow, in the spelling the tokenizer itself would choose.

        `tail` is the last tokens so far; they stay as they are. `drawn` was drawn and is not taken
        yet: it is spelled anew with what it forces, and the result has at least its bytes; empty
        if it is not allowed. Changes nothing. Every id returned can be taken by `advance`, in
        order.
        """
        ...

    def may_stop(self) -> bool:
        """Whether the output so far matches."""
        ...

    def must_stop(self) -> bool:
        """Whether the output matches and nothing can follow, or EOS was taken."""
        ...

    def trouble(self) -> str:
        """Why nothing is allowed any more, if the engine gave up; "" while all is well."""
        ...

    def fork(self) -> Matcher:
        """A matcher at the same place that goes its own way."""
        ...


class CompiledGrammar(Protocol):
    """A grammar over one vocabulary. Immutable to its users, though it caches masks."""

    @property
    def engine(self) -> str:
        """The engine's name, for the reader of an answer."""
        ...

    @property
    def notes(self) -> str:
        """In what the language held is narrower than what was asked for; "" if in nothing."""
        ...

    @property
    def nbytes(self) -> int:
        """Memory it holds now, in bytes, cached masks included."""
        ...

    def matcher(self) -> Matcher:
        """A new matcher, at the start; takes microseconds."""
        ...


@dataclass(slots=True, eq=False, kw_only=True)
class Ticket:
    """A grammar that is asked for; once it is settled one of the two is set."""

    waiting: int = 0  # requests that wait for it: without one it need not be compiled
    grammar: CompiledGrammar | None = field(default=None)
    error: SglangLiteError | None = field(default=None)

    @property
    def done(self) -> bool:
        return self.grammar is not None or self.error is not None


class GrammarSource(Protocol):
    """Where the scheduler gets grammars from. No method waits."""

    def request(self, constraint: Constraint) -> Ticket:
        """A ticket, possibly settled already; raises `Overloaded` when too many wait."""
        ...

    def leave(self, ticket: Ticket) -> None:
        """One of those that asked for `ticket` no longer waits for it."""
        ...

    def fileno(self) -> int:
        """A file that is readable once a ticket was settled."""
        ...

    def drain(self) -> None:
        """Take note: `fileno` is unreadable until the next one."""
        ...

    def stats(self) -> dict[str, float | int | str | bool]: ...

    def close(self) -> None: ...
