"""The forum: a thread for each leaderboard, its changes and its reminders."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from discord_loopback import Channel, LoopbackDiscord
from discord_loopback.messages import write
from sqlalchemy import delete, update
from stage import NO_MENTIONS, Stage, connected, staged

from builders import NOW, make_device, make_task
from kernelcup.app.boards.boards import delete_board
from kernelcup.app.boards.changes import update_board
from kernelcup.app.boards.settings import BoardChanges
from kernelcup.bot.delivery import forum
from kernelcup.bot.messages import boards
from kernelcup.domain import OPERATOR, Visibility
from kernelcup.tables import LeaderboardDeviceRow, LeaderboardRow

pytestmark = pytest.mark.anyio

SINGLE = b"""\
def check_implementation(user_output, reference_output) -> bool: ...
def generate_input(): ...
def ref_kernel(data): ...
"""
WEEK = timedelta(days=7)


def texts_of(stage: Stage, name: str) -> list[str]:
    """Return what a thread says below its first message."""
    return [message.content for message in stage.discord.messages(stage.posts()[name])[1:]]


def reminders_of(stage: Stage, name: str) -> list[str]:
    """Return the reminders of a thread, without the name and the moment."""
    found = [text for text in texts_of(stage, name) if text.startswith("⏰")]
    return [text.split(" is left")[0].removeprefix("⏰ Less than ") for text in found]


def change(stage: Stage, name: str, **changes: object) -> None:
    """Change a leaderboard's settings."""
    now = stage.discord.clock.now()
    update_board(stage.db, OPERATOR, name, changes=BoardChanges(**changes), now=now, force=True)  # type: ignore[arg-type]


async def pass_until(stage: Stage, moment: object, *, before: timedelta) -> None:
    """Let time pass until so long before a moment, then let the bot look."""
    left = (moment - stage.discord.clock.now() - before).total_seconds()  # type: ignore[operator]
    stage.discord.advance(left)
    await stage.look_at_forum()


async def test_a_leaderboard_has_a_thread_with_description_template_and_deadline(stage: Stage) -> None:
    task = make_task(templates={"Python": "def custom_kernel(data): ...\n"})
    deadline = stage.discord.clock.now() + 4 * WEEK
    stage.board("double", task=task, deadline=deadline)
    await stage.look_at_forum()
    top = stage.top("double")
    assert "Double every element." in top.content.replace("\\", "")
    assert f"<t:{int(deadline.timestamp())}:f>" in top.content
    assert "https://cup.example.org/b/double" in top.content
    (python, _), (cuda, _) = files = [(name, text.decode()) for name, text in top.files.items()]
    assert (python, cuda) == ("double-python.py", "double-cuda_c.cu")
    assert [text.splitlines()[0] for _, text in files] == [
        "#!POPCORN leaderboard double",
        "//!POPCORN leaderboard double",
    ]


async def test_a_leaderboard_that_is_made_on_discord_has_its_thread_at_once(
    loopback: LoopbackDiscord, sqlite_template: Path, tmp_path: Path
) -> None:
    given = {"leaderboard_name": "same", "deadline": "2026-12-24", "gpus": "H100"}
    file = ("reference_code.py", SINGLE)
    async with staged(loopback, sqlite_template, tmp_path, (make_device(),), with_forum=True) as stage:
        await stage.discord.slash(stage.creator(), stage.room, "leaderboard create", given, file)
        assert (await stage.post("same")).name == "same"


async def test_reminders_come_a_week_a_day_and_an_hour_before_the_end_and_once_each(stage: Stage) -> None:
    deadline = stage.discord.clock.now() + 4 * WEEK
    stage.board("double", deadline=deadline)
    await stage.look_at_forum()
    assert reminders_of(stage, "double") == []
    for before, told in (
        (timedelta(days=7), ["a week"]),
        (timedelta(days=6), ["a week"]),
        (timedelta(hours=24), ["a week", "a day"]),
        (timedelta(minutes=59), ["a week", "a day", "an hour"]),
        (timedelta(minutes=-5), ["a week", "a day", "an hour"]),
    ):
        await pass_until(stage, deadline, before=before)
        await stage.look_at_forum()
        assert reminders_of(stage, "double") == told


async def test_what_passed_while_the_bot_was_away_is_told_with_the_last_reminder_only(stage: Stage) -> None:
    deadline = stage.discord.clock.now() + 4 * WEEK
    stage.board("double", deadline=deadline)
    await stage.look_at_forum()
    await pass_until(stage, deadline, before=timedelta(minutes=30))
    assert reminders_of(stage, "double") == ["an hour"]


async def test_a_short_leaderboard_is_not_reminded_of_what_was_never_ahead(stage: Stage) -> None:
    stage.board("double", deadline=stage.discord.clock.now() + timedelta(hours=20))
    await stage.look_at_forum()
    await stage.look_at_forum()
    assert reminders_of(stage, "double") == []


async def test_a_restart_posts_nothing_twice(stage: Stage) -> None:
    deadline = stage.discord.clock.now() + WEEK + timedelta(hours=1)
    stage.board("double", deadline=deadline)
    await stage.look_at_forum()
    await pass_until(stage, deadline, before=timedelta(days=6))
    await stage.bot.close()
    async with connected(stage.discord, stage.guild, stage.bot_config) as bot:
        await forum.look(bot, bot.parts, stage.discord.clock.now())
    assert list(stage.posts()) == ["double"]
    assert reminders_of(stage, "double") == ["a week"]


async def test_a_thread_that_was_made_but_not_remembered_is_found_again(stage: Stage) -> None:
    stage.board("double")
    await stage.look_at_forum()
    for name in stage.bot.parts.memory.all_under("forum:"):
        stage.bot.parts.memory.put(name, None)
    await stage.look_at_forum()
    assert len(stage.discord.threads(stage.forum)) == 1


async def test_a_thread_that_has_been_archived_since_is_found_again(stage: Stage) -> None:
    stage.board("double")
    await stage.look_at_forum()
    for name in stage.bot.parts.memory.all_under("forum:"):
        stage.bot.parts.memory.put(name, None)
    stage.discord.advance(30 * 86400)
    await stage.look_at_forum()
    assert len(stage.discord.threads(stage.forum)) == 1


def imported(stage: Stage, name: str, thread: Channel) -> None:
    """Store a leaderboard that had a thread before it was imported."""
    board = stage.board(name)
    with stage.db.write() as session:
        mine = update(LeaderboardRow).where(LeaderboardRow.id == board.id)
        session.execute(mine.values(discord_thread=str(thread.id)))


async def test_an_imported_leaderboard_keeps_the_thread_of_the_same_bot_whatever_its_name_is(
    stage: Stage,
) -> None:
    stage.board("before")
    await stage.look_at_forum()
    thread = stage.posts()["before"]
    for name in stage.bot.parts.memory.all_under("forum:"):
        stage.bot.parts.memory.put(name, None)
    with stage.db.write() as session:
        session.execute(delete(LeaderboardDeviceRow))
        session.execute(delete(LeaderboardRow))
    imported(stage, "after", thread)
    stage.discord.advance(30 * 86400)
    await stage.look_at_forum()
    assert stage.discord.threads(stage.forum) == [thread]
    assert len(stage.discord.messages(thread)) == 1
    change(stage, "after", devices=["MI300"])
    await stage.look_at_forum()
    assert "`MI300`" in stage.top("before").content


async def test_the_facts_of_an_imported_leaderboard_come_into_the_thread_of_another_bot(stage: Stage) -> None:
    other = stage.guild.add_member("kernelbot")
    thread = stage.guild.open_thread(stage.forum, "double", other)
    write(stage.discord.world, thread, other.user, {"content": "What was written before."}, [])
    imported(stage, "double", thread)
    stage.discord.advance(30 * 86400)
    await stage.look_at_forum()
    await stage.look_at_forum()
    assert stage.discord.threads(stage.forum) == [thread]
    (facts,) = texts_of(stage, "double")
    assert "https://cup.example.org/b/double" in facts
    change(stage, "double", devices=["MI300"])
    await stage.look_at_forum()
    assert "`MI300`" in texts_of(stage, "double")[0]


async def test_an_imported_leaderboard_whose_thread_cannot_be_used_gets_a_new_one(stage: Stage) -> None:
    other = stage.guild.add_member("kernelbot")
    for why in ("deleted", "locked", "elsewhere"):
        parent = stage.room if why == "elsewhere" else stage.forum
        thread = stage.guild.open_thread(parent, "old", other)
        imported(stage, why, thread)
        if why == "deleted":
            stage.guild.delete_channel(thread)
        elif thread.thread is not None:
            thread.thread.locked = why == "locked"
        await stage.look_at_forum()
        assert f"https://cup.example.org/b/{why}" in stage.top(why).content


async def test_a_role_hears_of_new_leaderboards(stage: Stage) -> None:
    role = stage.guild.add_role("Participant")
    object.__setattr__(stage.bot.parts.config, "news_role", "Participant")
    stage.board("double")
    await stage.look_at_forum()
    await stage.look_at_forum()
    assert texts_of(stage, "double") == [f"<@&{role.id}> A new leaderboard."]
    allowed = stage.discord.world.allowed_mentions
    (told,) = [each for each in allowed if each != NO_MENTIONS]
    assert (told["parse"], told["roles"]) == ([], [role.id])
    allowed.remove(told)


async def test_changes_are_told_and_stand_at_the_top(stage: Stage) -> None:
    first = stage.discord.clock.now() + 4 * WEEK
    stage.board("double", deadline=first)
    await stage.look_at_forum()
    change(stage, "double", deadline=first + WEEK, devices=["H100", "MI300"])
    await stage.look_at_forum()
    await stage.look_at_forum()
    (told,) = texts_of(stage, "double")
    assert "GPUs added: `MI300`" in told
    assert f"deadline: <t:{int((first + WEEK).timestamp())}:f>" in told
    top = stage.top("double").content
    assert top.startswith("**Changes**\n- <t:")
    assert "GPUs added" in top
    change(stage, "double", devices=["H100"])
    await stage.look_at_forum()
    top = stage.top("double").content
    assert top.index("GPUs removed") < top.index("GPUs added")


async def test_a_deadline_that_moves_is_reminded_of_anew(stage: Stage) -> None:
    first = stage.discord.clock.now() + WEEK + timedelta(hours=1)
    stage.board("double", deadline=first)
    await stage.look_at_forum()
    await pass_until(stage, first, before=timedelta(days=3))
    change(stage, "double", deadline=first + 2 * WEEK)
    await stage.look_at_forum()
    await pass_until(stage, first + 2 * WEEK, before=timedelta(days=6))
    assert reminders_of(stage, "double") == ["a week", "a week"]


async def test_a_closed_leaderboard_has_no_thread(stage: Stage) -> None:
    stage.board("secret", visibility=Visibility.CLOSED)
    stage.board("open")
    await stage.look_at_forum()
    assert list(stage.posts()) == ["open"]


@pytest.mark.parametrize("how", ["closed", "deleted"])
async def test_a_leaderboard_that_goes_leaves_an_empty_locked_thread(stage: Stage, how: str) -> None:
    stage.board("double")
    await stage.look_at_forum()
    thread = stage.posts()["double"]
    if how == "closed":
        change(stage, "double", visibility=Visibility.CLOSED)
    else:
        delete_board(stage.db, "double", confirm="double", now=stage.discord.clock.now())
    await stage.look_at_forum()
    assert stage.top("double").content == forum.GONE
    assert not stage.top("double").files
    assert thread.thread is not None
    assert (thread.thread.archived, thread.thread.locked) == (True, True)
    stage.board("double" if how == "deleted" else "other")
    await stage.look_at_forum()
    assert len(stage.discord.threads(stage.forum)) == 2


async def test_a_thread_that_was_archived_is_opened_for_a_change(stage: Stage) -> None:
    stage.board("double")
    await stage.look_at_forum()
    stage.discord.advance(30 * 86400)
    change(stage, "double", devices=["MI300"])
    await stage.look_at_forum()
    assert "GPUs added" in texts_of(stage, "double")[0]


async def test_a_thread_that_somebody_deleted_is_made_anew(stage: Stage) -> None:
    stage.board("double")
    await stage.look_at_forum()
    stage.guild.delete_channel(stage.posts()["double"])
    change(stage, "double", devices=["MI300"])
    await stage.look_at_forum()
    await stage.look_at_forum()
    assert "`MI300`" in stage.top("double").content


async def test_trouble_with_one_leaderboard_does_not_stop_the_others(stage: Stage) -> None:
    stage.board("one")
    stage.board("two")
    stage.discord.fail(403, matches="threads")
    await stage.look_at_forum()
    assert list(stage.posts()) == ["two"]
    await stage.look_at_forum()
    assert sorted(stage.posts()) == ["one", "two"]


async def test_a_server_that_does_not_answer_closes_no_thread(stage: Stage, monkeypatch: object) -> None:
    from kernelcup.errors import ServerUnavailable

    stage.board("double")
    await stage.look_at_forum()

    async def fail(*_: object, **__: object) -> None:
        raise ServerUnavailable("down")

    monkeypatch.setattr(stage.bot.parts.api, "get", fail)  # type: ignore[attr-defined]
    await stage.look_at_forum()
    assert stage.top("double").content != forum.GONE


async def test_a_description_does_nothing_and_fits(stage: Stage) -> None:
    description = "@everyone [free](https://evil.example) <@1> `code` ```block``` " + "*_~|" * 2000
    stage.board("double", task=make_task(description=description))
    await stage.look_at_forum()
    top = stage.top("double")
    assert not top.pings
    assert len(top.content) <= 2000
    assert "](https" not in top.content
    assert "<@1>" not in top.content
    assert "Participants do not see each other’s code" in top.content


def test_changes_are_named() -> None:
    before = {
        "deadline": "2026-06-01T00:00:00+00:00",
        "opens_at": None,
        "freeze_at": None,
        "devices": ["a", "b"],
        "task_hash": "1",
        "max_file_bytes": None,
        "after_deadline": "unranked",
        "trust": "any",
        "duel": False,
        "cpu_times": False,
        "provider_isolation": False,
        "notice": "",
    }
    after = before | {"deadline": None, "devices": ["b", "c"], "task_hash": "2", "max_file_bytes": 5000}
    after |= {"after_deadline": "practice"}
    assert boards.changes_between(before, after) == [
        "deadline: none",
        "largest submission: 5,000 bytes",
        "After the deadline ranked submissions go into a practice table of their own",
        "GPUs added: `c`",
        "GPUs removed: `a`",
        "the task changed; get the template and the task again",
    ]
    assert boards.changes_between(before, before) == []


def test_reminders_follow_the_deadline() -> None:
    board = {"deadline": (NOW + timedelta(hours=2)).isoformat()}
    assert forum.passed_steps(board, NOW) == ["a week", "a day"]
    assert forum.passed_steps(board, NOW + timedelta(hours=2)) == []
    assert forum.passed_steps({"deadline": None}, NOW) == []
