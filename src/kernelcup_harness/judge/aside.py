"""A slow call in a background thread, whose result is needed later."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Aside:
    """Starts the call at once.

    Args:
        ask: Returns the answer, and does not raise.
    """

    def __init__(self, ask: Callable[[], Any]) -> None:
        self._answer: Any = None
        self._thread = threading.Thread(target=self._run, args=(ask,), daemon=True)
        self._thread.start()

    def result(self) -> Any:
        """Wait for the answer and return it."""
        self._thread.join()
        return self._answer

    def _run(self, ask: Callable[[], Any]) -> None:
        self._answer = ask()
