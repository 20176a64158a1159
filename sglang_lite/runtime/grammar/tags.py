"""Structural tags: free text in which each tag that begins is held to a schema until it ends.

{"structures": [{"begin": "<f=", "schema": {...}, "end": "</f>"}], "triggers": ["<f="]}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from sglang_lite.runtime.grammar.closing import plainly
from sglang_lite.runtime.grammar.refusal import Refusal

MAX_TAGS = 128


class Tag(msgspec.Struct, forbid_unknown_fields=True):
    begin: str
    end: str
    schema: dict[str, Any] | bool = True


class Tags(msgspec.Struct, forbid_unknown_fields=True):
    structures: list[Tag]
    triggers: list[str]
    type: str = "structural_tag"


def lark_of_tags(source: str, json_options: Mapping[str, Any], *, closed: bool) -> tuple[str, str]:
    """A Lark grammar for llguidance, text up to a trigger, the tag, and so on, then text; notes.

    Args:
        closed: objects of a schema that is silent on other properties have none.

    Raises:
        Refusal: the tags are not of this shape, or a tag begins with no trigger.
    """
    try:
        tags = msgspec.json.decode(source, type=Tags)
    except msgspec.MsgspecError as error:
        raise Refusal(f"`structural_tag` has `structures` and `triggers`: {error}") from error
    if not 1 <= len(tags.structures) <= MAX_TAGS:
        raise Refusal(f"`structures` has 1 to {MAX_TAGS} tags, got {len(tags.structures)}")
    names = [f"tag_{index}" for index in range(len(tags.structures))]
    lines = [
        "%llguidance {}",
        f"start: ({' | '.join(names)})* TAG_TEXT",
        r"TAG_TEXT: /(.|\n)*/",
    ]
    notes: dict[str, None] = {}
    for name, tag in zip(names, tags.structures, strict=True):
        schema, more = plainly(_schema(tag), closed=closed)
        notes |= dict.fromkeys(more)
        lines += _rules(name, tag, tags.triggers, {**schema, "x-guidance": dict(json_options)})
    return "\n".join(lines), "; ".join(notes)


def _schema(tag: Tag) -> dict[str, Any]:
    if tag.schema is False:
        raise Refusal(f"the schema of the tag {tag.begin!r} is false: nothing matches it")
    return {"type": "object"} if tag.schema is True else tag.schema


def _rules(name: str, tag: Tag, triggers: list[str], schema: Mapping[str, Any]) -> list[str]:
    fitting = [each for each in triggers if each and tag.begin.startswith(each)]
    if not fitting:
        raise Refusal(f"the tag {tag.begin!r} begins with none of the triggers {triggers!r}")
    trigger = max(fitting, key=len)
    rest, end = _text(tag.begin[len(trigger) :]), _text(tag.end)
    # Lazy: it ends where the trigger first occurs, so free text never contains one.
    return [
        f"{name}_trigger[lazy]: TAG_TEXT {_text(trigger)}",
        f"{name}: {name}_trigger {rest} %json {_json(schema)} {end}",
    ]


def _text(text: str) -> str:
    return _json(text) if text else ""


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
