"""Who is admitted next: clients take turns, and a policy orders each client's queue.

Clients share by deficit round-robin in tokens (Shreedhar & Varghese, 1995), so one client's
thousand long prompts do not keep another's short one waiting. Within a client's turn two rules go
before the policy: a request that was passed over too often goes first, and the branches of a
program that start from one text follow each other, so that the text is read while it is there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice

from sglang_lite.runtime.scheduling.policy import POLICIES, Cached
from sglang_lite.runtime.scheduling.request import Request

WINDOW = 128  # requests of a client that a policy looks at: the oldest
PATIENCE = 64  # times a request may be passed over before it goes first
QUANTUM = 512  # tokens a client may add in one turn


class Queues:
    """The waiting requests, a queue for each client, oldest first."""

    def __init__(self, policy: str) -> None:
        self._order = POLICIES[policy]
        self._waiting: dict[bytes, deque[Request]] = {}
        self._deficit: dict[bytes, int] = {}
        self._group: dict[bytes, tuple[int, int]] = {}  # of the latest admitted, if it has one
        self._ring: deque[bytes] = deque()
        self._begun = False  # the first client's turn: it may go on in the next plan
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Request]:
        for queue in self._waiting.values():
            yield from queue

    def add(self, request: Request) -> None:
        client = request.key[0]
        if client not in self._waiting:
            self._waiting[client] = deque()
            self._deficit[client] = 0
            self._ring.append(client)
        self._waiting[client].append(request)
        self._size += 1

    def remove(self, request: Request) -> None:
        client = request.key[0]
        queue = self._waiting[client]
        queue.remove(request)
        self._size -= 1
        if not queue:
            del self._waiting[client], self._deficit[client]
            self._group.pop(client, None)
            self._begun = self._begun and self._ring[0] != client
            self._ring.remove(client)

    def turns(self, cached: Cached) -> Iterator[Request]:
        """Requests in the order to try them.

        One that the caller removes while it looks at it has been admitted: its uncached tokens
        are charged to its client, and older ones of the client have been passed over.
        """
        found = {r: cached(r) for client in self._ring for r in self._window(client)}
        orders = {client: self._ordered(client, found) for client in self._ring}
        while orders:
            client = self._ring[0]
            if not self._begun:
                self._deficit[client] += QUANTUM
                self._begun = True
            yield from self._turn(client, orders.get(client, deque()), found, cached)
            if client not in self._waiting or not orders.get(client):
                orders.pop(client, None)
            if self._ring and self._ring[0] == client:
                self._ring.rotate(-1)
            self._begun = False

    def _turn(
        self, client: bytes, order: deque[Request], found: dict[Request, int], cached: Cached
    ) -> Iterator[Request]:
        while order:
            request = order[0]
            if self._follows(request):  # what it shares may have been planned a moment ago
                found[request] = cached(request)
            cost = max(1, request.known - found[request])
            if cost > self._deficit[client]:
                return
            order.popleft()
            before = self._size
            yield request
            if self._size < before and client in self._waiting:
                self._deficit[client] -= cost
                self._admitted(request, order)
        if client in self._deficit:  # turns without a use for them do not add up
            self._deficit[client] = min(self._deficit[client], QUANTUM)

    def _admitted(self, request: Request, order: deque[Request]) -> None:
        """Let the branches of its group follow it, and count whom it has overtaken."""
        client = request.key[0]
        for other in self._window(client):
            other.passes += other.arrival < request.arrival
        if request.group is None:
            self._group.pop(client, None)
        elif request.group != self._group.get(client):
            self._group[client] = request.group
            ordered = self._by_rule(order)
            order.clear()
            order.extend(ordered)

    def _window(self, client: bytes) -> list[Request]:
        return list(islice(self._waiting[client], WINDOW))

    def _ordered(self, client: bytes, cached: dict[Request, int]) -> deque[Request]:
        window = self._window(client)
        aged = [request for request in window if request.passes >= PATIENCE]
        young = [request for request in window if request.passes < PATIENCE]
        return deque(self._by_rule(aged + self._order(young, cached.__getitem__)))

    def _by_rule(self, order: Iterable[Request]) -> list[Request]:
        """Those that waited too long, siblings of the latest admitted, and then the others."""

        def rule(request: Request) -> int:
            return 0 if request.passes >= PATIENCE else 1 if self._follows(request) else 2

        return sorted(order, key=rule)

    def _follows(self, request: Request) -> bool:
        """Whether the latest admitted of its client is of its group."""
        return request.group is not None and request.group == self._group.get(request.key[0])
