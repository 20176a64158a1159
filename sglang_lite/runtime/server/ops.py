"""For those who operate the server: is it alive, and what is it doing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter, Request
from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from starlette.responses import Response

from sglang_lite.errors import RuntimeUnavailable
from sglang_lite.runtime.server.responses import Json
from sglang_lite.runtime.server.service import Service

router = APIRouter()
PREFIX = "sglang_lite_"

GAUGES = {
    "running": ("num_running_reqs", "Requests that are being computed."),
    "waiting": ("num_queue_reqs", "Requests that wait for a place."),
    "page_size": ("page_size_tokens", "Tokens in a page of the KV pool."),
}
OWNERS = {
    "free": "pages_free",
    "cached": "pages_cached",
    "shared": "pages_shared",
    "leased": "pages_leased",
}
COUNTERS = {
    "cached_tokens": ("cached_tokens", "Prompt tokens whose KV was found instead of computed."),
    "computed_prompt_tokens": ("computed_prompt_tokens", "Prompt tokens that were computed."),
    "computed_decode_tokens": ("generation_tokens", "Tokens that were generated."),
    "duplicate_prefill_tokens": (
        "duplicate_prefill_tokens",
        "Prompt tokens computed although their page was cached.",
    ),
    "retractions": ("retracted_reqs", "Times a request had to make room and start again."),
    "steps": ("steps", "Forward passes."),
}
OUTCOMES = ("finished", "aborted", "failed")


@router.get("/health")
async def health(request: Request) -> Response:
    """200 while the runtime lives; 503 from the moment it does not."""
    service: Service = request.app.state.service
    if not service.client.alive:
        raise RuntimeUnavailable("the runtime is gone; restart the server.")
    return Json({"status": "ok"})


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    service: Service = request.app.state.service
    try:
        stats = await service.ask("stats")
    except RuntimeUnavailable:
        stats = {}
    collectors = CollectorRegistry()
    collectors.register(_Snapshot(service, stats))
    return Response(generate_latest(collectors), media_type="text/plain; version=0.0.4")


class _Snapshot:
    """The numbers of one scrape: the runtime counts, this only names."""

    def __init__(self, service: Service, stats: dict[str, Any]) -> None:
        self._service, self._stats = service, stats

    def collect(self) -> Iterator[Metric]:
        service, stats = self._service, self._stats
        yield _gauge("up", "1 while the runtime lives.", float(service.client.alive))
        yield _gauge("open_http_requests", "HTTP requests being answered.", len(service.jobs))
        yield _gauge("uptime_seconds", "Since the server started.", time.time() - service.started)
        requests = CounterMetricFamily(
            f"{PREFIX}requests", "Requests that ended, by outcome.", labels=["outcome"]
        )
        requests.add_metric(["refused"], service.refused)
        for outcome in OUTCOMES:
            if outcome in stats:
                requests.add_metric([outcome], stats[outcome])
        yield requests
        for key, (name, about) in GAUGES.items():
            if key in stats:
                yield _gauge(name, about, stats[key])
        for key, (name, about) in COUNTERS.items():
            if key in stats:
                yield CounterMetricFamily(PREFIX + name, about, value=stats[key])
        pages = GaugeMetricFamily(
            f"{PREFIX}kv_pages", "Pages of the KV pool, by owner.", labels=["owner"]
        )
        for owner, key in OWNERS.items():
            if key in stats:
                pages.add_metric([owner], stats[key])
        yield pages


def _gauge(name: str, about: str, value: float) -> Metric:
    return GaugeMetricFamily(PREFIX + name, about, value=value)
