"""Requests that wait for their grammar. They hold up nobody, and nobody holds up them."""

from __future__ import annotations

from collections.abc import Iterator

from sglang_lite.errors import UnsupportedGrammar
from sglang_lite.params import Constraint
from sglang_lite.runtime.grammar.protocol import GrammarSource
from sglang_lite.runtime.scheduling.request import Request


class Compiling:
    """A room before the queues, for constrained requests only."""

    def __init__(self, source: GrammarSource | None) -> None:
        self.source = source
        self._waiting: dict[Request, None] = {}  # in the order of arrival

    def add(self, request: Request, constraint: Constraint) -> None:
        """Ask for the grammar of `request`, which waits here until `settled`.

        Raises:
            UnsupportedGrammar: this runtime has no grammar engine.
            Overloaded: too many other grammars wait to be compiled.
        """
        if self.source is None:
            raise UnsupportedGrammar("this runtime has no grammar engine.", param=constraint.kind)
        request.ticket = self.source.request(constraint)
        self._waiting[request] = None

    def remove(self, request: Request) -> None:
        del self._waiting[request]
        if self.source is not None and request.ticket is not None:
            self.source.leave(request.ticket)

    def settled(self) -> list[Request]:
        """Those whose grammar is there, or refused; they stay until they are removed."""
        return [request for request in self if request.ticket and request.ticket.done]

    def __iter__(self) -> Iterator[Request]:
        return iter(self._waiting)

    def __contains__(self, request: Request) -> bool:
        return request in self._waiting

    def __len__(self) -> int:
        return len(self._waiting)

    def stats(self) -> dict[str, float | int | str | bool]:
        stats = self.source.stats() if self.source else {}
        return {"waiting_for_grammar": len(self), **stats}
