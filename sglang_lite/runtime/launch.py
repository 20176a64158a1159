"""Starts a runtime in a process of its own, and makes sure that it does not outlive us."""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import shutil
import subprocess
import sys
import tempfile
import threading
import weakref
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import msgspec

from sglang_lite import errors
from sglang_lite.config import EngineConfig
from sglang_lite.errors import InvalidConfig, RuntimeUnavailable

STOP_WITHIN = 5.0  # seconds a runtime has to end by itself
LAST_WORDS = 20  # lines of its stderr that an error quotes


class WorkerProcess:
    """A running runtime. `stop` it, or let `with` do so; at exit all that is left is stopped."""

    def __init__(self, process: subprocess.Popen[str], folder: Path, address: str) -> None:
        self.process, self.address, self._folder = process, address, folder
        self.errors: deque[str] = deque(maxlen=LAST_WORDS)
        assert process.stderr is not None
        self._reader = threading.Thread(target=self._read, args=(process.stderr,), daemon=True)
        self._reader.start()
        _running.add(self)

    def stop(self) -> None:
        """End the process, kindly first; a second call does nothing."""
        process = self.process
        with contextlib.suppress(OSError):
            if process.stdin is not None:
                process.stdin.close()
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(STOP_WITHIN)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._reader.join(1.0)
        for stream in (process.stdout, process.stderr):
            if stream is not None and not self._reader.is_alive():
                stream.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        _running.discard(self)

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _read(self, stream: IO[str]) -> None:
        for line in stream:
            self.errors.append(line)
            sys.stderr.write(line)


_running: weakref.WeakSet[WorkerProcess] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    for worker in list(_running):
        worker.stop()


def start_worker(config: EngineConfig, *, core: str | None = None) -> WorkerProcess:
    """Start a runtime and wait until it is ready.

    Args:
        core: "module:function" that builds the core, in place of the one around a real model.

    Raises:
        InvalidConfig: it cannot start with this config; the message is the runtime's own.
        RuntimeUnavailable: it ended before it was ready.
    """
    folder = Path(tempfile.mkdtemp(prefix="sglang-lite-"))  # mode 0700: only we may connect
    address = f"ipc://{folder}/runtime"
    command = [sys.executable, "-m", "sglang_lite.runtime.worker"]
    process = subprocess.Popen(
        command + (["--core", core] if core else []),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is ours to hear; we then stop it
    )
    worker = WorkerProcess(process, folder, address)
    try:
        options = msgspec.json.encode({**dataclasses.asdict(config), "address": address})
        _tell(process, options.decode())
        assert process.stdout is not None
        _judge(process.stdout.readline(), worker)
    except BaseException:
        worker.stop()
        raise
    return worker


def _tell(process: subprocess.Popen[str], line: str) -> None:
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):  # it has ended already; `_judge` says so
        process.stdin.write(line + "\n")
        process.stdin.flush()


def _judge(line: str, worker: WorkerProcess) -> None:
    """Raise what the runtime's first line, or its absence, tells of."""
    if not line:
        status = worker.process.wait()
        worker._reader.join(1.0)
        said = "".join(worker.errors).strip() or "it said nothing"
        raise RuntimeUnavailable(
            f"the runtime ended with status {status} before it was ready: {said}"
        )
    word: dict[str, Any] = msgspec.json.decode(line)
    if "error" in word:
        kind = getattr(errors, word["kind"], RuntimeUnavailable)
        raise (
            kind(word["error"])
            if issubclass(kind, InvalidConfig)
            else RuntimeUnavailable(f"the runtime could not start: {word['error']}")
        )
