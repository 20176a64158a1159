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
