"""A branch's text with its history: what was written, and what was generated as which ids."""

from __future__ import annotations

import msgspec


class Generated(msgspec.Struct, frozen=True, gc=False):
    """Text that came from a model, and the ids to continue from.

    `tail` holds the kept bytes of a token that a stop went through: they are encoded anew,
    together with the literal that follows.
    """

    text: str
    ids: tuple[int, ...] = ()
    tail: bytes = b""


class Prompt(msgspec.Struct, eq=False, gc=False):
    """Immutable, so that a fork is free and a backend may hold on to one."""

    pieces: tuple[str | Generated, ...] = ()
    _text: str | None = None

    @property
    def text(self) -> str:
        if self._text is None:
            self._text = "".join([p if isinstance(p, str) else p.text for p in self.pieces])
        return self._text

    def add(self, piece: str | Generated) -> Prompt:
        """This prompt and `piece`; neighbouring literals become one, encoded once."""
        if isinstance(piece, str):
            if not piece:
                return self
            if self.pieces and isinstance(self.pieces[-1], str):
                return Prompt((*self.pieces[:-1], self.pieces[-1] + piece))
        return Prompt((*self.pieces, piece))

    def since(self, start: Prompt) -> tuple[str | Generated, ...]:
        """The pieces that were added to `start`, of which this prompt is a continuation."""
        shared = len(start.pieces)
        own = self.pieces[shared:]
        last = start.pieces[-1] if start.pieces else None
        if isinstance(last, str):
            grown = self.pieces[shared - 1]
            assert isinstance(grown, str)
            rest = grown[len(last) :]
            return (rest, *own) if rest else own
        return own
