"""The model's own chat template, written turn by turn.

It renders whole conversations. To write a turn bit by bit, its beginning and its end are read off
a render with a mark in place of the content. What was written before must be a beginning of the new
render; a template that rewrites the past is followed by rendering afresh, and the backend is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sglang_lite.lang.templates import Message, Opening

MARK = "\ue000content\ue001"  # private-use characters: no template touches them


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
        if (written := self._only_added_to(messages, so_far)) and before.startswith(written):
            return Opening(before[len(written) :])
        if self._rewritten is not None:
            self._rewritten(so_far, before)
        return Opening(before, afresh=True)

    def _only_added_to(self, messages: Sequence[Message], so_far: str) -> str:
        """The turns as rendered, if `so_far` has each of them and, between them, what the program
        wrote outside of turns; empty if the template changed one."""
        rendered, at = "", 0
        for count in range(1, len(messages) + 1):
            grown = self._render(list(messages[:count]), add_generation_prompt=False)
            turn = grown[len(rendered) :]
            found = so_far.find(turn, at) if grown.startswith(rendered) else -1
            if found < 0:
                return ""
            rendered, at = grown, found + len(turn)
        return rendered

    def end(self, messages: Sequence[Message], role: str) -> str:
        return self._marked(messages[:-1], role)[1]

    def _marked(self, messages: Sequence[Message], role: str) -> tuple[str, str]:
        turns = [*messages, {"role": role, "content": MARK}]
        text = self._render(turns, add_generation_prompt=False)
        before, found, after = text.rpartition(MARK)
        if not found:
            raise ValueError(f"the model's chat template does not show the content of {role!r}")
        return before, after
