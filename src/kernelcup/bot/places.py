"""Where messages about a submission go, and how to put them there.

The best place is a private thread. Where there can be none, it is the person's direct messages, then
answers to the command while they can be given, then a public line that says only that it has ended.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import aiohttp
import discord

from kernelcup.bot import texts
from kernelcup.bot.memory import Followed, Place
from kernelcup.bot.replies import as_files

if TYPE_CHECKING:
    from kernelcup.bot.app import KernelCupBot

logger = logging.getLogger(__name__)

T = TypeVar("T")
KINDS = ("thread", "dm", "reply", "channel")
REPLY_LASTS_S = 14 * 60
"""A little less than Discord's quarter of an hour."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
THREADS_END = (160006, 30033)
TOKEN_OVER = (50027, 10015, 10062)


def now() -> float:
    """Return the time, in seconds."""
    return discord.utils.utcnow().timestamp()


class PlaceLost(Exception):
    """Messages cannot go there (any more)."""


class Placing:
    """Puts the messages about one submission somewhere."""

    def __init__(self, bot: KernelCupBot, followed: Followed) -> None:
        self._bot = bot
        self._followed = followed
        self._lost: set[str] = set()

    @property
    def place(self) -> Place | None:
        """Where the messages are."""
        return self._followed.place

    async def say(self, part: str, outgoing: texts.Outgoing) -> int | None:
        """Send a part of what there is to say, once; return the message's id, None if there is no place."""
        memory = self._bot.parts.memory
        if (known := memory.said(self._followed.key, part)) is not None:
            return known
        while (place := await self._place()) is not None:
            try:
                message_id = await self._send(place, part, outgoing)
            except PlaceLost:
                self._lose(place)
                continue
            memory.say(self._followed.key, part, message_id)
            return message_id
        return None

    async def edit(self, text: str) -> None:
        """Make the one message that moves say something else; it is sent where it is not there yet."""
        place = await self._place()
        if place is None or place.kind == "channel":
            return
        if place.message_id is not None:
            try:
                await self._edit(place, place.message_id, text)
                return
            except PlaceLost:
                self._lose(place)
            except discord.NotFound:
                self._keep(Place(place.kind, place.channel_id))  # somebody deleted the message
        await self._first(text)

    async def rename(self, name: str) -> None:
        """Give the thread another name."""
        place = self.place
        if place is None or place.kind != "thread":
            return
        try:
            thread = await self._channel(place.channel_id)
            if isinstance(thread, discord.Thread) and thread.name != name:
                await patiently(lambda: thread.edit(name=texts.title(name)))
        except (PlaceLost, discord.HTTPException) as error:
            logger.info("a thread keeps its name: %s", error)

    async def _first(self, text: str) -> None:
        while (place := await self._place()) is not None and place.kind != "channel":
            try:
                part = f"live:{place.kind}:{place.channel_id}:{now():.0f}"
                message_id = await self._send(place, part, texts.Outgoing(text))
            except PlaceLost:
                self._lose(place)
                continue
            self._keep(Place(place.kind, place.channel_id, message_id))
            return

    async def _place(self) -> Place | None:
        if self._followed.place is not None and self._followed.place.kind not in self._lost:
            return self._followed.place
        for kind in KINDS:
            if kind in self._lost:
                continue
            try:
                place = await self._find(kind)
            except (PlaceLost, discord.HTTPException) as error:
                logger.info(
                    "submission %s cannot be told of by %s: %s", self._followed.submission, kind, error
                )
                self._lost.add(kind)
                continue
            self._keep(place)
            return place
        return None

    async def _find(self, kind: str) -> Place:
        followed = self._followed
        if kind == "thread":
            return Place(kind, (await self._thread()).id)
        if kind == "dm":
            user = await patiently(lambda: self._bot.fetch_user(followed.user_id))
            channel = await patiently(user.create_dm)
            return Place(kind, channel.id)
        if kind == "reply" and now() - followed.began_at > REPLY_LASTS_S:
            raise PlaceLost("the command can no longer be answered")
        return Place(kind, followed.channel_id)

    async def _thread(self) -> discord.Thread:
        followed = self._followed
        channel = await self._channel(followed.channel_id)
        if isinstance(channel, discord.Thread):
            channel = channel.parent
        if not isinstance(channel, discord.TextChannel):
            raise PlaceLost("there can be no threads")
        text_channel = channel
        begin = f"#{followed.submission} "
        mine = (t for t in text_channel.threads if t.owner_id == self._bot.application_id or t.me is not None)
        ours = (t for t in mine if t.is_private() and t.name.startswith(begin))
        thread = next(ours, None)
        if thread is None:
            name = texts.title(f"{begin}{followed.request.get('file_name', 'submission')}")
            thread = await patiently(
                lambda: text_channel.create_thread(
                    name=name,
                    type=discord.ChannelType.private_thread,
                    invitable=False,
                    auto_archive_duration=1440,
                )
            )
        made: discord.Thread = thread
        await patiently(lambda: made.add_user(discord.Object(followed.user_id)))
        return made

    async def _send(self, place: Place, part: str, outgoing: texts.Outgoing) -> int:
        if place.kind == "reply":
            return await self._send_reply(outgoing)
        channel = await self._channel(place.channel_id)
        if not isinstance(channel, discord.abc.Messageable):
            raise PlaceLost("nothing can be written there")
        nonce = hashlib.blake2s(f"{self._followed.key}:{part}".encode(), digest_size=12).hexdigest()
        return await send(channel, outgoing, nonce=nonce)

    async def _send_reply(self, outgoing: texts.Outgoing) -> int:
        webhook = self._webhook()
        try:
            sent = await patiently(
                lambda: webhook.send(outgoing.text, ephemeral=True, wait=True, files=as_files(outgoing.files))
            )
        except discord.HTTPException as error:
            raise PlaceLost(str(error)) from error
        return sent.id

    async def _edit(self, place: Place, message_id: int, text: str) -> None:
        if place.kind == "reply":
            webhook = self._webhook()
            try:
                await patiently(lambda: webhook.edit_message(message_id, content=text))
            except discord.HTTPException as error:
                raise PlaceLost(str(error)) from error
            return
        channel = await self._channel(place.channel_id)
        if not isinstance(channel, discord.Thread | discord.DMChannel | discord.TextChannel):
            raise PlaceLost("nothing can be written there")
        message = channel.get_partial_message(message_id)
        try:
            await patiently(lambda: message.edit(content=text))
        except discord.NotFound as error:
            if error.code == 10003:
                raise PlaceLost(str(error)) from error
            raise
        except discord.HTTPException as error:
            raise PlaceLost(str(error)) from error

    def _webhook(self) -> discord.Webhook:
        reply = self._followed.reply
        if not reply or now() - self._followed.began_at > REPLY_LASTS_S:
            raise PlaceLost("the command can no longer be answered")
        webhook = discord.Webhook.partial(reply["application"], reply["token"], client=self._bot)
        webhook.type = discord.WebhookType.application  # else it may send nothing that only one person sees
        return webhook

    async def _channel(self, channel_id: int) -> object:
        known = self._bot.get_channel(channel_id)
        if known is not None:
            return known
        try:
            return await patiently(lambda: self._bot.fetch_channel(channel_id))
        except (discord.NotFound, discord.Forbidden, discord.InvalidData) as error:
            raise PlaceLost(str(error)) from error

    def _keep(self, place: Place | None) -> None:
        self._followed.place = place
        self._bot.parts.memory.placed(self._followed.key, place)

    def _lose(self, place: Place) -> None:
        logger.info("submission %s can no longer be told of by %s", self._followed.submission, place.kind)
        self._lost.add(place.kind)
        self._keep(None)


async def send(channel: discord.abc.Messageable, outgoing: texts.Outgoing, *, nonce: str = "") -> int:
    """Send a message, however long Discord takes. Raise ``PlaceLost`` where it refuses."""
    marked: dict[str, Any] = {"nonce": nonce} if nonce else {}
    try:
        sent = await patiently(lambda: channel.send(outgoing.text, files=as_files(outgoing.files), **marked))
    except discord.HTTPException as error:
        raise PlaceLost(str(error)) from error
    return sent.id


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """Return what Discord answers; while it has trouble of its own, ask again and again."""
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            return await call()
        except (discord.DiscordServerError, discord.RateLimited, aiohttp.ClientError, OSError) as error:
            logger.warning("Discord does not answer now: %s", error)
        except discord.HTTPException as error:
            if error.status != 429:
                raise
            logger.warning("Discord lets us wait: %s", error)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
