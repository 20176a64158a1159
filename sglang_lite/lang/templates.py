"""How turns of a conversation become text, and the templates that are known by name.

A template with a name is fixed text around each turn, and is there for endpoints whose model's
template cannot be read, and for programs that ask for it. `template_table` has the texts;
`model_template` follows the model's own.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, NamedTuple, Protocol

from sglang_lite.errors import InvalidConfig
from sglang_lite.lang.template_table import FAMILIES, TEXTS

Around = tuple[str, str]
Message = dict[str, Any]


class Opening(NamedTuple):
    """What to write to begin a turn; `afresh`: in place of all of the conversation so far."""

    text: str
    afresh: bool = False
    before: tuple[Message, ...] = ()  # messages that the template puts in front


class Template(Protocol):
    @property
    def stops(self) -> tuple[str, ...]:
        """Stop strings that end a turn, where no EOS id does."""
        ...

    def begin(self, messages: Sequence[Message], role: str, so_far: str) -> Opening: ...

    def end(self, messages: Sequence[Message], role: str) -> str: ...


class ChatTemplateStyle(Enum):
    PLAIN = auto()
    LLAMA2 = auto()  # the system message stands inside the first user turn


@dataclass(frozen=True)
class ChatTemplate:
    """Text before and after each role's content. The fields have SGLang's names.

    Args:
        default_system_prompt: begins a conversation that does not begin with a system turn.
        stop_str: ends a turn, where no EOS id does.
        image_token: of SGLang's interface, as `audio_token`; there are no images here.
    """

    name: str
    default_system_prompt: str | None
    role_prefix_and_suffix: Mapping[str, Around]
    stop_str: Sequence[str] = ()
    image_token: str = "<image>"
    audio_token: str = "<audio>"
    style: ChatTemplateStyle = ChatTemplateStyle.PLAIN

    @property
    def stops(self) -> tuple[str, ...]:
        return tuple(self.stop_str)

    def begin(self, messages: Sequence[Message], role: str, so_far: str) -> Opening:
        if messages or role == "system" or self.default_system_prompt is None:
            return Opening(self.get_prefix_and_suffix(role, messages)[0])
        first = ({"role": "system", "content": self.default_system_prompt},)
        return Opening(
            self.get_prompt(first) + self.get_prefix_and_suffix(role, first)[0], before=first
        )

    def end(self, messages: Sequence[Message], role: str) -> str:
        return self.get_prefix_and_suffix(role, messages[:-1])[1]

    def get_prefix_and_suffix(self, role: str, hist_messages: Sequence[Message]) -> Around:
        """What stands around a turn of `role` that comes after `hist_messages`.

        Raises:
            ValueError: the template has no such role.
        """
        around = self.role_prefix_and_suffix
        if role not in around:
            raise ValueError(f"the chat template {self.name!r} has no role {role!r}: {[*around]}")
        before, after = around[role]
        if self.style is ChatTemplateStyle.LLAMA2:
            if role == "system" and not hist_messages:
                return around["user"][0] + before, after
            if role == "user" and [turn["role"] for turn in hist_messages] == ["system"]:
                return "", after  # the system turn has begun this one
        return before, after

    def get_prompt(self, messages: Sequence[Message]) -> str:
        """The text of whole turns; a system turn without content has the default one's."""
        text, written = "", list[Message]()
        for message in messages:
            content = message["content"]
            if content is None and message["role"] == "system":
                content = self.default_system_prompt
            if content is not None:
                before, after = self.get_prefix_and_suffix(message["role"], written)
                text += f"{before}{content}{after}"
                written.append(message)
        return text


Matching = Callable[[str], "str | ChatTemplate | None"]

TEMPLATES: dict[str, ChatTemplate] = {}
_matching: list[Matching] = []


def register_chat_template(template: ChatTemplate) -> None:
    """Make a template known by its name, in place of one that had it."""
    TEMPLATES[template.name] = template


def register_chat_template_matching_function(match: Matching) -> Matching:
    """Ask `match` for the template (or its name) of a model path, before the built-in table."""
    _matching.append(match)
    return match


def get_chat_template(name: str) -> ChatTemplate:
    """The template of that name.

    Raises:
        InvalidConfig: there is none.
    """
    if name not in TEMPLATES:
        near = difflib.get_close_matches(name, TEMPLATES, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(TEMPLATES)}."
        raise InvalidConfig(f"no chat template {name!r}; {hint}")
    return TEMPLATES[name]


def get_chat_template_by_model_path(model_path: str) -> ChatTemplate:
    """The template of the model's family; "default" for models of none."""
    for match in _matching:
        found = match(model_path)
        if found is not None:
            return found if isinstance(found, ChatTemplate) else get_chat_template(found)
    for name, pattern, exception in FAMILIES:
        if re.search(pattern, model_path, re.IGNORECASE) and not (
            exception and re.search(exception, model_path, re.IGNORECASE)
        ):
            return TEMPLATES[name]
    return TEMPLATES["default"]


class Templated:
    """A backend whose template can be replaced, by name or by another template."""

    template: Template

    @property
    def chat_template(self) -> Template:
        return self.template

    @chat_template.setter
    def chat_template(self, given: str | Template) -> None:
        self.template = get_chat_template(given) if isinstance(given, str) else given

    def get_chat_template(self) -> Template:
        return self.template


for _name, _fields in TEXTS.items():
    _styled: dict[str, Any] = {"style": ChatTemplateStyle.LLAMA2} if "llama-2" in _name else {}
    register_chat_template(
        ChatTemplate(_name, **{"default_system_prompt": None, **_fields, **_styled})
    )
