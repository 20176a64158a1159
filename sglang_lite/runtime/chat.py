"""Chat templates: the model's own Jinja, run in a sandbox.

A template comes with the model, not with a request, but a model may come from anywhere: so no
attribute that reaches Python, no mutation, and an error that names the template's complaint.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from jinja2 import TemplateError
from jinja2.exceptions import SecurityError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from sglang_lite.errors import InvalidRequest, ModelFileError

CONTINUE = "\ue000continue\ue001"  # private-use characters: stands where a final message goes on


class ChatTemplate:
    """Renders messages with one template.

    Raises:
        ModelFileError: the template's syntax is wrong.
    """

    def __init__(self, source: str, special_tokens: Mapping[str, str]) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = _raise
        environment.globals["strftime_now"] = lambda form: datetime.datetime.now().strftime(form)
        self._special = dict(special_tokens)
        try:
            self._template = environment.from_string(source)
        except TemplateError as error:
            raise ModelFileError(f"the model's chat template is broken: {error}") from error

    def render(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        **variables: Any,
    ) -> str:
        """The prompt text for `messages`; with `continue_final_message` it ends inside the last.

        Raises:
            InvalidRequest: the template refuses these messages, or there are none.
        """
        turns = [dict(message) for message in messages]
        if not turns:
            raise InvalidRequest("`messages` is empty; it needs at least one.", param="messages")
        if continue_final_message:
            turns[-1]["content"] = f"{turns[-1].get('content') or ''}{CONTINUE}"
        try:
            text = self._template.render(
                messages=turns,
                add_generation_prompt=add_generation_prompt and not continue_final_message,
                **{**self._special, **variables},
            )
        except (TemplateError, SecurityError, TypeError, ValueError, KeyError) as error:
            raise InvalidRequest(
                f"the model's chat template refuses these messages: {error}", param="messages"
            ) from error
        if not continue_final_message:
            return text
        head, found, _ = text.rpartition(CONTINUE)
        if not found:
            raise InvalidRequest(
                "the model's chat template does not show the final message, so it cannot go on.",
                param="messages",
            )
        return head


def _raise(message: str) -> None:
    raise TemplateError(message)


def _tojson(value: Any, indent: int | None = None, **_: Any) -> str:
    text = msgspec.json.encode(value)
    return (msgspec.json.format(text, indent=indent) if indent else text).decode()
