"""Who is admitted next: clients take turns, and a policy orders each client's queue.

Clients share by deficit round-robin in tokens (Shreedhar & Varghese, 1995), so one client's
thousand long prompts do not keep another's short one waiting. A policy is a pure function from
the oldest waiting requests and what is cached of each to the order in which to try them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from sglang_lite.runtime.scheduling.request import Request

WINDOW = 128  # requests of a client that a policy looks at: the oldest
PATIENCE = 64  # times a request may be passed over before it goes first
QUANTUM = 512  # tokens a client may add in one turn

Cached = Callable[[Request], int]


def fcfs(waiting: Sequence[Request], cached: Cached) -> list[Request]:
    """First come, first served."""
    return list(waiting)


def lpm(waiting: Sequence[Request], cached: Cached) -> list[Request]:
    """Longest prefix match first: what is cached is used before it is evicted."""
    return sorted(waiting, key=lambda request: -cached(request))  # stable: then by arrival


POLICIES: dict[str, Callable[[Sequence[Request], Cached], list[Request]]] = {
    "lpm": lpm,
    "fcfs": fcfs,
}


class Queues:
    """The waiting requests, a queue for each client, oldest first."""

    def __init__(self, policy: str) -> None:
        self._order = POLICIES[policy]
        self._waiting: dict[bytes, deque[Request]] = {}
        self._deficit: dict[bytes, int] = {}
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
            yield from self._turn(client, orders.get(client, deque()), found)
            if client not in self._waiting or not orders.get(client):
                orders.pop(client, None)
            if self._ring and self._ring[0] == client:
                self._ring.rotate(-1)
            self._begun = False

    def _turn(
        self, client: bytes, order: deque[Request], cached: dict[Request, int]
    ) -> Iterator[Request]:
        while order:
            request = order[0]
            cost = max(1, request.known - cached[request])
            if cost > self._deficit[client]:
                return
            order.popleft()
            before = self._size
            yield request
            if self._size < before and client in self._waiting:
                self._deficit[client] -= cost
                for other in self._window(client):
                    other.passes += other.arrival < request.arrival
        if client in self._deficit:  # turns without a use for them do not add up
            self._deficit[client] = min(self._deficit[client], QUANTUM)

    def _window(self, client: bytes) -> list[Request]:
        return list(islice(self._waiting[client], WINDOW))

    def _ordered(self, client: bytes, cached: dict[Request, int]) -> deque[Request]:
        window = self._window(client)
        aged = [request for request in window if request.passes >= PATIENCE]
        young = [request for request in window if request.passes < PATIENCE]
        return deque(aged + self._order(young, cached.__getitem__))
