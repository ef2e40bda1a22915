"""What outlives the bot."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernelcup.bot.state import KEPT_S, Followed, Memory, Place


def followed(key: str = "k") -> Followed:
    return Followed(
        key=key,
        user_id=2**60,
        user_name="ada",
        guild_id=1,
        channel_id=2,
        request={"code": "secret", "file_name": "k.py"},
        reply={"token": "t"},
        began_at=1.0,
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "bot.db"


def test_a_submission_is_remembered_from_before_the_first_request(path: Path) -> None:
    Memory(path).begin(followed())
    (found,) = Memory(path).open_ones()
    assert found == followed()
    assert path.stat().st_mode & 0o077 == 0


def test_the_same_submission_begins_once() -> None:
    memory = Memory(":memory:")
    assert memory.begin(followed())
    assert not memory.begin(followed())
    memory.end("k")
    assert not memory.begin(followed())


def test_what_is_known_of_it_is_kept_and_its_code_is_not(path: Path) -> None:
    memory = Memory(path)
    memory.begin(followed())
    memory.accepted("k", 12)
    memory.placed("k", Place("thread", 5, 6))
    memory.seen("k", 99, {"1": {"device": "H100"}})
    memory.say("k", "report:1:0", 7)
    memory.close()
    again = Memory(path)
    (found,) = again.open_ones()
    assert (found.submission, found.place, found.last_event) == (12, Place("thread", 5, 6), 99)
    assert found.progress == {"1": {"device": "H100"}}
    assert found.request == {"file_name": "k.py"}
    assert again.said("k", "report:1:0") == 7
    assert again.said("k", "report:1:1") is None


def test_a_refused_submission_may_be_tried_again() -> None:
    memory = Memory(":memory:")
    memory.begin(followed())
    memory.drop("k")
    assert memory.begin(followed())


def test_what_ended_long_ago_is_forgotten() -> None:
    now = [0.0]
    memory = Memory(":memory:", clock=lambda: now[0])
    memory.begin(followed("old"))
    memory.say("old", "part", 1)
    memory.end("old")
    now[0] = KEPT_S + 1
    memory.begin(followed("new"))
    memory.end("new")
    assert memory.said("old", "part") is None
    assert memory.begin(followed("old"))


def test_settings_are_kept_by_name() -> None:
    memory = Memory(":memory:")
    memory.put("guild:1:forum", 5)
    memory.put("guild:2:forum", [1])
    memory.put("guildx", 1)
    assert memory.all_under("guild:") == {"guild:1:forum": 5, "guild:2:forum": [1]}
    memory.put("guild:1:forum", None)
    assert memory.get("guild:1:forum") is None
