"""An HTTP server that speaks JSON: requests, retries, streams of events, errors.

A request is sent again only while nothing of its answer has come, and only if the server said
that it may work later or never got it. Waits grow, and end: nobody waits for a dead server longer
than a few seconds.
"""

from __future__ import annotations

import asyncio
import json
import random
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx

from sglang_lite.errors import RequestFailed, RuntimeUnavailable, SglangLiteError, from_status
from sglang_lite.loop import LoopThread

MAX_CONNECTIONS = 512  # more requests wait for a free one
CONNECT_SECONDS = 5.0
FIRST_WAIT = 0.25  # seconds; doubled each time
LONGEST_WAIT = 8.0
LONGEST_ASKED_WAIT = 60.0  # a server that asks for more is not waited for
PASSING = frozenset({408, 429, 500, 502, 503, 504})


class JsonApi:
    """Belongs to the loop in which it is used.

    Args:
        timeout: seconds in which something must arrive; None: as long as it takes.
        max_retries: how often a request is sent again.
        verify: the certificates to trust, as httpx takes them.
    """

    def __init__(
        self,
        base_url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout: float | None = None,
        max_retries: int = 0,
        verify: Any = True,
    ) -> None:
        self.base_url, self.timeout, self.max_retries = base_url.rstrip("/"), timeout, max_retries
        connect = CONNECT_SECONDS if timeout is None else min(timeout, CONNECT_SECONDS)
        self._http = httpx.AsyncClient(
            base_url=self.base_url,
            headers=headers,
            verify=verify,
            timeout=httpx.Timeout(timeout, connect=connect, pool=None),
            limits=httpx.Limits(max_connections=MAX_CONNECTIONS),
        )

    async def get(self, path: str) -> Any:
        return await self._whole("GET", path, None)

    async def post(self, path: str, body: Mapping[str, Any]) -> Any:
        """The answer to `body`.

        Raises:
            RuntimeUnavailable: nobody answers, or not within the timeout.
            RequestFailed: the answer is not JSON, or the server broke.
            SglangLiteError: what the server says, as `from_status` has it.
        """
        return await self._whole("POST", path, body)

    async def stream(self, path: str, body: Mapping[str, Any]) -> AsyncGenerator[Any, None]:
        """The events that answer `body`; raises what `post` does, also in the middle."""
        async with self._open("POST", path, body) as response:
            async for line in response.aiter_lines():
                data = line[5:].strip() if line.startswith("data:") else ""
                if not data or data == "[DONE]":
                    continue
                event = self._read(data.encode())
                if isinstance(event, dict) and event.get("error"):
                    raise error_of(_code(event["error"]), data.encode())
                yield event

    async def close(self) -> None:
        await self._http.aclose()

    async def _whole(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        async with self._open(method, path, body) as response:
            return self._read(await response.aread())

    @asynccontextmanager
    async def _open(
        self, method: str, path: str, body: Mapping[str, Any] | None
    ) -> AsyncIterator[httpx.Response]:
        """A response with status 200, of which nothing is read yet."""
        response = await self._send(method, path, body)
        try:
            yield response
        except httpx.TimeoutException as error:
            raise self._silent() from error
        except (httpx.TransportError, httpx.DecodingError) as error:
            raise RuntimeUnavailable(f"{self.base_url} broke off: {_said(error)}") from error
        finally:
            await response.aclose()

    async def _send(self, method: str, path: str, body: Any) -> httpx.Response:
        for attempt in range(self.max_retries + 1):
            failure, wait = None, min(FIRST_WAIT * 2**attempt, LONGEST_WAIT)
            wait *= random.uniform(0.75, 1.0)  # so that many do not come back at once
            try:
                request = self._http.build_request(method, path, json=body)
                response = await self._http.send(request, stream=True)
                if response.is_success:
                    return response
                failure, asked = await self._refusal(response)
                if asked is None:
                    raise failure
                wait = max(wait, asked)
            except (httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError) as error:
                failure = RuntimeUnavailable(f"{self.base_url} does not answer: {_said(error)}")
                failure.__cause__ = error
            except httpx.ConnectTimeout as error:
                message = f"{self.base_url} cannot be reached within {CONNECT_SECONDS:g} s."
                raise RuntimeUnavailable(message) from error
            except httpx.TimeoutException as error:
                raise self._silent() from error
            except httpx.TransportError as error:
                message = f"{self.base_url} does not answer: {_said(error)}"
                raise RuntimeUnavailable(message) from error
            if attempt == self.max_retries:
                raise failure
            await asyncio.sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    async def _refusal(self, response: httpx.Response) -> tuple[SglangLiteError, float | None]:
        """What a failed response says, and the seconds it asks to wait; None: do not try again."""
        try:
            body = await response.aread()
        except httpx.DecodingError as error:
            body = _said(error).encode()
        finally:
            await response.aclose()
        failure = error_of(response.status_code, body)
        if response.status_code not in PASSING or b"insufficient_quota" in body:
            return failure, None
        asked = _seconds(response.headers.get("retry-after", ""))
        return failure, asked if asked <= LONGEST_ASKED_WAIT else None

    def _read(self, data: bytes) -> Any:
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise RequestFailed(
                f"{self.base_url} answered with what is not JSON ({error}): {data[:200]!r}."
            ) from error

    def _silent(self) -> RuntimeUnavailable:
        return RuntimeUnavailable(
            f"{self.base_url} sent nothing for {self.timeout:g} s, the `timeout` of this backend."
        )


def error_of(status: int, body: bytes) -> SglangLiteError:
    """What a failed answer says, as the exception it was on the other side."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return from_status(status, body.decode(errors="replace")[:500] or f"status {status}")
    error = said.get("error", said) if isinstance(said, dict) else said
    if not isinstance(error, dict):
        return from_status(status, str(error))
    return from_status(status, str(error.get("message", error)), error.get("param"))


def _seconds(said: str) -> float:
    """What a Retry-After header asks for; 0 if it names a date or is no number."""
    try:
        seconds = float(said)
    except ValueError:
        return 0.0
    return seconds if seconds >= 0 else 0.0


def _code(error: Any) -> int:
    """The status that an error amid a stream has."""
    code = error.get("code") if isinstance(error, dict) else None
    return code if isinstance(code, int) else 500


def _said(error: Exception) -> str:
    return str(error) or type(error).__name__


def close_with(owner: object, api: JsonApi, loop: LoopThread) -> None:
    """Close the connections once `owner` is garbage: not everybody calls `shutdown`."""

    def close() -> None:
        if not loop.loop.is_closed():
            asyncio.run_coroutine_threadsafe(api.close(), loop.loop)

    weakref.finalize(owner, close).atexit = False
