"""A backend that answers from a script: to test programs without a model."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Any

from sglang_lite.lang.backends.protocol import Ask, Part
from sglang_lite.lang.choices import Scores
from sglang_lite.lang.prompt import Generated, Prompt
from sglang_lite.lang.templates import Templated, get_chat_template
from sglang_lite.params import Constraint, Hint, SamplingParams

Output = str | list[str]


class ScriptedBackend(Templated):
    """Each gen takes the next of `outputs` (a list is n samples).

    Args:
        outputs: what the gens answer, in the order in which they arrive.
        template: the name of a chat template.
        delay: seconds that each call takes.
        chunk: length of the pieces in which an output arrives; None: whole.
        raw: do not cut an output at the first stop string.
    """

    wants_prefix = True
    takes_hints = False
    speculates = True
    continues = True
    scores_alone = True

    def __init__(
        self,
        outputs: Sequence[Output] = (),
        template: str = "default",
        delay: float = 0.0,
        chunk: int | None = None,
        raw: bool = False,
    ) -> None:
        self.template = get_chat_template(template)
        self.prompts: list[str] = []  # of every gen, in the order of arrival
        self.params: list[SamplingParams] = []
        self.constraints: list[Constraint | None] = []  # noted; a script's text is not held to them
        self.cached: list[str] = []  # prefixes sent ahead
        self.log: list[tuple[str, str]] = []
        self._outputs = list(outputs)
        self._answer: Callable[..., Output] | None = None
        self._told = False  # the function asks for the constraint as well
        self._scores: dict[str, list[float]] = {}
        self._unconditional: dict[str, list[float]] | None = None
        self._endpoint = False
        self._delay, self._chunk, self._raw = delay, chunk, raw

    @classmethod
    def by_prompt(
        cls, answer: Callable[..., Output], delay: float = 0.0, **options: Any
    ) -> ScriptedBackend:
        """Answers are a function of the prompt; what it raises is the backend's error.

        A function with an argument `constraint` is told what its answer must match.
        """
        backend = cls(delay=delay, **options)
        backend._answer = answer
        with suppress(ValueError):  # a builtin that does not say
            backend._told = "constraint" in inspect.signature(answer).parameters
        return backend

    @classmethod
    def scoring(
        cls,
        scores: dict[str, list[float]],
        uncond: dict[str, list[float]] | None = None,
        endpoint: bool = False,
        **options: Any,
    ) -> ScriptedBackend:
        """`select` gets these logprobs for each option's tokens.

        `endpoint` answers as a server does whose window begins one token early, with the last
        token of the prompt; that token must not count.
        """
        backend = cls(**options)
        backend._scores, backend._unconditional = scores, uncond
        backend._endpoint = endpoint
        return backend

    async def generate(self, ask: Ask) -> AsyncIterator[Part]:
        prompt, params, n, constraint = ask.prompt, ask.params, ask.n, ask.constraint
        self.prompts.append(prompt.text)
        self.params.append(params)
        self.constraints.append(constraint)
        self.log.append(("gen", prompt.text))
        output = self._next(prompt.text, constraint)
        texts = [
            self._cut(text, params) for text in ([output] if isinstance(output, str) else output)
        ]
        await self._work()
        samples = tuple(Generated(text) for text in texts)
        if n == 1 and self._chunk:
            for at in range(0, len(texts[0]), self._chunk):
                yield Part(texts[0][at : at + self._chunk])
                await self._work()
            yield Part(samples=samples)
        else:
            yield Part(texts[0] if n == 1 else "", samples)

    async def score(
        self,
        prompt: Prompt,
        choices: Sequence[str],
        *,
        unconditional: bool,
        hint: Hint | None = None,
    ) -> Scores:
        await self._work()
        rows = [self._scores[choice] for choice in choices]
        if self._endpoint:
            windows = [[-99.0, *row] for row in rows]
            rows = [window[1:] for window in windows]
        without = None
        if unconditional and self._unconditional is not None:
            without = [self._unconditional[choice] for choice in choices]
        return Scores(rows, without)

    def end_program(self, program: int) -> None:
        """Nothing was kept for it."""

    async def _work(self) -> None:
        if self._delay:
            await asyncio.sleep(self._delay)

    async def cache_prefix(self, text: str) -> None:
        self.cached.append(text)
        self.log.append(("cache", text))

    def _next(self, prompt: str, constraint: Constraint | None) -> Output:
        if self._answer is not None:
            return self._answer(prompt, **({"constraint": constraint} if self._told else {}))
        if not self._outputs:
            raise IndexError(f"the script has no output left for the prompt {prompt[-60:]!r}")
        return self._outputs.pop(0)

    def _cut(self, text: str, params: SamplingParams) -> str:
        if self._raw:
            return text
        ends = [at for stop in params.stop if (at := text.find(stop)) >= 0]
        return text[: min(ends)] if ends else text
