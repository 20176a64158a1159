"""Where a schema stands: JSON pointers, and the references from one place to another."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from urllib.parse import unquote

from sglang_lite.runtime.grammar.refusal import Refusal


class Document:
    """What references are read in: its root, its name and its anchors."""

    def __init__(self, schema: object, at: str) -> None:
        self.schema, self.at = schema, at

    @property
    def name(self) -> str | None:
        """What it calls itself, by `id` in older drafts."""
        if not isinstance(self.schema, dict):
            return None
        name = self.schema.get("$id", self.schema.get("id"))
        return name.rstrip("#") if isinstance(name, str) else None

    def anchored(self, name: str, here: str) -> tuple[object, str]:
        """The schema with an anchor, and the pointer to it."""
        if name not in self._anchors:
            raise Refusal(f"`$ref` to no `$anchor`, {'#' + name!r}", here)
        return self._anchors[name]

    @cached_property
    def _anchors(self) -> dict[str, tuple[object, str]]:
        found: dict[str, tuple[object, str]] = {}
        pending = [(self.schema, self.at)]
        while pending:
            schema, at = pending.pop()
            if schema is not self.schema and _is_document(schema):
                continue
            if isinstance(schema, dict):
                name = schema.get("$anchor")
                if isinstance(name, str):
                    found[name] = schema, at
                pending.extend((each, pointer(at, step)) for step, each in schema.items())
            elif isinstance(schema, list):
                pending.extend((each, pointer(at, step)) for step, each in enumerate(schema))
        return found


@dataclass(frozen=True, slots=True)
class Place:
    """A schema, the JSON pointer to it, and the document its references are read in."""

    schema: object
    at: str
    document: Document
    trail: tuple[str, ...]  # the references that led here

    @staticmethod
    def root(schema: object) -> Place:
        return Place(schema, "", Document(schema, ""), ())

    def child(self, *steps: str | int) -> Place:
        """The schema that `steps` lead to; they exist."""
        found, at = self.schema, self.at
        for step in steps:
            found = found[step]  # type: ignore[index]
            at = pointer(at, step)
        return self._at(found, at)

    def instead(self, schema: object) -> Place:
        """A schema of our own making that stands for what is here."""
        return replace(self, schema=schema)

    def _at(self, schema: object, at: str) -> Place:
        if _is_document(schema):
            return Place(schema, at, Document(schema, at), self.trail)
        return replace(self, schema=schema, at=at)

    def referred(self, reference: object) -> Place:
        """The place that a `$ref` here points at.

        Raises:
            Refusal: it points outside, nowhere, or back to where it came from.
        """
        here = pointer(self.at, "$ref")
        if not isinstance(reference, str):
            raise Refusal("`$ref` is not a string", here)
        base, fragment = split(reference)
        if base and base != self.document.name:
            raise Refusal(f"`$ref` to another document, {reference!r}", here)
        if fragment and not fragment.startswith("/"):
            schema, at = self.document.anchored(fragment, here)
            target = replace(self, schema=schema, at=at)
        else:
            target = self._pointed(fragment, here)
        if target.at in self.trail:
            raise Refusal(
                f"`$ref` leads back to itself, {reference!r}: recursion is not regular", here
            )
        return replace(target, trail=(*self.trail, target.at))

    def _pointed(self, fragment: str, here: str) -> Place:
        place = replace(self, schema=self.document.schema, at=self.document.at)
        for part in fragment.split("/")[1:]:
            name = part.replace("~1", "/").replace("~0", "~")
            step: str | int = (
                int(name) if isinstance(place.schema, list) and _is_index(name) else name
            )
            try:
                place = place.child(step)
            except (KeyError, IndexError, TypeError) as error:
                raise Refusal(f"`$ref` to nothing, {'#' + fragment!r}", here) from error
        return place


def split(reference: str) -> tuple[str, str]:
    """The document that a `$ref` names, and the pointer or anchor in it."""
    base, _, fragment = reference.partition("#")
    return base, unquote(fragment)


def pointer(at: str, step: str | int) -> str:
    """The JSON pointer one step further."""
    return f"{at}/{str(step).replace('~', '~0').replace('/', '~1')}"


def _is_index(name: str) -> bool:
    return name.isascii() and name.isdecimal() and len(name) < 10


def _is_document(schema: object) -> bool:
    """Whether references below are read from here on."""
    name = schema.get("$id") if isinstance(schema, dict) else None
    return isinstance(name, str) and not name.startswith("#")
