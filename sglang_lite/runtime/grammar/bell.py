"""How one thread wakes another that sleeps in `select` or `poll`."""

from __future__ import annotations

import contextlib
import os


class Bell:
    """A pipe that holds a byte or more once it was rung; any thread may ring."""

    def __init__(self) -> None:
        self._heard, self._rope = os.pipe()
        os.set_blocking(self._heard, False)
        os.set_blocking(self._rope, False)

    def fileno(self) -> int:
        """Readable once it was rung; `drain` it before looking for what happened."""
        return self._heard

    def ring(self) -> None:
        with contextlib.suppress(BlockingIOError):  # full of unread ones: who reads wakes anyway
            os.write(self._rope, b"\0")

    def drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(self._heard, 4096):
                pass

    def close(self) -> None:
        os.close(self._rope)
        os.close(self._heard)
