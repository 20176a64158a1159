"""What a backend does for a program. All of it is async, in the loop that runs programs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Protocol

import msgspec

from sglang_lite.lang.choices import Scores
from sglang_lite.lang.prompt import Generated, Prompt
from sglang_lite.lang.templates import Message, Template
from sglang_lite.params import Constraint, Hint, SamplingParams


class Ask(msgspec.Struct, frozen=True):
    """What a gen wants of a backend."""

    prompt: Prompt
    params: SamplingParams
    n: int = 1
    constraint: Constraint | None = None  # that the answer matches as a whole
    messages: Sequence[Message] = ()  # the conversation so far; a turn that is open comes last
    role: str | None = None  # of the turn that is open
    hint: Hint | None = None
    logprob_start: int | None = None  # first position of the prompt whose logprob is wanted
    logprob_text: bool = False  # logprobs come with the texts of their tokens


class Part(msgspec.Struct, frozen=True, gc=False):
    """A piece of an answer; the last one has every sample's whole, and what is known of it."""

    text: str = ""
    samples: tuple[Generated, ...] = ()
    meta: dict[str, Any] = {}


class Backend(Protocol):
    @property
    def template(self) -> Template: ...

    @property
    def wants_prefix(self) -> bool:
        """Whether a batch's static prefix should be sent ahead through `cache_prefix`."""
        ...

    @property
    def takes_hints(self) -> bool:
        """Whether it makes use of what is known of a program."""
        ...

    @property
    def speculates(self) -> bool:
        """Whether a call costs so much that one for several gens is worth more tokens."""
        ...

    @property
    def continues(self) -> bool:
        """Whether it continues any text; some chat APIs begin turns only."""
        ...

    @property
    def scores_alone(self) -> bool:
        """Whether `score` without the prompt costs so little that it is asked for each time."""
        ...

    def generate(self, ask: Ask) -> AsyncIterator[Part]:
        """Continue a prompt. The text of `n` > 1 samples comes with the last part only."""
        ...

    async def score(
        self,
        prompt: Prompt,
        choices: Sequence[str],
        *,
        unconditional: bool,
        hint: Hint | None = None,
    ) -> Scores:
        """The logprobs of each choice's tokens after `prompt`."""
        ...

    def end_program(self, program: int) -> None:
        """Hear that the program of this number, which hints named, has ended."""
        ...

    async def cache_prefix(self, text: str) -> None:
        """Compute the beginning that many programs are going to share."""
        ...
