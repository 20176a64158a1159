"""What goes back over HTTP: JSON, OpenAI's error body, and streams of server-sent events.

Every answer that takes long is made while the connection is watched: a reader that has gone
cancels the work, which aborts its requests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import aclosing
from typing import Any, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from sglang_lite.errors import EngineFailed, SglangLiteError

T = TypeVar("T")
logger = logging.getLogger(__name__)

CLIENT_GONE = 499  # nobody reads it; the number is nginx's


class Json(Response):
    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return msgspec.json.encode(content)


def error_body(error: SglangLiteError) -> dict[str, Any]:
    body = {
        "message": str(error),
        "type": error.kind,
        "param": getattr(error, "param", None),
        "code": error.status,  # an error inside a stream has no other place for it
    }
    return {"error": body}


def error_response(error: SglangLiteError) -> Json:
    headers = {"retry-after": "1"} if error.status in (429, 503) else None
    return Json(error_body(error), error.status, headers)


async def unless_gone(request: Request, work: Coroutine[Any, Any, Response]) -> Response:
    """What `work` answers, unless the reader goes first; then `work` is cancelled."""
    answer = await _race(work, request.receive)
    return answer or Response(status_code=CLIENT_GONE)


class EventStream(Response):
    """Objects as server-sent events.

    An error before the first event is an ordinary error answer with its status; later it is an
    event of its own, and the last one.
    """

    media_type = "text/event-stream"

    def __init__(
        self, events: AsyncGenerator[Any, None], headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(headers={"cache-control": "no-cache", **(headers or {})})
        del self.headers["content-length"]
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await _race(self._answer(scope, receive, send), receive)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def say(data: bytes) -> None:
            nonlocal started
            if not started:
                started = True
                head = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
                await send(head)
            body = b"data: %b\n\n" % data
            await send({"type": "http.response.body", "body": body, "more_body": True})

        async with aclosing(self._events) as events:
            try:
                async for event in events:
                    await say(msgspec.json.encode(event))
                await say(b"[DONE]")
            except Exception as caught:  # noqa: BLE001 - the reader must hear of it, whatever it is
                error = _public(caught)
                if not started:
                    await error_response(error)(scope, receive, send)
                    return
                await say(msgspec.json.encode(error_body(error)))
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _public(error: Exception) -> SglangLiteError:
    """The error as it may be shown: what we did not raise on purpose is only logged."""
    if isinstance(error, SglangLiteError):
        return error
    logger.error("an endpoint failed", exc_info=error)
    return EngineFailed("the server made a mistake; its log says more.")


async def _race(work: Coroutine[Any, Any, T], receive: Receive) -> T | None:
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(receive))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, gone):
            task.cancel()
        await asyncio.gather(working, gone, return_exceptions=True)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
