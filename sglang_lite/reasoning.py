"""Where a reasoning model's thoughts end and its answer begins, by the kind of model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sglang_lite.errors import Unsupported


class Marks(NamedTuple):
    begin: str
    end: str
    open: bool  # the text begins among the thoughts: the template has written `begin`


_THINK = Marks("<think>", "</think>", open=False)
_OPEN = Marks("<think>", "</think>", open=True)

KINDS: Mapping[str, Marks] = {
    "deepseek-r1": _OPEN,
    "deepseek-v3": _THINK,
    "glm45": _THINK,
    "gpt-oss": Marks("<|channel|>analysis<|message|>", "<|end|>", open=False),
    "kimi": Marks("◁think▷", "◁/think▷", open=False),
    "qwen3": _THINK,
    "qwen3-thinking": _OPEN,
    "step3": _OPEN,
}
# what stands around the answer itself
_AROUND = {"gpt-oss": ("<|start|>assistant", "<|channel|>final<|message|>")}


def marks_of(kind: str) -> Marks:
    """Raises Unsupported: no such kind is known."""
    if kind not in KINDS:
        raise Unsupported(
            f"`model_type` {kind!r} is not known; known are {', '.join(KINDS)}.", param="model_type"
        )
    return KINDS[kind]


def split(kind: str, text: str) -> tuple[str, str]:
    """(thoughts, answer) in a text that a model of this kind wrote.

    Thoughts that have no end are all there is; a text without thoughts is all answer.
    """
    marks = marks_of(kind)
    before, found, rest = text.partition(marks.begin)
    if not found:
        if not marks.open:
            return "", text
        before, rest = "", text
    thoughts, _, answer = rest.partition(marks.end)
    for around in _AROUND.get(kind, ()):
        answer = answer.replace(around, "")
    return thoughts.strip(), (before + answer).lstrip()
