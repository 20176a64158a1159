"""The runtime's end of a compiling process: started when needed, ended when it takes too long."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import IO

from sglang_lite.errors import EngineFailed, GrammarTooLarge, RuntimeUnavailable, SglangLiteError
from sglang_lite.runtime.grammar import frames, jobs

CLOCK = 4  # seconds by the clock for each second of CPU time: the machine has other work
SHORT_OF_MEMORY = (-signal.SIGKILL, -signal.SIGABRT, -signal.SIGSEGV)  # how it then ends
ONE_THREAD = dict.fromkeys(
    ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "RAYON_NUM_THREADS", "MALLOC_ARENA_MAX"), "1"
)


class CompilingProcess:
    """Asked by one thread at a time; `close` may come from another."""

    def __init__(self, seconds: int, megabytes: int) -> None:
        self.seconds, self.megabytes = seconds, megabytes
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None
        self._closed = False
        self._lock = threading.Lock()  # a process is never started behind the back of `close`

    def start(self) -> subprocess.Popen[bytes]:
        """The process, started unless it runs.

        Raises:
            RuntimeUnavailable: it was closed.
        """
        with self._lock:
            if self._closed:
                raise RuntimeUnavailable("the runtime is stopping.")
            if self._process is not None and self._process.poll() is not None:
                self._release(self._process)
                self._process = None
            if self._process is None:
                self._process = self._launch()
            return self._process

    def _launch(self) -> subprocess.Popen[bytes]:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the process runs
        return subprocess.Popen(
            [sys.executable, "-m", "sglang_lite.runtime.grammar.child",
             str(self.seconds), str(self.megabytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env={**os.environ, **ONE_THREAD},
            start_new_session=True,  # Ctrl-C is the runtime's to hear
        )  # fmt: skip

    def compile(self, job: jobs.Job, patience: float | None = None) -> jobs.Result | None:
        """The result of `job`; None if it takes longer than `patience` seconds, and is given up.

        Raises:
            GrammarTooLarge: it took more time or memory than it may.
            EngineFailed: the process does not run here.
            RuntimeUnavailable: it was closed.
        """
        process = self.start()
        deadline = time.monotonic() + (patience or CLOCK * self.seconds)
        try:
            _write(process, frames.framed(jobs.encode(job)), deadline)
            return jobs.decode_result(_read(process, deadline))
        except TimeoutError:  # an OSError too, so it comes first
            self.stop()
            if patience is not None:
                return None
            raise GrammarTooLarge(
                f"compiling it took more than {CLOCK * self.seconds} s by the clock, four times "
                "--grammar-compile-seconds; simplify it.",
                param=job.constraint.kind,
            ) from None
        except (OSError, EOFError):
            raise self._why(process, job) from None

    def stop(self) -> None:
        """End the process now; the next `compile` starts another."""
        with self._lock:
            process, self._process = self._process, None
            if process is not None:
                self._release(process)

    def _release(self, process: subprocess.Popen[bytes]) -> None:
        with contextlib.suppress(OSError):
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, self._said):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def close(self) -> None:
        """Stop it for good."""
        with self._lock:
            self._closed = True
            if self._process is not None:
                with contextlib.suppress(OSError):
                    self._process.kill()

    def _last(self) -> str:
        """The last line of what the process had to say."""
        assert self._said is not None
        self._said.seek(0)
        lines = self._said.read(1 << 20).decode(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else ""

    def _why(self, process: subprocess.Popen[bytes], job: jobs.Job) -> SglangLiteError:
        """What the end of `process`, in the middle of `job`, must have come from."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(1.0)
        last = self._last()
        self.stop()
        status = process.returncode
        if status == -signal.SIGXCPU:
            reason = f"took more than {self.seconds} s of CPU time (--grammar-compile-seconds)"
        elif status in SHORT_OF_MEMORY or jobs.short_of_memory(last):
            reason = f"needs more than {self.megabytes} MiB (--grammar-compile-mb)"
        else:
            return EngineFailed(f"the compiling process ended by itself ({status}): {last}")
        return GrammarTooLarge(f"compiling it {reason}; simplify it.", param=job.constraint.kind)


def _write(process: subprocess.Popen[bytes], data: bytes, deadline: float) -> None:
    assert process.stdin is not None
    file = process.stdin.fileno()
    os.set_blocking(file, False)  # a pipe that nobody reads is full at some time
    while data:
        _await(deadline, to_write=file)
        data = data[os.write(file, data) :]


def _read(process: subprocess.Popen[bytes], deadline: float) -> bytes:
    assert process.stdout is not None
    file = process.stdout.fileno()
    data = bytearray()
    wanted = 4
    while len(data) < wanted:
        _await(deadline, to_read=file)
        piece = os.read(file, 1 << 20)
        if not piece:
            raise EOFError
        data += piece
        if wanted == 4 and len(data) >= 4:
            wanted = 4 + int.from_bytes(data[:4], "little")
    return bytes(data[4:])


def _await(deadline: float, *, to_read: int | None = None, to_write: int | None = None) -> None:
    wanted = select.poll()
    if to_read is not None:
        wanted.register(to_read, select.POLLIN)
    if to_write is not None:
        wanted.register(to_write, select.POLLOUT)
    left = deadline - time.monotonic()
    if left <= 0 or not wanted.poll(1000 * left):
        raise TimeoutError
