"""Arrays: items by position, those behind them, and how many."""

from __future__ import annotations

from dataclasses import dataclass

from sglang_lite.runtime.grammar.schema.conjunction import Flat, Goal
from sglang_lite.runtime.grammar.schema.places import Place
from sglang_lite.runtime.grammar.schema.strings import spans
from sglang_lite.runtime.grammar.schema.writer import Writer, repeated

MAX_ITEMS = 1000
MAX_PREFIX = 100


@dataclass(frozen=True, slots=True)
class Shape:
    """What every flat says of an array, taken together."""

    prefix: tuple[Goal, ...]
    rest: Goal  # of the items behind the prefix; () says nothing
    low: int
    high: int | None

    def item(self, at: int) -> Goal:
        """What one item must satisfy."""
        return self.prefix[at] if at < len(self.prefix) else self.rest


def shape(flats: list[Flat]) -> Shape:
    """The items that all flats allow."""
    low, high = spans(flats, "minItems", "maxItems")
    parts = [_items(flat) for flat in flats]
    positions = max(len(listed) for listed, _ in parts)
    prefix = []
    for at in range(positions):
        places = (listed[at] if at < len(listed) else rest for listed, rest in parts)
        prefix.append(tuple(place for place in places if place is not None))
    return Shape(tuple(prefix), tuple(rest for _, rest in parts if rest is not None), low, high)


def array(flats: list[Flat], writer: Writer) -> str | None:
    """A regex for the arrays that are valid; None if there are none."""
    found = shape(flats)
    if found.high is not None and found.low > found.high:
        return None
    _check(found, flats)
    prefix, high = _prefix(found, writer)
    rest = None
    if high is None or high > len(prefix):
        rest = _rest(found, flats, writer)
        high = high if rest is not None else len(prefix)
    if high is not None and found.low > high:
        return None
    body = _body(prefix, _behind(prefix, rest, found.low, high, writer), found.low, writer)
    return rf"\[{writer.whitespace}{body}{writer.whitespace if body else ''}\]"


def _items(flat: Flat) -> tuple[list[Place], Place | None]:
    """The schemas of the first items, and that of the others."""
    keyword, behind = "prefixItems", "items"
    if isinstance(flat.keywords.get("items"), list):  # drafts before 2020-12
        keyword, behind = "items", "additionalItems"
        if "prefixItems" in flat.keywords:
            raise flat.bad("items", "is a list beside `prefixItems`")
    listed = [flat.place.child(keyword, at) for at in range(len(flat.listing(keyword)))]
    return listed, flat.place.child(behind) if behind in flat.keywords else None


def _check(found: Shape, flats: list[Flat]) -> None:
    most = max(found.low, found.high or 0)
    if most > MAX_ITEMS:
        keyword = "minItems" if most == found.low else "maxItems"
        flat = next(flat for flat in flats if flat.count(keyword) == most)
        raise flat.bad(keyword, f"is {most}; the limit is {MAX_ITEMS}")
    for flat in flats:
        if len(_items(flat)[0]) > MAX_PREFIX:
            raise flat.bad("prefixItems", f"has more than {MAX_PREFIX} items")
        if flat.keywords.get("uniqueItems") and (found.high is None or found.high > 1):
            raise flat.bad("uniqueItems", "is not regular, unless there is at most one item")


def _prefix(found: Shape, writer: Writer) -> tuple[list[str], int | None]:
    """The first items, up to one that cannot be, and how many items there may be at most."""
    written: list[str] = []
    for goal in found.prefix[: found.high]:
        item = writer.write(goal)
        if item is None:
            return written, len(written)
        written.append(item)
    return written, found.high


def _rest(found: Shape, flats: list[Flat], writer: Writer) -> str | None:
    """Any item behind the prefix; None if there can be none."""
    if found.rest:
        return writer.write(found.rest)
    flat = flats[0]
    if not found.prefix or not writer.closed:
        raise flat.bad("items", "says nothing: free-form JSON is not regular")
    if found.low > len(found.prefix):
        raise flat.bad("minItems", "asks for items that no schema describes")
    writer.notes.add("arrays with prefixItems and without items have no other items")
    return None


def _behind(prefix: list[str], rest: str | None, low: int, high: int | None, writer: Writer) -> str:
    """The items behind the prefix, each after a comma unless there is no prefix."""
    if rest is None:
        return ""
    more = f"(?:{writer.comma}{rest})"
    first = len(prefix) or 1
    tail = repeated(more, max(0, low - first), None if high is None else high - first)
    if prefix:
        return tail
    return rest + tail if low else f"(?:{rest}{tail})?"


def _body(prefix: list[str], tail: str, low: int, writer: Writer) -> str:
    """The first items, each left out only with all that follow it, and the tail."""
    body = tail
    for at in reversed(range(len(prefix))):
        body = (writer.comma if at else "") + prefix[at] + body
        if at >= low:
            body = f"(?:{body})?"
    return body
