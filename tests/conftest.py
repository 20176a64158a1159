"""What several test folders share."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def smollm2_folder() -> Path:
    """The embedded default model; fetched and converted by the first test that ever asks."""
    from sglang_lite.runtime.model.hub import open_model

    return open_model("smollm2").folder
