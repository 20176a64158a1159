"""What a run or a trace of a program did, as a graph to look at."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any, Literal

from sglang_lite.lang.nodes import RoleBegin, RoleEnd, ScopeBegin, ScopeEnd, Select, Text, Variable
from sglang_lite.lang.prompt import Prompt
from sglang_lite.lang.run import Event, Path

PREVIEW = 40  # characters of a node's text that are shown
_WRITTEN = (Text, RoleBegin, RoleEnd, ScopeBegin, ScopeEnd)  # known without a run

KINDS = {RoleBegin: "turn", RoleEnd: "end of turn", ScopeBegin: "scope", ScopeEnd: "end of scope"}

EdgeKind = Literal["next", "fork", "join", "variable"]


@dataclass(frozen=True)
class Node:
    id: int
    branch: str  # "0" is the program's own, "0/1.2" the third of its first fork
    kind: str
    name: str | None
    text: str  # what it wrote
    choices: tuple[str, ...]  # of a select
    place: str  # file and line
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    seconds: float


@dataclass(frozen=True)
class Edge:
    source: int
    target: int
    kind: EdgeKind


class Graph:
    """Nodes are expressions that were executed, edges the order that they have to have.

    Args:
        encode: text to token ids, for the numbers of tokens; None: they are not known.
        opaque: why a trace ends before the program does.
    """

    def __init__(
        self,
        events: Sequence[Event],
        *,
        name: str = "",
        encode: Callable[[Prompt], list[int]] | None = None,
        opaque: str = "",
    ) -> None:
        self.events, self.name, self.opaque = list(events), name, opaque
        self._encode = encode
        self.nodes = [_node(id, event) for id, event in enumerate(self.events)]
        self.edges = list(_edges(self.events))

    @cached_property
    def static_prefix(self) -> str:
        """Text that every run begins with, as far as this one tells."""
        known = list(
            takewhile(lambda each: not each.branch and isinstance(each.part, _WRITTEN), self.events)
        )
        return known[-1].after.text if known else ""

    @property
    def hit_rate(self) -> float | None:
        """Cached prompt tokens over prompt tokens; None if there were none."""
        total = sum(node.prompt_tokens for node in self.nodes)
        return sum(node.cached_tokens for node in self.nodes) / total if total else None

    @cached_property
    def optimal_hit_rate(self) -> float | None:
        """The best that this program could do alone: what a trie of its prompts and outputs
        shares. None if the backend has no token ids."""
        if self._encode is None:
            return None
        trie: dict[int, Any] = {}
        total = new = 0
        for event in self.events:
            if not event.part.waits or not event.meta.get("prompt_tokens"):
                continue
            for prompt in _prompts(event):
                ids = self._encode(prompt)
                total += len(ids)
                new += _insert(trie, ids)
            if not isinstance(event.part, Select):
                _insert(trie, self._encode(event.after))
        return 1 - new / total if total else None

    @property
    def last_node(self) -> Graph:
        """Where programs written for SGLang print from; here it is the graph, all of it."""
        return self

    # -------------------------------------------------------------- forms

    def to_dict(self) -> dict[str, Any]:
        return {
            "program": self.name,
            "nodes": [asdict(node) for node in self.nodes],
            "edges": [asdict(edge) for edge in self.edges],
            "static_prefix": self.static_prefix,
            "hit_rate": self.hit_rate,
            "optimal_hit_rate": self.optimal_hit_rate,
            "opaque": self.opaque,
        }

    def to_json(self, indent: int | None = None) -> str:
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)

    def to_mermaid(self) -> str:
        """A flowchart in Mermaid's language."""
        lines = ["flowchart TD"]
        for node in self.nodes:
            label = _label(node).replace('"', "#quot;").replace("\n", "⏎")
            lines.append(f'    n{node.id}["{label}"]')
        arrows = {"next": "-->", "fork": "-->|fork|", "join": "-->|join|", "variable": "-.->"}
        lines += [f"    n{each.source} {arrows[each.kind]} n{each.target}" for each in self.edges]
        return "\n".join(lines)

    def print_graph_dfs(self) -> str:
        """The text of the graph, by SGLang's name."""
        return str(self)

    def __str__(self) -> str:
        """A tree: branches are indented below where they began."""
        lines = [f"{self.name or 'program'}()"]
        for node in sorted(self.nodes, key=lambda each: _order(self.events, each.id)):
            depth = 1 + node.branch.count("/")
            cost = f"{node.prompt_tokens} prompt, {node.cached_tokens} cached, "
            cost += f"{node.completion_tokens} generated, {node.seconds:.3f} s"
            shown = f"  ({cost})" if node.prompt_tokens else ""
            lines.append(f"{'  ' * depth}{node.branch}: {_label(node)}{shown}")
        if self.opaque:
            lines.append(f"  ... not known from here on: {self.opaque}")
        return "\n".join(lines)


def _node(id: int, event: Event) -> Node:
    part, meta = event.part, event.meta
    name = getattr(part, "name", None) or getattr(part, "role", None)
    kind = getattr(part, "what", None) or KINDS.get(type(part)) or type(part).__name__.lower()
    added = () if kind == "fork" else event.after.since(event.before)
    written = "".join([piece if isinstance(piece, str) else piece.text for piece in added])
    return Node(
        id=id,
        branch=_branch(event.branch),
        kind=kind,
        name=name,
        text=written,
        choices=getattr(part, "choices", ()),
        place=str(part.place),
        prompt_tokens=meta.get("prompt_tokens", 0),
        cached_tokens=meta.get("cached_tokens", 0),
        completion_tokens=meta.get("completion_tokens", 0),
        seconds=event.ended - event.began,
    )


def _branch(path: Path) -> str:
    pairs = zip(path[::2], path[1::2], strict=True)
    return "/".join(["0", *(f"{fork}.{index}" for fork, index in pairs)])


def _edges(events: Sequence[Event]) -> Iterable[Edge]:
    last: dict[Path, int] = {}
    setters: dict[tuple[Path, str], int] = {}
    for id, event in enumerate(events):
        part, path = event.part, event.branch
        if path in last:
            yield Edge(last[path], id, "next")
        elif path and path[:-2] in last:
            yield Edge(last[path[:-2]], id, "fork")
        if getattr(part, "what", "") == "join":
            for source in part.sources:  # type: ignore[attr-defined]
                if source in last:
                    yield Edge(last[source], id, "join")
        if isinstance(part, Variable) and (part.source, part.name) in setters:
            yield Edge(setters[part.source, part.name], id, "variable")
        for name in part.sets:
            setters[path, name] = id
        last[path] = id


def _order(events: Sequence[Event], id: int) -> tuple[Any, ...]:
    """Branches stand together, after what their parent did before them."""
    path = events[id].branch
    order: list[Any] = []
    for size in range(2, len(path) + 1, 2):
        first = next(at for at, each in enumerate(events) if each.branch[:size] == path[:size])
        order += [first, path[size - 1]]
    return (*order, id)


def _label(node: Node) -> str:
    what = f"{node.kind} {node.name}" if node.name else node.kind
    if node.choices:
        what += f" of {list(node.choices)}"
    text = node.text if len(node.text) <= PREVIEW else node.text[: PREVIEW - 1] + "…"
    return f"{what}: {text!r}" if text else what


def _prompts(event: Event) -> list[Prompt]:
    if isinstance(event.part, Select):
        return [event.before.add(choice) for choice in event.part.choices]
    return [event.before]


def _insert(trie: dict[int, Any], ids: Sequence[int]) -> int:
    """Add a sequence; return how many of its ids are new."""
    new = 0
    for id in ids:
        if id not in trie:
            trie[id] = {}
            new += 1
        trie = trie[id]
    return new
