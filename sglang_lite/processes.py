"""Servers as processes of their own, for scripts and notebooks that start one and use it."""

from __future__ import annotations

import contextlib
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

import httpx
import psutil

from sglang_lite.errors import RuntimeUnavailable

GRACE_SECONDS = 15.0  # a server lets open requests end for some of them


def launch_server_cmd(
    command: str | Sequence[str], host: str = "127.0.0.1", port: int | None = None
) -> tuple[subprocess.Popen[bytes], int]:
    """Start a server, as with `python -m sglang_lite serve --model smollm2`.

    Host and port are added to the command, which no shell sees; a leading `python` is the one that
    runs this.

    Args:
        port: None: one that is free now.
    """
    words = shlex.split(command.replace("\\\n", " ")) if isinstance(command, str) else list(command)
    if words[0] in ("python", "python3"):
        words[0] = sys.executable
    chosen = _free_port(host) if port is None else port
    process = subprocess.Popen([*words, "--host", host, "--port", str(chosen)])
    return process, chosen


def wait_for_server(
    base_url: str,
    timeout: float | None = None,
    process: subprocess.Popen[bytes] | None = None,
) -> None:
    """Wait until a server answers; with its `process`, no longer than that lives.

    Raises:
        TimeoutError: it did not within `timeout` seconds.
        RuntimeUnavailable: the process ended.
    """
    deadline = None if timeout is None else time.monotonic() + timeout
    with httpx.Client(timeout=5) as http:
        while True:
            with contextlib.suppress(httpx.TransportError):
                if http.get(f"{base_url.rstrip('/')}/v1/models").is_success:
                    return
            if process is not None and (status := process.poll()) is not None:
                raise RuntimeUnavailable(
                    f"the server for {base_url} ended with status {status} before it answered."
                )
            if deadline is not None and time.monotonic() > deadline:
                raise TimeoutError(f"{base_url} did not answer within {timeout:g} s.")
            time.sleep(0.1)


def terminate_process(process: subprocess.Popen[bytes]) -> None:
    """End a process and those that it started: politely, and after a while for certain."""
    try:
        family = [*psutil.Process(process.pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        family = []
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(GRACE_SECONDS)
    if process.poll() is None:
        process.kill()
        process.wait()
    _, left = psutil.wait_procs(family, timeout=1)
    for each in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()


def _free_port(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
