"""A small vocabulary, and grammars over it that are there at once or after a while."""

from __future__ import annotations

from sglang_lite.errors import SglangLiteError, UnsupportedGrammar
from sglang_lite.params import Constraint
from sglang_lite.runtime.grammar.automaton import AutomatonGrammar
from sglang_lite.runtime.grammar.outlines import build
from sglang_lite.runtime.grammar.protocol import Ticket
from sglang_lite.runtime.grammar.refusal import Refusal
from sglang_lite.runtime.grammar.table import TokenTable

TOKENS = [b"a", b"b", b"c", b"ab", b"bc", b"abc", b"", b"\xc3", b"\xa9", b"a"]
EOS = 6
IDS = {data: id for id, data in reversed(list(enumerate(TOKENS))) if data}


def encode(text: str) -> list[int]:
    """The longest token at each place; the smaller id of two with the same bytes."""
    data, ids = text.encode(), []
    while data:
        size = next((size for size in (3, 2, 1) if data[:size] in IDS), 0)
        ids.append(IDS[data[:size]] if size else EOS)  # which has no bytes: an unknown one
        data = data[size or 1 :]
    return ids


TABLE = TokenTable(TOKENS, (EOS,), encode)


def compiled(regex: str, table: TokenTable = TABLE) -> AutomatonGrammar:
    """The automaton of a regex in the engine's own dialect."""
    return AutomatonGrammar(build(regex, table.longest), table)


class Grammars:
    """A source that settles a ticket when it has been looked at `delay` times."""

    def __init__(self, delay: int = 0, table: TokenTable = TABLE) -> None:
        self.delay, self.table = delay, table
        self.known: dict[Constraint, Ticket] = {}

    def request(self, constraint: Constraint) -> Ticket:
        if constraint not in self.known:
            self.known[constraint] = _Ticket(constraint.source, self.delay, self.table)
        return self.known[constraint]

    def leave(self, ticket: Ticket) -> None:
        pass

    def fileno(self) -> int:
        return 0

    def drain(self) -> None:
        pass

    def stats(self) -> dict[str, float | int | str | bool]:
        return {"grammars": len(self.known)}

    def close(self) -> None:
        self.known.clear()


class _Ticket(Ticket):
    def __init__(self, regex: str, looks: int, table: TokenTable) -> None:
        super().__init__()
        self._regex, self._looks, self._table = regex, looks, table

    @property
    def done(self) -> bool:
        self._looks -= 1
        if self._looks < 0 and self.grammar is None and self.error is None:
            try:
                self.grammar = compiled(self._regex, self._table)
            except Refusal as refusal:
                error: SglangLiteError = UnsupportedGrammar(str(refusal), param="regex")
                self.error = error
        return self.grammar is not None or self.error is not None
