"""A branch's text with its history: what was written, and what was generated as which ids."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, groupby
from typing import cast

import msgspec

BLOCK = 64  # pieces


class Generated(msgspec.Struct, frozen=True, gc=False):
    """Text that came from a model, and the ids to continue from.

    `tail` holds the kept bytes of a token that a stop went through: they are encoded anew,
    together with the literal that follows.
    """

    text: str
    ids: tuple[int, ...] = ()
    tail: bytes = b""


class Prompt(msgspec.Struct, eq=False, gc=False):
    """Immutable, so that a fork is free and a backend may hold on to one.

    A run remembers its prompts, so each holds only what it adds to the one before, and only the
    newest its text: what a program costs grows with its length and not with the square of it.
    """

    _before: Prompt | None = None
    _own: tuple[str | Generated, ...] = ()  # at most `BLOCK`
    _text: str | None = None

    @property
    def pieces(self) -> tuple[str | Generated, ...]:
        """All of it, in order; neighbouring literals are one, so that they are encoded as one."""
        blocks: list[tuple[str | Generated, ...]] = []
        at: Prompt | None = self
        while at is not None:
            blocks.append(at._own)
            at = at._before
        return _merged(chain.from_iterable(reversed(blocks)))

    @property
    def text(self) -> str:
        text = self._text
        if text is None:
            text = "".join([p if isinstance(p, str) else p.text for p in self.pieces])
            self._text = text
        return text

    def forget_text(self) -> None:
        """Somebody holds a longer one: this one's text is made anew if it is asked for."""
        self._text = None

    def add(self, piece: str | Generated) -> Prompt:
        """This prompt and `piece`."""
        if piece == "":
            return self
        if len(self._own) < BLOCK:
            return Prompt(self._before, (*self._own, piece))
        return Prompt(self, (piece,))

    def since(self, start: Prompt) -> tuple[str | Generated, ...]:
        """The pieces that were added to `start`, of which this prompt is a continuation."""
        blocks: list[tuple[str | Generated, ...]] = []
        at: Prompt | None = self
        while at is not None and at is not start:
            if at._before is start._before and at._own[: len(start._own)] == start._own:
                blocks.append(at._own[len(start._own) :])
                break
            blocks.append(at._own)
            at = at._before
        return _merged(chain.from_iterable(reversed(blocks)))


def _merged(pieces: Iterable[str | Generated]) -> tuple[str | Generated, ...]:
    found: list[str | Generated] = []
    for literal, group in groupby(pieces, lambda piece: isinstance(piece, str)):
        together = list(group)
        found += ["".join(cast("list[str]", together))] if literal else together
    return tuple(found)
