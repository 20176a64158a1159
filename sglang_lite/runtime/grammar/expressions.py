"""A regex as a tree: parsed from Python's syntax, measured, and cut into arms without anchors.

Python's own parser reads the text; what this tree cannot say exactly is refused here.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sglang_lite.runtime.grammar.codepoints import Ranges, complement, normalise
from sglang_lite.runtime.grammar.refusal import Refusal

_home = ("re._parser", "re._constants") if sys.version_info >= (3, 11) else ("sre_parse",) * 2
_parser: Any = importlib.import_module(_home[0])
_constants: Any = importlib.import_module(_home[1])

MAX_REPEAT = 1000
_MAX_NESTING = 100
_MAX_ARMS = 64
_UNICODE_FLAG = 32  # what the parser sets when nobody asks for anything


@dataclass(frozen=True, slots=True)
class Characters:
    """One character of a set."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Edge:
    """The start or the end of the text."""

    start: bool


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    body: Node
    low: int
    high: int | None


Node = Characters | Edge | Sequence | Choice | Repeat


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to match: a tree without edges, and whether it is tied to the text's ends."""

    parts: tuple[Node, ...]
    from_start: bool
    to_end: bool


@dataclass(frozen=True, slots=True)
class Dialect:
    """What the letters of a regex stand for."""

    digit: Ranges
    word: Ranges
    space: Ranges
    dot: Ranges


def parse(pattern: str, dialect: Dialect) -> Node:
    """The tree of a regex.

    Raises:
        Refusal: it is no regex, or more than a regular language without flags.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the parser warns of does not change what it reads
        try:
            parsed = _parser.parse(pattern)
        except (_constants.error, OverflowError, ValueError) as error:
            raise Refusal(f"not a regex that Python reads: {error}") from error
        except RecursionError as error:
            raise Refusal("groups are nested too deep") from error
    if parsed.state.flags & ~_UNICODE_FLAG:
        raise Refusal("flags are not held")
    return _Reader(dialect).sequence(parsed, 0)


def arms(node: Node) -> Iterator[Arm]:
    """The ways to match, so that no anchor is left inside; anchors elsewhere are refused."""
    pending = [(tuple(_flat([node])), False, False)]
    for count in range(2 * _MAX_ARMS):
        if not pending:
            return
        parts, from_start, to_end = pending.pop()
        first, last = _trimmed(parts)
        from_start, to_end = from_start or first > 0, to_end or last < len(parts)
        parts = parts[first:last]
        if not any(map(_anchored, parts)):
            yield Arm(parts, from_start, to_end)
            continue
        splits = reversed(list(_split(parts)))
        pending.extend((split, from_start, to_end) for split in splits)
        if len(pending) + count > 2 * _MAX_ARMS:
            break
    raise Refusal(f"anchors in more than {_MAX_ARMS} alternatives")


def width(node: Node) -> tuple[int, int | None]:
    """The least and the most characters it matches; None is without end."""
    if isinstance(node, Characters):
        return 1, 1
    if isinstance(node, Repeat):
        low, high = width(node.body)
        if node.high == 0 or high == 0:
            return low * node.low, 0
        return low * node.low, None if high is None or node.high is None else high * node.high
    if isinstance(node, Choice):
        bounds = [width(option) for option in node.options]
        return min(low for low, _ in bounds), _highest(high for _, high in bounds)
    if isinstance(node, Sequence):
        return total_width(node.parts)
    return 0, 0


def total_width(parts: Iterable[Node]) -> tuple[int, int | None]:
    """The width of several nodes, one after another."""
    total: tuple[int, int | None] = (0, 0)
    for low, high in map(width, parts):
        total = (total[0] + low, None if total[1] is None or high is None else total[1] + high)
    return total


def _highest(bounds: Iterable[int | None]) -> int | None:
    finite = list(bounds)
    return None if None in finite else max(bound for bound in finite if bound is not None)


def _flat(parts: Iterable[Node]) -> Iterator[Node]:
    for part in parts:
        if isinstance(part, Sequence):
            yield from _flat(part.parts)
        else:
            yield part


def _anchored(node: Node) -> bool:
    if isinstance(node, Repeat):
        return _anchored(node.body)
    children = (
        node.parts
        if isinstance(node, Sequence)
        else node.options
        if isinstance(node, Choice)
        else ()
    )
    return isinstance(node, Edge) or any(map(_anchored, children))


def _trimmed(parts: tuple[Node, ...]) -> tuple[int, int]:
    """Where the parts without the anchors at either end begin and stop."""
    first, last = 0, len(parts)
    while first < last and parts[first] == Edge(start=True):
        first += 1
    while first < last and parts[last - 1] == Edge(start=False):
        last -= 1
    return first, last


def _split(parts: tuple[Node, ...]) -> Iterator[tuple[Node, ...]]:
    """The sequences that `parts` stands for, one for each option of an outer choice."""
    first, last = parts[0], parts[-1]
    if isinstance(first, Choice) and _anchored(first):
        yield from ((*_flat([option]), *parts[1:]) for option in first.options)
    elif isinstance(last, Choice) and _anchored(last):
        yield from ((*parts[:-1], *_flat([option])) for option in last.options)
    else:
        raise Refusal("an anchor that is neither at the start nor at the end")


class _Reader:
    """Turns what Python's parser says into a tree."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    def sequence(self, items: Iterable[Any], depth: int) -> Node:
        if depth > _MAX_NESTING:
            raise Refusal(f"groups are nested deeper than {_MAX_NESTING}")
        parts = tuple(self._node(code.name, argument, depth) for code, argument in items)
        return parts[0] if len(parts) == 1 else Sequence(parts)

    def _node(self, name: str, argument: Any, depth: int) -> Node:
        if name == "LITERAL":
            return Characters(((argument, argument),))
        if name == "NOT_LITERAL":
            return Characters(complement(((argument, argument),)))
        if name == "ANY":
            return Characters(self._dialect.dot)
        if name == "IN":
            return Characters(self._class(argument))
        if name == "AT":
            return self._edge(argument.name)
        if name == "BRANCH":
            return Choice(tuple(self.sequence(each, depth + 1) for each in argument[1]))
        if name == "SUBPATTERN":
            return self._group(argument, depth)
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            low, high, body = argument
            return self._repeat(low, high, body, depth)
        raise Refusal(f"{name.lower().replace('_', ' ')} is more than a regex without memory")

    def _group(self, argument: Any, depth: int) -> Node:
        _, added, removed, body = argument
        if added or removed:
            raise Refusal("flags are not held")
        return self.sequence(body, depth + 1)

    def _repeat(self, low: int, high: int, body: Any, depth: int) -> Node:
        limit = None if high is _constants.MAXREPEAT else int(high)
        if low > MAX_REPEAT or (limit or 0) > MAX_REPEAT:
            raise Refusal(f"a repeat of more than {MAX_REPEAT}: {max(low, limit or 0)}")
        return Repeat(self.sequence(body, depth + 1), int(low), limit)

    def _edge(self, name: str) -> Edge:
        if name in ("AT_BEGINNING", "AT_BEGINNING_STRING"):
            return Edge(start=True)
        if name in ("AT_END", "AT_END_STRING"):
            return Edge(start=False)
        raise Refusal(f"{name.lower()[3:].replace('_', ' ')} is not held")

    def _class(self, items: Iterable[Any]) -> Ranges:
        negated = False
        ranges: list[tuple[int, int]] = []
        for code, argument in items:
            if code.name == "NEGATE":
                negated = True
            elif code.name == "LITERAL":
                ranges.append((argument, argument))
            elif code.name == "RANGE":
                ranges.append(argument)
            elif code.name == "CATEGORY":
                ranges.extend(self._category(argument.name))
            else:
                raise Refusal(f"{code.name.lower()} in a class is not held")
        held = normalise(ranges)
        return complement(held) if negated else held

    def _category(self, name: str) -> Ranges:
        name = name.removeprefix("CATEGORY_")
        ranges: Ranges = getattr(self._dialect, name.removeprefix("NOT_").lower())
        return complement(ranges) if name.startswith("NOT_") else ranges
