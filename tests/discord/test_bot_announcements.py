"""News in Discord: said once, to whom they are for."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from discord_loopback import LoopbackDiscord
from stage import Stage, connected, staged

from builders import make_device
from fakes import FakeClock
from final_duels import close, hold
from hand_judging import Judging
from kernelcup.app.boards.changes import update_board
from kernelcup.app.boards.settings import BoardChanges
from kernelcup.app.news import newsroom
from kernelcup.app.results import finals
from kernelcup.app.results.freezes import freeze, unveil
from kernelcup.bot.app import KernelCupBot
from kernelcup.bot.delivery import forum, news
from kernelcup.domain import OPERATOR, Submission, Visibility

pytestmark = pytest.mark.anyio


@pytest.fixture
async def stage(stage: Stage) -> Stage:
    """A service whose bot has seen that there are no news yet."""
    stage.board("double")
    await stage.look_at_forum()
    await look(stage)
    return stage


async def look(stage: Stage, bot: KernelCupBot | None = None) -> None:
    """Let a bot look for news, once."""
    now = stage.discord.clock.now()
    newsroom.note_due(stage.db, now)
    bot = bot or stage.bot
    await news.look(bot, bot.parts, now)


def judge(stage: Stage, time_ns: float, user: str, board: str = "double") -> Submission:
    """Have a ranked submission judged."""
    return Judging(stage.db, FakeClock(stage.discord.clock.now())).judge(time_ns, user, board=board)


def told(stage: Stage, name: str = "double") -> list[str]:
    """Return what a thread says below its first message."""
    return [each.content.replace("\\", "") for each in stage.discord.messages(stage.posts()[name])[1:]]


async def test_both_ask_often_enough_for_what_is_promised() -> None:
    assert max(news.POLL_S, forum.POLL_S) < 15


async def test_a_new_first_place_is_announced_in_the_boards_thread_once(stage: Stage) -> None:
    judge(stage, 2000, "ada")
    await look(stage)
    await look(stage)
    assert told(stage) == [
        "🥇 ada takes the first place of double on H100 with 2 µs. <https://cup.example.org/s/1>"
    ]


async def test_a_restart_announces_nothing_twice_and_nothing_is_missed(stage: Stage) -> None:
    judge(stage, 2000, "ada")
    await look(stage)
    await stage.bot.close()
    judge(stage, 1000, "bob")
    async with connected(stage.discord, stage.guild, stage.bot_config) as bot:
        await look(stage, bot)
    assert [text.split()[1] for text in told(stage)] == ["ada", "bob"]


async def test_a_new_bot_does_not_tell_of_old_times(
    loopback: LoopbackDiscord, sqlite_template: Path, tmp_path: Path
) -> None:
    async with staged(loopback, sqlite_template, tmp_path, (make_device(),)) as stage:
        stage.board("double")
        await stage.look_at_forum()
        judge(stage, 2000, "ada")
        await look(stage)
        assert told(stage) == []


async def test_who_was_overtaken_is_told_in_a_direct_message_once(stage: Stage) -> None:
    ada = stage.guild.add_member("ada")
    judge(stage, 2000, stage.account(ada))
    judge(stage, 1000, "bob")
    await look(stage)
    await look(stage)
    (message,) = stage.discord.messages(stage.discord.dm(ada))
    assert message.content.replace("\\", "") == (
        "⏩ Your result in double on H100 was overtaken by bob with 1 µs. <https://cup.example.org/s/2>"
        "\n-# `/direct-messages wanted:False` stops these."
    )
    assert all("overtaken" not in text for text in told(stage))


async def test_who_wants_no_direct_messages_gets_none_until_they_are_wanted_again(stage: Stage) -> None:
    ada = stage.guild.add_member("ada")
    judge(stage, 3000, stage.account(ada))
    asked = await stage.discord.slash(ada, stage.room, "direct-messages", {"wanted": False})
    await asked.wait_text("You get no direct message")
    judge(stage, 2000, "bob")
    await look(stage)
    asked = await stage.discord.slash(ada, stage.room, "direct-messages", {"wanted": True})
    await asked.wait_text("You get a direct message")
    await look(stage)
    assert stage.discord.messages(stage.discord.dm(ada)) == []
    judge(stage, 2500, stage.account(ada))
    judge(stage, 1000, "eve")
    await look(stage)
    assert [each.content.split(".")[0] for each in stage.discord.messages(stage.discord.dm(ada))] == [
        "⏩ Your result in double on H100 was overtaken by eve with 1 µs"
    ]


async def test_a_frozen_board_announces_nothing_until_it_is_unveiled(stage: Stage) -> None:
    ada = stage.guild.add_member("ada")
    judge(stage, 2000, stage.account(ada))
    await look(stage)
    before = told(stage)
    now = stage.discord.clock.now()
    freeze(stage.db, OPERATOR, "double", now, now=now)
    stage.discord.advance(10)
    judge(stage, 1000, "bob")
    await look(stage)
    assert told(stage) == before
    assert stage.discord.messages(stage.discord.dm(ada)) == []
    stage.discord.advance(10)
    unveil(stage.db, OPERATOR, "double", now=stage.discord.clock.now())
    await look(stage)
    assert [text[0] for text in told(stage)] == ["🥇", "🔓", "🥇"]
    assert len(stage.discord.messages(stage.discord.dm(ada))) == 1


async def test_the_official_order_of_a_final_is_announced(stage: Stage) -> None:
    ada, bob = judge(stage, 1000, "ada"), judge(stage, 1010, "bob")
    now = stage.discord.clock.now()
    close(stage.db, "double", now)
    await look(stage)
    finals.start(stage.db, OPERATOR, "double", now=now)
    hold(stage.db, "double", "H100", {ada.id: 1030, bob.id: 1000}, now)
    await look(stage)
    ended, order = told(stage)[-2:]
    assert ended.startswith("🏁 double has ended")
    assert order.startswith("🏆 The official order of double on H100 is published: bob is first. <https://")


async def test_a_closed_board_is_announced_nowhere(stage: Stage) -> None:
    change = BoardChanges(visibility=Visibility.CLOSED)
    update_board(stage.db, OPERATOR, "double", changes=change, now=stage.discord.clock.now())
    judge(stage, 2000, "ada")
    await look(stage)
    assert told(stage) == []


async def test_a_board_that_opens_later_is_announced_then(stage: Stage) -> None:
    stage.board("later", opens_at=stage.discord.clock.now() + timedelta(hours=1))
    await stage.look_at_forum()
    await look(stage)
    assert told(stage, "later") == []
    stage.discord.advance(3600)
    await look(stage)
    assert told(stage, "later") == ["🟢 later is open. <https://cup.example.org/b/later>"]


async def test_news_of_a_new_board_wait_for_its_thread(stage: Stage) -> None:
    stage.board("fresh")
    judge(stage, 2000, "ada", board="fresh")
    await look(stage)
    assert stage.bot.parts.boards_changed.is_set()
    await stage.look_at_forum()
    await look(stage)
    assert [text[0] for text in told(stage, "fresh")] == ["🥇"]
