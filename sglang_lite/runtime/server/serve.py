"""Runs a server: the runtime as a child process, a client of it, and HTTP in front.

The socket is bound before the model is loaded, so a port in use is known at once. Whatever ends
the server - a signal, an error, the runtime's death - the child is stopped.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Generator
from types import FrameType

import uvicorn

from sglang_lite.config import EngineConfig
from sglang_lite.errors import InvalidConfig
from sglang_lite.runtime.client import Client
from sglang_lite.runtime.launch import WorkerProcess, start_worker
from sglang_lite.runtime.server.app import create_app
from sglang_lite.runtime.server.service import ServerOptions

SIGNALS = (signal.SIGINT, signal.SIGTERM)


def serve(
    config: EngineConfig,
    *,
    host: str = "127.0.0.1",
    port: int = 30000,
    options: ServerOptions | None = None,
    core: str | None = None,
) -> int:
    """Serve until a signal says stop; the process's exit status.

    Args:
        core: "module:function" that builds the runtime's core, in place of a real model's.

    Raises:
        InvalidConfig: the port cannot be bound, or the runtime cannot start with `config`.
        RuntimeUnavailable: the runtime ended before it was ready.
    """
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    with contextlib.closing(_bind(host, port)) as listener:
        # Until uvicorn takes over, a signal is an exception: it ends the start of the runtime, too.
        for signum in SIGNALS:
            signal.signal(signum, _interrupt)
        try:
            with start_worker(config, core=core) as worker:
                return asyncio.run(_run(worker, listener, options or ServerOptions()))
        except KeyboardInterrupt:
            return 0


async def _run(worker: WorkerProcess, listener: socket.socket, options: ServerOptions) -> int:
    client = await Client.connect(worker.address, process=worker.process)
    try:
        settings = uvicorn.Config(
            create_app(client, options),
            log_level="warning",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=round(options.drain_seconds),
        )
        await _Server(settings, client.model.name).serve([listener])
        return 0 if client.alive else 1
    finally:
        await client.close()


class _Server(uvicorn.Server):
    """uvicorn, except that a signal ends the server and not, raised again, the process: what
    comes after, stopping the runtime, must still happen."""

    def __init__(self, config: uvicorn.Config, model: str) -> None:
        super().__init__(config)
        self._model = model

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for each in sockets or ():
            host, port = each.getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            sys.stderr.write(f"sglang-lite: serving {self._model} at http://{shown}:{port}\n")
            sys.stderr.flush()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        for signum in SIGNALS:
            signal.signal(signum, self.handle_exit)
        yield


def _bind(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, OverflowError) as error:
        raise InvalidConfig(f"--host {host} cannot be listened on: {error}.") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except (OSError, OverflowError) as error:
        listener.close()
        raise InvalidConfig(
            f"--port {port} on {host} cannot be listened on: {error}; choose another port, or 0 "
            "for any that is free."
        ) from error
    return listener


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
