"""How turns of a conversation become text.

A model's own template renders whole conversations. To write a turn bit by bit, its beginning and
its end are read off a render with a mark in place of the content. What was written before must be
a beginning of the new render; a template that rewrites the past is followed by rendering afresh,
and the backend is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

MARK = "\ue000content\ue001"  # private-use characters: no template touches them

Message = dict[str, Any]


class Opening(NamedTuple):
    """What to write to begin a turn; `afresh`: in place of all of the conversation so far."""

    text: str
    afresh: bool = False


class Template(Protocol):
    @property
    def stops(self) -> tuple[str, ...]:
        """Stop strings that end a turn, where no EOS id does."""
        ...

    def begin(self, messages: Sequence[Message], role: str, so_far: str) -> Opening: ...

    def end(self, messages: Sequence[Message], role: str) -> str: ...


@dataclass(frozen=True)
class NamedTemplate:
    """Fixed text around each role's content."""

    around: Mapping[str, tuple[str, str]]
    stops: tuple[str, ...] = ()

    def begin(self, messages: Sequence[Message], role: str, so_far: str) -> Opening:
        return Opening(self._around(role)[0])

    def end(self, messages: Sequence[Message], role: str) -> str:
        return self._around(role)[1]

    def _around(self, role: str) -> tuple[str, str]:
        if role not in self.around:
            raise ValueError(f"this chat template has no role {role!r}, only {[*self.around]}")
        return self.around[role]


def _chatml(role: str) -> tuple[str, str]:
    return f"<|im_start|>{role}\n", "<|im_end|>\n"


TEMPLATES: dict[str, NamedTemplate] = {
    "default": NamedTemplate(
        {
            "system": ("SYSTEM:", "\n"),
            "user": ("USER:", "\n"),
            "assistant": ("ASSISTANT:", "\n"),
        }
    ),
    "chatml": NamedTemplate(
        {role: _chatml(role) for role in ("system", "user", "assistant", "tool")}, ("<|im_end|>",)
    ),
}


class ModelTemplate:
    """The model's own template.

    Args:
        render: `Tokenizer.render_chat`.
        rewritten: called when the template did not continue what it had rendered before.
    """

    stops: tuple[str, ...] = ()  # the model ends a turn with an EOS id

    def __init__(
        self, render: Callable[..., str], rewritten: Callable[[str, str], None] | None = None
    ) -> None:
        self._render, self._rewritten = render, rewritten

    def begin(self, messages: Sequence[Message], role: str, so_far: str) -> Opening:
        if role == "assistant" and messages:
            before = self._render(list(messages), add_generation_prompt=True)
        else:
            before = self._marked(messages, role)[0]
        if before.startswith(so_far):
            return Opening(before[len(so_far) :])
        if self._rewritten is not None:
            self._rewritten(so_far, before)
        return Opening(before, afresh=True)

    def end(self, messages: Sequence[Message], role: str) -> str:
        return self._marked(messages[:-1], role)[1]

    def _marked(self, messages: Sequence[Message], role: str) -> tuple[str, str]:
        turns = [*messages, {"role": role, "content": MARK}]
        text = self._render(turns, add_generation_prompt=False)
        before, found, after = text.rpartition(MARK)
        if not found:
            raise ValueError(f"the model's chat template does not show the content of {role!r}")
        return before, after
