"""The clients of one runtime: what each was sent, and how much of it was not yet read.

A client that stops reading costs a bounded number of bytes: beyond it, its requests are dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import zmq

from sglang_lite import wire
from sglang_lite.runtime.scheduling.output import Output

MAX_BACKLOG = 16 << 20  # bytes sent to a client and not acknowledged


@dataclass(slots=True)
class _Client:
    seq: int = 0
    backlog: int = 0
    unread: deque[tuple[int, int]] = field(default_factory=deque)  # (seq, bytes)


class Clients:
    """Sends numbered messages over a ROUTER socket.

    Args:
        lost: called with a client that is gone or does not read.
    """

    def __init__(self, socket: zmq.Socket[bytes], lost: Callable[[bytes], None]) -> None:
        self._socket, self._lost = socket, lost
        self._clients: dict[bytes, _Client] = {}

    def __contains__(self, identity: bytes) -> bool:
        return identity in self._clients

    def greet(self, identity: bytes, hello: wire.Hello) -> None:
        self._clients.setdefault(identity, _Client())
        self._write(identity, wire.encode(hello))

    def forget(self, identity: bytes) -> None:
        self._clients.pop(identity, None)

    def acknowledge(self, identity: bytes, seq: int) -> None:
        client = self._clients.get(identity)
        while client and client.unread and client.unread[0][0] <= seq:
            client.backlog -= client.unread.popleft()[1]

    def send(self, identity: bytes, message: Callable[[int], wire.FromRuntime]) -> None:
        """Number `message` and send it, unless the client has too much unread already."""
        client = self._clients.get(identity)
        if client is None:
            return
        client.seq += 1
        if client.backlog > MAX_BACKLOG:
            self._lost(identity)  # it learns of the gap in the numbers, should it ever read again
            return
        data = wire.encode(message(client.seq))
        client.unread.append((client.seq, len(data)))
        client.backlog += len(data)
        self._write(identity, data)

    def beat(self, steps: int) -> None:
        for identity in list(self._clients):
            self.send(identity, lambda seq: wire.Beat(seq, steps))

    def deliver(self, outputs: dict[bytes, Output]) -> None:
        for identity, output in outputs.items():
            for failure in output.failures:
                self.fail(identity, *failure)
            if output.ids or output.scores or output.finishes:
                self.send(identity, lambda seq, output=output: _step(seq, output))  # type: ignore[misc]

    def fail(
        self, identity: bytes, id: int, status: int, reason: str, param: str | None = None
    ) -> None:
        self.send(identity, lambda seq: wire.Failed(seq, id, status, reason, param))

    def _write(self, identity: bytes, data: bytes) -> None:
        try:
            self._socket.send_multipart([identity, data], zmq.NOBLOCK)
        except zmq.ZMQError:  # no such peer any more, or no room for one more message
            self.forget(identity)
            self._lost(identity)


def _step(seq: int, output: Output) -> wire.Step:
    return wire.Step(
        seq=seq,
        ids=output.ids,
        counts=output.counts,
        tokens=wire.pack(output.tokens),
        logprobs=np.array(output.logprobs, "<f4").tobytes(),
        top=output.top,
        scores={id: np.array(each, "<f4").tobytes() for id, each in output.scores.items()},
        score_top=output.score_top,
        finishes=output.finishes,
    )
