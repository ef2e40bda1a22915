"""What wakes those who wait for a change of agents' calls."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from kernelcup.app.machines import call_watch
from kernelcup.app.machines.call_watch import CallWatch
from kernelcup.errors import StorageUnavailable

PATIENCE_S = 60.0


class Gone:
    """A database that cannot be read; somebody stops waiting when that is seen."""

    def __init__(self) -> None:
        self.watch: CallWatch[int] = CallWatch(cast("Any", self), lambda _keys: [])
        self.tries = 0

    def changes(self) -> Any:
        self.tries += 1
        if self.tries == 3:
            self.watch.forget(1)
        raise StorageUnavailable("it is gone")


def test_nobody_is_watched_for_in_a_database_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_watch, "UNASKED_S", 0.0)
    gone = Gone()
    gone.watch.add(1, lambda: None)
    for thread in [each for each in threading.enumerate() if each.name == "agent-calls"]:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    assert gone.tries == 3
