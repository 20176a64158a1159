"""ZeroMQ sockets, set up as both ends of the wire need them.

`ipc://` lives in a directory that only this user may enter, `inproc://` in this process. `tcp://`
is refused: without keys anybody on the network could use the runtime.
"""

from __future__ import annotations

import contextlib
import secrets

import zmq
import zmq.asyncio
from zmq.utils.monitor import recv_monitor_message

from sglang_lite.errors import InvalidConfig
from sglang_lite.wire import MAX_MESSAGE_BYTES

HEARTBEAT = 5_000  # ms between ZMTP pings, answered by the I/O thread even in a long step
HEARTBEAT_TIMEOUT = 30_000


def router(address: str) -> zmq.Socket[bytes]:
    """The runtime's socket, bound to `address`.

    Raises:
        InvalidConfig: the address cannot be bound.
    """
    _refuse_tcp(address)
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.ROUTER)
    _common(socket)
    socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
    try:
        socket.bind(address)
    except zmq.ZMQError as error:
        socket.close(linger=0)
        raise InvalidConfig(f"cannot listen at {address}: {error}") from error
    return socket


def dealer(address: str) -> zmq.asyncio.Socket:
    """A client's socket, connected to `address`."""
    _refuse_tcp(address)
    context = zmq.asyncio.Context.shadow(zmq.Context.instance().underlying)
    socket: zmq.asyncio.Socket = context.socket(zmq.DEALER)
    _common(socket)
    socket.connect(address)
    return socket


class Disconnections:
    """Tells whether a socket has lost its peer. An inproc peer is a thread: it has no say here."""

    def __init__(self, socket: zmq.asyncio.Socket) -> None:
        self._socket = socket
        address = f"inproc://monitor-{id(socket)}-{secrets.token_hex(4)}"
        socket.monitor(address, zmq.EVENT_DISCONNECTED)
        self._monitor: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.PAIR)
        self._monitor.connect(address)

    def broken(self) -> bool:
        with contextlib.suppress(zmq.Again):
            while True:
                event = recv_monitor_message(self._monitor, zmq.NOBLOCK)
                if event["event"] == zmq.EVENT_DISCONNECTED:
                    return True
        return False

    def close(self) -> None:
        self._socket.monitor(None, 0)
        self._monitor.close(linger=0)


def _common(socket: zmq.Socket[bytes] | zmq.asyncio.Socket) -> None:
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.SNDHWM, 0)  # bounded in bytes by who sends, not in messages here
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.MAXMSGSIZE, MAX_MESSAGE_BYTES)
    socket.setsockopt(zmq.HEARTBEAT_IVL, HEARTBEAT)
    socket.setsockopt(zmq.HEARTBEAT_TIMEOUT, HEARTBEAT_TIMEOUT)


def _refuse_tcp(address: str) -> None:
    if not address.startswith(("ipc://", "inproc://")):
        raise InvalidConfig(
            f"a runtime listens at ipc:// or inproc:// addresses, not at {address!r}; to reach one "
            "over the network, run `sglang-lite serve` and use its http:// address."
        )
