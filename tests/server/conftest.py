"""One server for all tests that leave it alive."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from live_server import LiveServer, eventually


@pytest.fixture(scope="session")
def shared_server() -> Iterator[LiveServer]:
    with LiveServer("fake?delay=0.002&eos=0", "--max-queued-requests", "300") as live:
        yield live


@pytest.fixture
def server(shared_server: LiveServer) -> Iterator[LiveServer]:
    """The shared server; after each test nothing runs in it and every page has its owner."""
    yield shared_server
    assert eventually(shared_server.idle), shared_server.stats()
