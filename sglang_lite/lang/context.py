"""A branch's text, variables and turns: all that changes without waiting for anybody."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sglang_lite.lang.journal import Journal
from sglang_lite.lang.prompt import Prompt
from sglang_lite.lang.run import Run
from sglang_lite.lang.templates import Message


@dataclass(frozen=True)
class Snapshot:
    """All that a branch knows at one moment; a fork starts from one."""

    prompt: Prompt = field(default_factory=Prompt)
    variables: dict[str, Any] = field(default_factory=dict)
    meta: dict[str, dict[str, Any]] = field(default_factory=dict)
    messages: tuple[Message, ...] = ()
    role: str | None = None  # the turn that is open,
    content_from: int = 0  # where its content begins in the text,
    chat_from: int | None = None  # and where the conversation does


class Context:
    def __init__(self, run: Run) -> None:
        self.run = run
        self.journal = Journal()
        self.restore(_BLANK)
        self._scopes: dict[str, int] = {}

    def restore(self, moment: Snapshot) -> None:
        self.prompt = moment.prompt
        self.variables, self.meta = dict(moment.variables), dict(moment.meta)
        self.messages, self.role = moment.messages, moment.role
        self.content_from, self.chat_from = moment.content_from, moment.chat_from

    def snapshot(self) -> Snapshot:
        return Snapshot(
            self.prompt, dict(self.variables), dict(self.meta), self.messages, self.role,
            self.content_from, self.chat_from,
        )  # fmt: skip

    def conversation(self) -> tuple[Message, ...]:
        """Messages up to now; the open turn's with what it has so far."""
        if self.role is None:
            return self.messages
        content = self.prompt.text[self.content_from :]
        return (*self.messages[:-1], {**self.messages[-1], "content": content})

    # -------------------------------------------------------------- text and variables

    def write(self, text: str, variable: str | None = None) -> None:
        if text:
            self.prompt = self.prompt.add(text)
            self.journal.add(variable, text, {})

    def extend(self, start: Snapshot, end: Snapshot) -> None:
        """Append what another branch wrote between two moments: generated ids as they are, and
        turns that it began and ended as turns."""
        if self.role is start.role is end.role is None:
            self.messages = (*self.messages, *end.messages[len(start.messages) :])
            if self.chat_from is None:
                self.chat_from = end.chat_from
        for piece in end.prompt.since(start.prompt):
            self.prompt = self.prompt.add(piece)
            self.journal.add(None, piece if isinstance(piece, str) else piece.text, {})

    def set(self, name: str | None, value: Any, meta: dict[str, Any]) -> None:
        if name is not None:
            self.variables[name], self.meta[name] = value, meta

    def begin_scope(self, name: str) -> None:
        self._scopes[name] = len(self.prompt.text)

    def end_scope(self, name: str) -> None:
        if name not in self._scopes:
            raise ValueError(f"the scope of {name!r} was not begun in this branch")
        self.set(name, self.prompt.text[self._scopes.pop(name) :], {})

    # -------------------------------------------------------------- turns

    def begin_turn(self, role: str) -> None:
        if self.role is not None:
            raise ValueError(f"the {self.role} turn is still open; end it before {role} begins")
        text = self.prompt.text
        start = len(text) if self.chat_from is None else self.chat_from
        opening = self.run.backend.template.begin(self.messages, role, text[start:])
        if opening.afresh:
            self.prompt = Prompt().add(text[:start])
        self.write(opening.text)
        self.messages = (*self.messages, *opening.before, {"role": role, "content": ""})
        self.role, self.content_from, self.chat_from = role, len(self.prompt.text), start

    def end_turn(self, role: str) -> None:
        if self.role != role:
            raise ValueError(f"the {role} turn is not open")
        turns = self.conversation()
        closing = self.run.backend.template.end(turns, role)
        self.messages, self.role = turns, None
        self.write(closing)


_BLANK = Snapshot()
