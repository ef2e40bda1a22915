"""News of leaderboards: public news in the leaderboard's forum thread, personal news in direct messages.

The bot asks the API for news anonymously, so public posts hold only public data. Posted news are
remembered, and a repeated message carries the same nonce, so each piece of news appears once.
The forum's reminders announce deadlines, and a new leaderboard's thread announces the leaderboard.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import discord

from kernelcup.bot.api import SERVICE
from kernelcup.bot.delivery.destinations import PlaceLost, channel_of, patiently, send
from kernelcup.bot.messages import texts
from kernelcup.client.requests import path_of
from kernelcup.errors import KernelCupError, NotFound

if TYPE_CHECKING:
    from kernelcup.bot.app import KernelCupBot
    from kernelcup.bot.context import Parts

POLL_S = 5.0
PAGE = 50
THREAD_COMES_WITHIN = timedelta(seconds=30)
"""How long news wait for the thread of a new leaderboard."""

LAST_NEWS, LAST_DIRECT = "news:last", "news:direct"
MARKS = {
    "opened": "🟢",
    "first_place": "🥇",
    "unveiled": "🔓",
    "final": "🏁",
    "official": "🏆",
    "overtaken": "⏩",
    "rank_lost": "↩️",
    "announcement": "📣",
    "question": "❓",
    "answer": "💬",
}
HOW_TO_STOP = "\n-# `/direct-messages wanted:False` stops these."
OPEN_KINDS = ("opened", "first_place", "unveiled", "final", "official", "announcement")

Json = Mapping[str, Any]

logger = logging.getLogger(__name__)


async def run(bot: KernelCupBot, parts: Parts) -> None:
    """Announce news until cancelled."""
    while True:
        await look(bot, parts, discord.utils.utcnow())
        await asyncio.sleep(POLL_S)


async def look(bot: KernelCupBot, parts: Parts, now: datetime) -> None:
    """Announce the new news once. The first call announces nothing: older events are not news."""
    for tell in (_tell_all, _tell_each):
        try:
            await tell(bot, parts, now)
        except KernelCupError as error:
            logger.warning("the news cannot be read: %s", error)


async def _tell_all(bot: KernelCupBot, parts: Parts, now: datetime) -> None:
    last = parts.memory.get(LAST_NEWS)
    page = await parts.api.get("/news", None, after=last, limit=1 if last is None else PAGE)
    if last is None:
        parts.memory.put(LAST_NEWS, page["items"][-1]["id"] if page["items"] else 0)
        return
    for item in page["items"]:
        if await _is_told(parts, item) and not await _announce(bot, parts, item, now):
            return  # its thread is about to be created
        parts.memory.put(LAST_NEWS, item["id"])


async def _is_told(parts: Parts, item: Json) -> bool:
    """Return whether a piece of news is announced here, and not in another way."""
    if item["kind"] not in OPEN_KINDS:
        return False
    if item["kind"] != "opened":
        return True
    try:
        board = await parts.api.get(path_of("leaderboards", item["leaderboard"]), None)
    except NotFound:
        return False
    return board["opens_at"] is not None and board["opens_at"] > board["created_at"]


async def _announce(bot: KernelCupBot, parts: Parts, item: Json, now: datetime) -> bool:
    """Post a piece of news in the forums of all guilds; return False to try again later."""
    is_fresh = now - datetime.fromisoformat(item["at"]) < THREAD_COMES_WITHIN
    for guild in bot.guilds:
        if parts.guilds.forum(guild.id) is None:
            continue
        post = parts.memory.get(f"forum:{guild.id}:{item['leaderboard']}")
        if post is None and is_fresh:
            parts.boards_changed.set()
            return False
        if post is not None:
            await _post(bot, parts, item, guild.id, post["thread"])
    return True


async def _post(bot: KernelCupBot, parts: Parts, item: Json, guild_id: int, thread_id: int) -> None:
    key = f"news:{item['id']}"
    if parts.memory.said(key, str(guild_id)) is not None:
        return
    try:
        found = await channel_of(bot, thread_id)
        if not isinstance(found, discord.Thread):
            return
        if found.archived:
            await patiently(partial(found.edit, archived=False))
        message = await send(found, _text(parts, item), _nonce(key, guild_id))
    except (PlaceLost, discord.HTTPException) as error:
        logger.warning("guild %s does not get news %s: %s", guild_id, item["id"], error)
        return
    parts.memory.say(key, str(guild_id), message)


async def _tell_each(bot: KernelCupBot, parts: Parts, now: datetime) -> None:
    del now  # part of the signature
    last = parts.memory.get(LAST_DIRECT)
    page = await parts.api.get("/news/addressed", SERVICE, after=last, limit=PAGE)
    for item in page["items"]:
        await _write_to(bot, parts, item)
        parts.memory.put(LAST_DIRECT, item["id"])
    parts.memory.put(LAST_DIRECT, page["newest"])


async def _write_to(bot: KernelCupBot, parts: Parts, item: Json) -> None:
    key, subject = f"news:{item['id']}", str(item["subject"])
    if not subject.isdecimal() or parts.memory.said(key, subject) is not None:
        return
    try:
        user = await patiently(lambda: bot.fetch_user(int(subject)))
        channel = await patiently(user.create_dm)
        message = await send(channel, _text(parts, item, after=HOW_TO_STOP), _nonce(key, int(subject)))
    except (PlaceLost, discord.HTTPException) as error:
        logger.info("news %s cannot be sent as a direct message: %s", item["id"], error)
        return
    parts.memory.say(key, subject, message)


def _text(parts: Parts, item: Json, after: str = "") -> texts.Outgoing:
    page = f"b/{item['leaderboard']}" if item["submission"] is None else f"s/{item['submission']}"
    link = f"<{parts.config.public_url}/{page}>"
    return texts.Outgoing(f"{MARKS[item['kind']]} {texts.plain(item['text'])} {link}{after}")


def _nonce(key: str, where: int) -> str:
    return hashlib.blake2s(f"{key}:{where}".encode(), digest_size=12).hexdigest()
