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
from sglang_lite.errors import InvalidConfig, RuntimeUnavailable
from sglang_lite.runtime.client import Client
from sglang_lite.runtime.launch import WorkerProcess, start_worker
from sglang_lite.runtime.server.app import create_app
from sglang_lite.runtime.server.service import ServerOptions, Service

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
        app = create_app(client, options)
        settings = uvicorn.Config(app, log_level="warning", access_log=False, lifespan="off")
        await _Server(settings, app.state.service).serve([listener])
        return 0 if client.alive else 1
    finally:
        await client.close()


class _Server(uvicorn.Server):
    """uvicorn, with its own end: a signal is not raised again, since the runtime must still be
    stopped, and requests that outlast the drain are told so instead of being cut off."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for each in sockets or ():
            host, port = each.getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            sys.stderr.write(
                f"sglang-lite: serving {self._service.model_name} at http://{shown}:{port}\n"
            )
            sys.stderr.flush()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        draining = asyncio.ensure_future(self._drain())
        await super().shutdown(sockets)
        draining.cancel()

    async def _drain(self) -> None:
        """Give open requests their time, and then their last word."""
        await asyncio.sleep(self._service.options.drain_seconds)
        for job in self._service.jobs.values():
            job.fail(RuntimeUnavailable("the server is stopping."))

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        for signum in SIGNALS:
            signal.signal(signum, self.handle_exit)
        yield


def _bind(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65535:  # the system would take it modulo 65536
        raise InvalidConfig(f"--port is between 0 and 65535, got {port}.")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise InvalidConfig(f"--host {host} cannot be listened on: {error}.") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise InvalidConfig(
            f"--port {port} on {host} cannot be listened on: {error}; choose another port, or 0 "
            "for any that is free."
        ) from error
    return listener


def _interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
