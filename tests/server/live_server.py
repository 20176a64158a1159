"""A server in a process of its own, in front of a runtime without a model."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

import httpx
import psutil

from sglang_lite.testing import START, ByteTokenizer, draw, extend

LETTERS = list(b"abcdefghijklmnopqrstuvwxyz     ")
tokenizer = ByteTokenizer()


class LiveServer:
    """`sglang-lite serve` on a free port, until `stop`."""

    def __init__(self, model: str, *options: str) -> None:
        command = [sys.executable, "-m", "sglang_lite", "serve", "--port", "0", "--model", model]
        command += ["--core", "sglang_lite.testing:fake_core", *options]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.lines: list[str] = []
        self._ready = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._ready.wait(30), "".join(self.lines)
        found = re.search(r"http://\S+", "".join(self.lines))
        assert found is not None, "".join(self.lines)
        self.url = found[0]
        self.http = httpx.Client(base_url=self.url, timeout=30)

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if "serving" in line:
                self._ready.set()
        self._ready.set()

    def stats(self) -> dict[str, Any]:
        answer = self.http.get("/get_server_info")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def idle(self) -> bool:
        """Whether nothing runs, waits or is leased."""
        now = self.stats()
        parts = now["pages_free"] + now["pages_cached"]
        quiet = now["running"] == now["waiting"] == now["pages_leased"] == 0
        return quiet and now["open_http_requests"] == 0 and parts == now["pages_total"]

    def post(self, path: str, body: Any) -> httpx.Response:
        return self.http.post(path, json=body)

    @property
    def worker(self) -> psutil.Process:
        (found,) = psutil.Process(self.process.pid).children()
        return found

    def stop(self, wait: float = 15.0) -> int:
        """Ask it to end, as an operator would; its exit status."""
        self.http.close()
        self.process.terminate()
        try:
            return self.process.wait(wait)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            self._reader.join(5)
            assert self.process.stderr is not None
            self.process.stderr.close()

    def __enter__(self) -> LiveServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def fake_text(ids: list[int], tokens: int) -> str:
    """What the fake runtime answers to a prompt."""
    state, out = START, []
    for id in ids:
        state = extend(state, id)
    for _ in range(tokens):
        out.append(draw(state, LETTERS))
        state = extend(state, out[-1])
    return bytes(out).decode()


def chat_ids(*contents: str) -> list[int]:
    """The ids of a conversation of users' turns."""
    turns = [{"role": "user", "content": content} for content in contents]
    return tokenizer.encode(tokenizer.render_chat(turns), add_bos=False)


def eventually(condition: Callable[[], bool], within: float = 2.0) -> bool:
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
