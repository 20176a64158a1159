"""The HTTP application: its routers, and OpenAI's error body for whatever goes wrong."""

from __future__ import annotations

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from sglang_lite import __version__
from sglang_lite.errors import EngineFailed, SglangLiteError
from sglang_lite.runtime.client import Client
from sglang_lite.runtime.server import native, openai, ops
from sglang_lite.runtime.server.responses import Json, error_response
from sglang_lite.runtime.server.service import ServerOptions, Service


def create_app(client: Client, options: ServerOptions | None = None) -> FastAPI:
    """The application in front of a connected client. Whoever made the client closes it."""
    # No generated pages: they would load scripts from elsewhere and know nothing of the bodies.
    app = FastAPI(title="sglang_lite", version=__version__, openapi_url=None)
    app.state.service = Service(client, options or ServerOptions())
    for module in (openai, native, ops):
        app.include_router(module.router)
    app.add_exception_handler(SglangLiteError, _refused)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _broken)
    return app


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, SglangLiteError)
    if error.status < 500:
        request.app.state.service.refused += 1
    return error_response(error)


async def _http(request: Request, error: Exception) -> Response:
    """No such route, or a method it does not have."""
    assert isinstance(error, HTTPException)
    message = f"{error.detail}: {request.method} {request.url.path}"
    kind = "invalid_request_error" if error.status_code < 500 else "server_error"
    body = {"message": message, "type": kind, "param": None, "code": error.status_code}
    return Json({"error": body}, error.status_code, error.headers)


async def _broken(request: Request, error: Exception) -> Response:
    """Our own mistake. Starlette logs it with its trace; the caller learns no more than that."""
    return error_response(EngineFailed("the server made a mistake; its log says more."))
