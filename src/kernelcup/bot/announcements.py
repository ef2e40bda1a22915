"""News of leaderboards: in each one's forum thread for everybody, and in direct messages for one person.

They are asked of the API as nobody, so only what everybody may see is said openly. What was said is
remembered, and a message that is sent again carries the same nonce: each piece of news is there once.
Deadlines are left to the reminders of the forum, and a new leaderboard is announced by its thread.
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

from kernelcup.bot import texts
from kernelcup.bot.api import SERVICE, at
from kernelcup.bot.places import PlaceLost, channel_of, patiently, send
from kernelcup.errors import KernelCupError, NotFound

if TYPE_CHECKING:
    from kernelcup.bot.app import KernelCupBot
    from kernelcup.bot.parts import Parts

POLL_S = 5.0
PAGE = 50
THREAD_COMES_WITHIN = timedelta(seconds=30)
"""So long news wait for the thread of a leaderboard that was just made."""

LAST_NEWS, LAST_DIRECT = "news:last", "news:direct"
MARKS = {"opened": "🟢", "first_place": "🥇", "unveiled": "🔓", "final": "🏁", "overtaken": "⏩"}
HOW_TO_STOP = "\n-# `/direct-messages wanted:False` stops these."
OPEN_KINDS = ("opened", "first_place", "unveiled", "final")

Json = Mapping[str, Any]

logger = logging.getLogger(__name__)


async def run(bot: KernelCupBot, parts: Parts) -> None:
    """Tell news until cancelled."""
    while True:
        await look(bot, parts, discord.utils.utcnow())
        await asyncio.sleep(POLL_S)


async def look(bot: KernelCupBot, parts: Parts, now: datetime) -> None:
    """Tell what is new, once. The first time nothing is: what was before the bot came is no news."""
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
            return  # its thread is about to come
        parts.memory.put(LAST_NEWS, item["id"])


async def _is_told(parts: Parts, item: Json) -> bool:
    """Return whether a piece of news is announced, and not said in another way."""
    if item["kind"] not in OPEN_KINDS:
        return False
    if item["kind"] != "opened":
        return True
    try:
        board = await parts.api.get(at("leaderboards", item["leaderboard"]), None)
    except NotFound:
        return False
    return board["opens_at"] is not None and board["opens_at"] > board["created_at"]


async def _announce(bot: KernelCupBot, parts: Parts, item: Json, now: datetime) -> bool:
    """Say a piece of news in the forums of all guilds; return False to try again a little later."""
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
        logger.warning("guild %s is not told news %s: %s", guild_id, item["id"], error)
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
        logger.info("news %s cannot be told by a direct message: %s", item["id"], error)
        return
    parts.memory.say(key, subject, message)


def _text(parts: Parts, item: Json, after: str = "") -> texts.Outgoing:
    page = f"b/{item['leaderboard']}" if item["submission"] is None else f"s/{item['submission']}"
    link = f"<{parts.config.public_url}/{page}>"
    return texts.Outgoing(f"{MARKS[item['kind']]} {texts.plain(item['text'])} {link}{after}")


def _nonce(key: str, where: int) -> str:
    return hashlib.blake2s(f"{key}:{where}".encode(), digest_size=12).hexdigest()
