"""Something that is asked in a thread, because the answer takes long and nobody waits for it yet."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any


class Aside:
    """Asks at once.

    Args:
        ask: Returns the answer, and does not raise.
    """

    def __init__(self, ask: Callable[[], Any]) -> None:
        self._answer: Any = None
        self._thread = threading.Thread(target=self._run, args=(ask,), daemon=True)
        self._thread.start()

    def result(self) -> Any:
        """Return the answer once it is there."""
        self._thread.join()
        return self._answer

    def _run(self, ask: Callable[[], Any]) -> None:
        self._answer = ask()
