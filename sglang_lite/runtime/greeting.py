"""The first word of a runtime to a new client, or why there is none."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Protocol

import msgspec
import zmq.asyncio

from sglang_lite import wire
from sglang_lite.errors import RuntimeUnavailable

WATCH = 0.25  # seconds between looks at the process


class Process(Protocol):
    """What can be asked whether the runtime still runs; a `subprocess.Popen` can."""

    def poll(self) -> int | None: ...


async def first_word(
    socket: zmq.asyncio.Socket, address: str, timeout: float, process: Process | None
) -> wire.Hello:
    """The greeting of the runtime at `address`.

    Raises:
        RuntimeUnavailable: nobody answers within `timeout` seconds, or `process` has ended.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout
    while (left := deadline - loop.time()) > 0:
        if process is not None and (code := process.poll()) is not None:
            raise RuntimeUnavailable(f"the runtime's process has ended with status {code}.")
        if await socket.poll(int(min(left, WATCH) * 1000) + 1):
            with contextlib.suppress(msgspec.MsgspecError):
                hello = wire.decode_from_runtime(await socket.recv())
                if isinstance(hello, wire.Hello):
                    return hello
            raise RuntimeUnavailable(f"who answers at {address} is no runtime of this version.")
    raise RuntimeUnavailable(f"no runtime answers at {address} within {timeout:g} s.")
