"""The public result of a ranked submission: a thread with place, medal and ties."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import discord

from kernelcup.bot.delivery.destinations import (
    PlaceLost,
    channel_of,
    nonce_of,
    one_thread,
    send,
    text_channel,
)
from kernelcup.bot.delivery.progress_message import ordinal
from kernelcup.bot.messages import boards, texts
from kernelcup.bot.messages.reports import score_text
from kernelcup.bot.state import Followed
from kernelcup.client.requests import path_of
from kernelcup.domain import RankedBy
from kernelcup.errors import UserError
from kernelcup.reporting.phrases import CORRECT, UNTIMED, level_mark, place_time
from kernelcup_harness.protocol import Verdict

if TYPE_CHECKING:
    from kernelcup.bot.app import KernelCupBot

logger = logging.getLogger(__name__)

MEDALS = {1: "🥇", 2: "🥈", 3: "🥉"}
THREAD, MESSAGE = "public-thread", "public"
"""Names under which the created thread and message are remembered."""


async def public_report(bot: KernelCupBot, followed: Followed, submission: Mapping[str, Any]) -> int | None:
    """Announce a ranked submission publicly, with public data only, and return the thread.

    The API is asked anonymously, so the thread shows only public data.
    """
    if submission["mode"] != "leaderboard":
        return None
    memory = bot.parts.memory
    try:
        shown = await bot.parts.api.get(f"/submissions/{submission['id']}", None)
    except UserError:
        return None
    if shown["user"] != submission["user"]:
        return None  # a pseudonym, which a mention would reveal
    lines = [
        line
        for job in shown["jobs"]
        if job["verdict"] == Verdict.ACCEPTED and job["score_s"] is not None
        for line in await _place_lines(bot, shown, job)
    ]
    if not lines:
        return None
    name = f"#{shown['id']} {shown['leaderboard']} by {shown['shown_name'] or shown['user']}"
    try:
        channel = await _public_thread(bot, followed, name)
        if memory.said(followed.key, MESSAGE) is None:
            url = f"{bot.parts.config.public_url}/s/{shown['id']}"
            text = _public_text(followed, shown, lines, url)
            sent = await send(channel, texts.Outgoing(text[: texts.ROOM]), nonce_of(followed, MESSAGE))
            memory.say(followed.key, MESSAGE, sent)
    except (PlaceLost, discord.HTTPException) as error:
        logger.warning("submission %s cannot be announced publicly: %s", submission["id"], error)
        return None
    return channel.id


async def _place_lines(bot: KernelCupBot, shown: Mapping[str, Any], job: Mapping[str, Any]) -> list[str]:
    """Return the public facts of a score: place, medal, ties."""
    api, device = bot.parts.api, job["device"]
    where = path_of("leaderboards", shown["leaderboard"], "standings", device)
    page = await api.get(where, None, limit=200)
    its = [each for each in page["items"] if each["user"] == shown["user"]]  # one in each class's ranking
    mine = next((each for each in its if each["submission"] == shown["id"]), its[0] if its else None)
    head = f"**{texts.plain(device)}**: {score_text(job)}"
    if mine is None or mine["submission"] != shown["id"]:
        best = (
            f"; the personal best stays {place_time(mine['score_s'], mine['ranked_by'], mine.get('speedup'))}"
            if mine
            else ""
        )
        return [f"✅ {head}, successful{best}"]
    if mine["ranked_by"] == RankedBy.CORRECTNESS:
        return [f"✅ **{texts.plain(device)}**: {CORRECT}; {UNTIMED}"]
    if mine["duel"] in boards.BEHIND:
        return [f"✅ {head}, successful; it ranks behind the first place, against which it did not win"]
    history = await api.get(f"{where}/history", None, user=shown["user"], limit=2)
    first = len(history["items"]) <= 1
    rank = int(mine["rank"])
    alike = [each["rank"] for each in page["items"] if each["host_class"] == mine["host_class"]]
    ties = alike.count(rank) - 1
    tied = (
        f", shared with {ties} other{'s' if ties > 1 else ''} that cannot be distinguished from it"
        if ties
        else ""
    )
    if level := level_mark(mine["trust"]):
        tied += f" ({texts.plain(level)})"
    kind = "🍾 first successful submission" if first else "personal best"
    return [f"{MEDALS.get(rank, '🏅')} {head}, **{ordinal(rank)} place**{tied}; {kind}"]


async def _public_thread(
    bot: KernelCupBot, followed: Followed, name: str
) -> discord.Thread | discord.TextChannel:
    """Return a public thread, or the channel itself if no thread can be created."""
    memory = bot.parts.memory
    channel = await text_channel(bot, followed.channel_id)
    known = memory.said(followed.key, THREAD)
    if known == channel.id:
        return channel
    if known is not None:
        found = await channel_of(bot, known)
        if isinstance(found, discord.Thread):
            return found
    made: discord.Thread | discord.TextChannel = channel
    try:
        made = await one_thread(
            bot, channel, name, discord.ChannelType.public_thread, since=followed.began_at
        )
    except discord.HTTPException as error:
        logger.info("submission %s gets no public thread: %s", followed.submission, error)
    memory.say(followed.key, THREAD, made.id)
    return made


def _public_text(followed: Followed, shown: Mapping[str, Any], lines: Sequence[str], url: str) -> str:
    name = texts.code(shown["file_name"])
    head = (
        f"<@{followed.user_id}>'s {name} for {texts.code(shown['leaderboard'])} (submission #{shown['id']})"
    )
    return "\n".join([head, *lines, f"<{url}>"])
