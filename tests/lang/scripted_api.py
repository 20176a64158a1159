"""A server that answers from a script, well or badly: for what a real one does only on bad days."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import sglang_lite as sgl
from sglang_lite.loop import LoopThread


@dataclass
class Reply:
    """One answer. `hang`: seconds before it; `cut`: the connection breaks after it."""

    body: Any = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    hang: float = 0.0
    cut: bool = False

    def data(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


def events(*pieces: Any, done: bool = True) -> bytes:
    lines = [f"data: {json.dumps(piece)}\n\n" for piece in pieces]
    return "".join([*lines, "data: [DONE]\n\n" * done]).encode()


def chat(text: str, finish: str | None = "stop", **more: Any) -> dict[str, Any]:
    return {"id": "x", "choices": [{"index": 0, "delta": {"content": text}, **_end(finish)}]} | more


def completion(text: str, finish: str | None = "stop", **more: Any) -> dict[str, Any]:
    return {"id": "x", "choices": [{"index": 0, "text": text, **_end(finish)}]} | more


def error(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": "t", **more}}


def _end(finish: str | None) -> dict[str, Any]:
    return {"finish_reason": finish}


class ScriptedApi:
    """Each request takes the next of `replies`; `seen` has (path, body, headers) of all."""

    def __init__(self, *replies: Reply) -> None:
        self.replies = list(replies)
        self.seen: list[tuple[str, Any, dict[str, str]]] = []
        self._loop = LoopThread("scripted api")
        self._server = self._loop.run(asyncio.start_server(self._serve, "127.0.0.1", 0))
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/v1"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._one(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {k.lower(): v for k, _, v in (line.partition(": ") for line in head[1:]) if k}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.seen.append((head[0].split()[1], json.loads(body) if body else None, headers))
        reply = self.replies.pop(0)
        await asyncio.sleep(reply.hang)
        data = reply.data()
        length = len(data) + 100 * reply.cut
        sent = {"content-length": str(length), "connection": "close", **reply.headers}
        lines = [f"HTTP/1.1 {reply.status} x", *(f"{k}: {v}" for k, v in sent.items())]
        writer.write(("\r\n".join(lines) + "\r\n\r\n").encode() + data)
        await writer.drain()

    @property
    def bodies(self) -> list[Any]:
        return [body for _, body, _ in self.seen]

    def __enter__(self) -> ScriptedApi:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        async def end() -> None:
            self._server.close()
            tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        self._loop.run(end())
        self._loop.close()


def run(body: Any, backend: Any, **options: Any) -> Any:
    return sgl.function(body).run(backend=backend, **options)


def cause(state: Any) -> BaseException:
    found = state.error()
    assert found is not None
    return found.__cause__
