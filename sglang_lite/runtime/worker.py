"""The runtime's loop: one ROUTER socket around `EngineCore.step`, for any number of clients.

As a process (`python -m sglang_lite.runtime.worker`) it reads its options as one line of JSON
from stdin and writes one line of JSON to stdout, when it is ready or why it cannot be. When stdin
ends, whoever started it is gone, and it ends too. `Engine` runs the same loop in a thread.
"""

from __future__ import annotations

import importlib
import os
import secrets
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import msgspec
import zmq

from sglang_lite import wire
from sglang_lite.config import EngineConfig
from sglang_lite.errors import InvalidRequest, SglangLiteError
from sglang_lite.runtime.clients import Clients
from sglang_lite.runtime.core import EngineCore
from sglang_lite.runtime.transport import router

BEAT = 1.0  # seconds
NAP = 0.2  # most seconds between looks at the stop flag
INTAKE = 1024  # most messages read between two steps
CHECK_EVERY = 10.0  # seconds between looks for lost pages, when idle
DEFAULT_CORE = "sglang_lite.runtime.build:build_core"

Builder = Callable[[EngineConfig], tuple[EngineCore, wire.ModelInfo]]


class Worker:
    """Serves `core` at `socket` until told to stop."""

    def __init__(self, core: EngineCore, model: wire.ModelInfo, socket: zmq.Socket[bytes]) -> None:
        self.core, self.socket = core, socket
        self.hello = wire.Hello(wire.VERSION, secrets.token_hex(8), model)
        self.clients = Clients(socket, core.drop)
        self.stopping = threading.Event()
        self._poller = zmq.Poller()
        self._poller.register(socket, zmq.POLLIN)
        if core.grammars is not None:
            self._poller.register(core.grammars.fileno(), zmq.POLLIN)
        self._beat_at = self._check_at = 0.0

    def run(self) -> None:
        """Until `stopping` is set.

        Raises:
            Exception: the engine failed; everybody has been told.
        """
        reason = "the runtime was stopped."
        try:
            while not self.stopping.is_set():
                self._receive()
                self._step()
        except Exception as error:
            reason = f"the runtime has failed: {error}"
            raise
        finally:
            self.clients.deliver(self.core.close(reason))
            self.socket.close(linger=500)

    def _step(self) -> None:
        now = time.monotonic()
        if not self.core.idle:
            self.clients.deliver(self.core.step())
            self._check_at = 0.0
        elif now > self._check_at:
            self.core.check()
            self._check_at = now + CHECK_EVERY
        if now > self._beat_at:
            self.clients.beat(self.core.steps)
            self._beat_at = now + BEAT

    def _receive(self) -> None:
        if self.core.stalled:
            self._wait()
        for _ in range(INTAKE):
            try:
                frames = self.socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return
            identity, data = frames[0], b"".join(frames[1:])
            try:
                self._take(identity, wire.decode_to_runtime(data))
            except InvalidRequest as error:
                self.clients.fail(identity, -1, error.status, str(error))

    def _wait(self) -> None:
        """Until there is a message, a grammar is there, or it is time to look around."""
        self._poller.poll(int(NAP * 1000))
        if self.core.grammars is not None:
            self.core.grammars.drain()

    def _take(self, identity: bytes, message: wire.ToRuntime) -> None:
        if isinstance(message, wire.Attach):
            self.clients.greet(identity, self.hello)
        elif isinstance(message, wire.Submit):
            self._submit(identity, message)
        elif isinstance(message, wire.Abort):
            self.core.abort(identity, message.id)
        elif isinstance(message, wire.Ack):
            self.clients.acknowledge(identity, message.seq)
        elif isinstance(message, wire.Ask):
            answer = self._answer(message.about)
            self.clients.send(identity, lambda seq: wire.Answer(seq, message.id, answer))
        elif isinstance(message, wire.End):
            self.core.end_program(identity, message.program)
        else:
            self.core.drop(identity)
            self.clients.forget(identity)

    def _submit(self, identity: bytes, message: wire.Submit) -> None:
        if identity not in self.clients:
            return  # it never attached, or is gone: nobody would hear the answer
        try:
            self.core.submit(identity, message)
        except SglangLiteError as error:
            param = getattr(error, "param", None)
            self.clients.fail(identity, message.id, error.status, str(error), param)

    def _answer(self, about: str) -> dict[str, float | int | str | bool]:
        if about == "stats":
            return self.core.stats()
        if about == "flush":
            return {"flushed": self.core.flush()}
        if about == "check":
            self.core.check()
            return {"sound": True}
        return {"error": f"nothing is known about {about!r}; ask about stats, flush or check."}


def load_builder(name: str) -> Builder:
    """The function that "module:function" names."""
    module, _, function = name.partition(":")
    builder: Builder = getattr(importlib.import_module(module), function)
    return builder


def main(arguments: list[str]) -> int:
    """The process: returns its exit status."""
    core_name = arguments[arguments.index("--core") + 1] if "--core" in arguments else DEFAULT_CORE
    # Only the line below may be written to stdout: what libraries print goes to stderr.
    words = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    try:
        worker, address = _prepare(core_name, sys.stdin)
    except SglangLiteError as error:
        _say(words, error=str(error), kind=type(error).__name__)
        return 2
    except Exception as error:  # noqa: BLE001 - the parent must hear of it, whatever it is
        traceback.print_exc()
        _say(words, error=f"{type(error).__name__}: {error}", kind="EngineFailed")
        return 1
    for signum in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signum, lambda *_: worker.stopping.set())
    threading.Thread(target=_follow_parent, args=(worker,), daemon=True).start()
    _say(words, ready=True, model=worker.hello.model.name)
    try:
        worker.run()
    except Exception:  # noqa: BLE001
        traceback.print_exc()
        return 1
    finally:
        _remove(address)
    return 0


def _prepare(core_name: str, stdin: IO[str]) -> tuple[Worker, str]:
    options: dict[str, Any] = msgspec.json.decode(stdin.readline())
    address = options.pop("address")
    core, model = load_builder(core_name)(EngineConfig.of(options))
    return Worker(core, model, router(address)), address


def _follow_parent(worker: Worker) -> None:
    """Stop when stdin ends: the parent closed it, or died in whatever way."""
    while os.read(0, 4096):  # not through sys.stdin, whose lock would be held at exit
        pass
    worker.stopping.set()
    time.sleep(10.0)
    os._exit(1)  # a step that does not end must not outlive the parent


def _remove(address: str) -> None:
    """The socket's file and its folder: a parent that was killed leaves them to us."""
    path = Path(address.removeprefix("ipc://"))
    with suppress(OSError):  # the parent was faster
        path.unlink()
        path.parent.rmdir()


def _say(words: IO[str], **line: Any) -> None:
    words.write(msgspec.json.encode(line).decode() + "\n")
    words.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
