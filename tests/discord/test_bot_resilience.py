"""What breaks while a submission is under way: nothing is lost, nothing is repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from discord_loopback import Channel, Interaction, LoopbackDiscord, Member
from stage import SECRET, Stage, connected, served

from builders import SUBMISSION, make_board, make_report
from kernelcup.app.queue import lifecycle
from kernelcup.app.rules import pauses
from kernelcup.app.submissions.submissions import list_views
from kernelcup.app.submissions.withdrawal import delete_submission
from kernelcup.bot.api import Api
from kernelcup.bot.app import KernelCupBot
from kernelcup.bot.commands import submit as submit_command
from kernelcup.bot.delivery import destinations
from kernelcup.domain import OPERATOR
from kernelcup.http import server
from kernelcup.http.server import WebServer, listen
from kernelcup.http.state import Platform

pytestmark = pytest.mark.anyio

SCRIPT = ("kernel.py", SUBMISSION.encode())
WAIT_S = 15


@pytest.fixture
def stage(stage: Stage) -> Stage:
    """A service with one leaderboard."""
    make_board(stage.db, devices=["H100"], now=stage.discord.clock.now())
    return stage


async def submit(stage: Stage, who: Member) -> Interaction:
    """Submit a file for the ranking."""
    options = {"leaderboard_name": "double"}
    return await stage.discord.slash(who, stage.room, "leaderboard submit ranked", options, SCRIPT)


def judge(stage: Stage) -> None:
    """Judge what is next in the queue."""
    now = stage.discord.clock.now()
    lease = lifecycle.claim_next(stage.db, owner="test", lease_s=60, devices=["H100"], now=now)
    assert lease is not None
    lifecycle.finish(stage.db, lease, report=make_report(), harness_hash="f" * 64, machine="m", now=now)


async def said(stage: Stage, channel: Channel, text: str) -> None:
    """Wait until a message in a channel says something."""
    look = lambda: any(text in m.text for m in stage.discord.messages(channel))  # noqa: E731
    await stage.discord.until(look, f"{text!r} in {channel.name}", WAIT_S)


def threads(stage: Stage, *, private: bool) -> list[Channel]:
    """Return the threads of one kind."""
    return [each for each in stage.discord.threads(stage.room) if each.private is private]


async def the_thread(stage: Stage) -> Channel:
    """Wait for the private thread."""
    await stage.discord.until(lambda: threads(stage, private=True), "a thread", WAIT_S)
    (found,) = threads(stage, private=True)
    return found


async def check_told_once(stage: Stage, thread: Channel) -> None:
    """Wait for the end, and see that each thing was said once."""
    await said(stage, thread, "done:")
    await stage.discord.until(lambda: not stage.bot.parts.memory.open_ones(), "the end", WAIT_S)
    texts = [message.text for message in stage.discord.messages(thread)]
    assert sum("## Submission #1" in text for text in texts) == 1, texts
    assert sum("### ranked: " in text for text in texts) == 1, texts
    assert sum("done:" in text for text in texts) == 1, texts
    (public,) = threads(stage, private=False)
    assert sum("1st place" in m.text for m in stage.discord.messages(public)) == 1
    assert threads(stage, private=True) == [thread]
    assert len(list_views(stage.db)) == 1


async def test_a_bot_that_starts_again_goes_on_where_it_was(stage: Stage, ada: Member) -> None:
    await (await submit(stage, ada)).wait_text("Follow it in")
    thread = await the_thread(stage)
    await stage.bot.close()
    judge(stage)
    async with connected(stage.discord, stage.guild, stage.bot_config) as bot:
        stage.bot = bot
        await check_told_once(stage, thread)


async def test_a_bot_that_ended_before_the_answer_submits_once(stage: Stage, ada: Member) -> None:
    real, stage.bot.parts.api = stage.bot.parts.api, Api("http://127.0.0.1:1", "none")
    asked = await submit(stage, ada)
    await asked.wait_acknowledged()
    await stage.discord.until(lambda: stage.bot.parts.memory.open_ones(), "a memory", WAIT_S)
    assert not list_views(stage.db)
    stage.bot.parts.api = real
    await stage.bot.close()
    async with connected(stage.discord, stage.guild, stage.bot_config) as bot:
        stage.bot = bot
        thread = await the_thread(stage)
        judge(stage)
        await check_told_once(stage, thread)


async def test_a_server_that_starts_again_is_waited_for(
    stage: Stage, ada: Member, loopback: LoopbackDiscord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submit_command, "SOON_S", 0.2)
    monkeypatch.setattr(server, "GRACE_S", 0)  # the bot's stream of events would stay open as long
    await stage.bot.close()
    platform = Platform(db=stage.db, config=stage.config, clock=loopback.clock.now, secret=SECRET)
    with served(platform) as url:
        port = int(url.rpartition(":")[2])
    config = replace(stage.bot_config, api_url=f"http://127.0.0.1:{port}")
    bot = KernelCupBot(config, api=Api(config.api_url, config.service_token, first_pause_s=0.02))
    async with loopback.connect(bot):
        stage.bot = bot
        asked = await submit(stage, ada)
        await asked.wait_text("Your file is kept", WAIT_S)
        with served_at(platform, port):
            thread = await the_thread(stage)
            await said(stage, thread, "in the queue")
        # The server is gone while the submission waits.
        await asyncio.sleep(0.2)
        judge(stage)
        with served_at(platform, port):
            await check_told_once(stage, thread)


@contextmanager
def served_at(platform: Platform, port: int) -> Iterator[None]:
    """Serve a platform on a given port."""
    sock = listen("127.0.0.1", port)
    web = WebServer(platform, sock)
    web.wait_until_ready()
    try:
        yield
    finally:
        web.stop()
        sock.close()


async def test_a_gateway_that_drops_is_no_trouble(stage: Stage, ada: Member) -> None:
    await submit(stage, ada)
    thread = await the_thread(stage)
    await stage.discord.drop()
    judge(stage)
    await check_told_once(stage, thread)


@pytest.mark.parametrize("status", [429, 502])
async def test_trouble_of_discord_passes(
    stage: Stage, ada: Member, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(destinations, "FIRST_PAUSE_S", 0.01)
    await submit(stage, ada)
    thread = await the_thread(stage)
    await said(stage, thread, "in the queue")
    stage.discord.fail(status, 4, matches=f"/channels/{thread.id}/messages")
    judge(stage)
    await check_told_once(stage, thread)


async def test_without_threads_it_is_in_the_direct_messages(stage: Stage, ada: Member) -> None:
    stage.discord.world.sizes.active_threads = 0
    asked = await submit(stage, ada)
    await asked.wait_text("direct messages")
    dm = stage.discord.dm(ada)
    await said(stage, dm, "in the queue")
    judge(stage)
    await said(stage, dm, "### ranked: ")
    await said(stage, stage.room, "1st place")


async def test_without_direct_messages_it_is_an_answer_to_the_command(stage: Stage, ada: Member) -> None:
    stage.discord.world.sizes.active_threads = 0
    stage.discord.close_dms(ada)
    asked = await submit(stage, ada)
    await asked.wait_text("in the queue", WAIT_S)
    judge(stage)
    message = await asked.wait_text("### ranked: ", WAIT_S)
    assert message.ephemeral


async def test_after_a_quarter_of_an_hour_there_is_at_least_a_link(stage: Stage, ada: Member) -> None:
    stage.discord.world.sizes.active_threads = 0
    stage.discord.close_dms(ada)
    asked = await submit(stage, ada)
    await asked.wait_text("in the queue", WAIT_S)
    stage.discord.advance(16 * 60)
    judge(stage)
    await said(stage, stage.room, f"<@{ada.id}> Submission #1 has ended: <https://cup.example.org/s/1>")


async def test_a_long_wait_outlives_the_command(stage: Stage, ada: Member) -> None:
    await submit(stage, ada)
    thread = await the_thread(stage)
    stage.discord.advance(3600)
    judge(stage)
    await check_told_once(stage, thread)


async def test_a_thread_that_discord_archived_meanwhile_is_opened_again(stage: Stage, ada: Member) -> None:
    await submit(stage, ada)
    thread = await the_thread(stage)
    await said(stage, thread, "in the queue")
    stage.discord.advance(25 * 3600)
    assert thread.thread is not None
    assert thread.thread.archived
    judge(stage)
    await check_told_once(stage, thread)


@pytest.mark.parametrize("part", ["public-thread", "public", "last", "report"])
async def test_what_was_sent_just_before_a_crash_is_not_sent_again(
    stage: Stage, ada: Member, part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crash(Exception):
        pass

    def say(key: str, name: str, message_id: int) -> None:
        if name.partition(":")[0] == part:
            raise Crash
        kept(key, name, message_id)

    await submit(stage, ada)
    thread = await the_thread(stage)
    await said(stage, thread, "in the queue")
    kept = stage.bot.parts.memory.say
    monkeypatch.setattr(stage.bot.parts.memory, "say", say)
    judge(stage)
    await stage.discord.until(lambda: not stage.bot.parts.follower.count, "the crash", WAIT_S)
    await stage.bot.close()
    async with connected(stage.discord, stage.guild, stage.bot_config) as bot:
        stage.bot = bot
        await check_told_once(stage, thread)


async def test_a_crash_just_after_the_private_thread_makes_no_second_one(
    stage: Stage, ada: Member, monkeypatch: pytest.MonkeyPatch
) -> None:
    def placed(*_: object) -> None:
        raise RuntimeError("crash")

    monkeypatch.setattr(stage.bot.parts.memory, "placed", placed)
    await submit(stage, ada)
    await stage.discord.until(lambda: threads(stage, private=True), "a thread", WAIT_S)
    await stage.discord.until(lambda: not stage.bot.parts.follower.count, "the crash", WAIT_S)
    await stage.bot.close()
    async with connected(stage.discord, stage.guild, stage.bot_config) as bot:
        stage.bot = bot
        judge(stage)
        await check_told_once(stage, await the_thread(stage))


async def test_what_is_refused_after_a_restart_is_told_to_the_author_only(stage: Stage, ada: Member) -> None:
    stage.bot.parts.api = Api("http://127.0.0.1:1", "none")
    await (await submit(stage, ada)).wait_acknowledged()
    await stage.discord.until(lambda: stage.bot.parts.memory.open_ones(), "a memory", WAIT_S)
    await stage.bot.close()
    now = stage.discord.clock.now()
    pauses.pause(stage.db, OPERATOR, scope="service", reason="maintenance", now=now)
    async with connected(stage.discord, stage.guild, stage.bot_config) as bot:
        stage.bot = bot
        thread = await the_thread(stage)
        await said(stage, thread, "`kernel.py` was not submitted")
        assert thread.name == "Not submitted: kernel.py"
        assert not threads(stage, private=False)


async def test_a_message_that_somebody_deletes_comes_again(stage: Stage, ada: Member) -> None:
    await submit(stage, ada)
    thread = await the_thread(stage)
    await said(stage, thread, "in the queue")
    stage.guild.delete_channel(thread)
    judge(stage)
    dm = stage.discord.dm(ada)
    await said(stage, dm, "### ranked: ")


async def test_a_deleted_submission_is_said_to_be_gone(stage: Stage, ada: Member) -> None:
    await (await submit(stage, ada)).wait_text("Follow it in")
    thread = await the_thread(stage)
    await stage.bot.close()
    delete_submission(stage.db, 1, by=OPERATOR, now=stage.discord.clock.now())
    async with connected(stage.discord, stage.guild, stage.bot_config) as bot:
        stage.bot = bot
        await said(stage, thread, "was deleted")
