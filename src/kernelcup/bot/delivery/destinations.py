"""Choose the place for messages about a submission, and send them there.

The best place is a private thread. If none can be created, it is the person's direct messages, then
answers to the command as long as Discord allows them, then a public line that only reports the end.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import aiohttp
import discord

from kernelcup.bot.messages import texts
from kernelcup.bot.messages.replies import as_files
from kernelcup.bot.state import Followed, Place

if TYPE_CHECKING:
    from kernelcup.bot.app import KernelCupBot

logger = logging.getLogger(__name__)

T = TypeVar("T")
ThreadKind = Literal[discord.ChannelType.public_thread, discord.ChannelType.private_thread]
KINDS = ("thread", "dm", "reply", "channel")
REPLY_LASTS_S = 14 * 60
"""A little less than Discord's quarter of an hour."""
CLOCKS_DIFFER_S = 60.0
"""How far our clock may be ahead of Discord's."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
ARCHIVED = 50083
UNKNOWN_CHANNEL = 10003


def now() -> float:
    """Return the time, in seconds."""
    return discord.utils.utcnow().timestamp()


class PlaceLost(Exception):
    """Messages cannot be sent there, or no longer."""


class Placing:
    """Sends the messages about one submission to its place."""

    def __init__(self, bot: KernelCupBot, followed: Followed) -> None:
        self._bot = bot
        self._followed = followed
        self._lost: set[str] = set()

    @property
    def place(self) -> Place | None:
        """The place of the messages."""
        return self._followed.place

    async def say(self, part: str, outgoing: texts.Outgoing, *, brief: str = "") -> int | None:
        """Send one part of a report, once; return the message's id, None if there is no place.

        In a public place ``brief`` is sent instead, or nothing.
        """
        memory = self._bot.parts.memory
        if (known := memory.said(self._followed.key, part)) is not None:
            return known
        while (place := await self._place()) is not None:
            if place.kind == "channel":
                outgoing = texts.Outgoing(brief)
            if not outgoing.text and not outgoing.files:
                return None
            try:
                message_id = await self._send(place, part, outgoing)
            except PlaceLost:
                self._lose(place)
                continue
            memory.say(self._followed.key, part, message_id)
            return message_id
        return None

    async def edit(self, text: str) -> None:
        """Change the text of the progress message; send the message if it does not exist yet."""
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
                self._keep(Place(place.kind, place.channel_id))  # the message was deleted
        await self._first(text, after=place.message_id or 0)

    async def rename(self, name: str) -> None:
        """Rename the thread."""
        place = self.place
        if place is None or place.kind != "thread":
            return
        try:
            thread = await self._channel(place.channel_id)
            if isinstance(thread, discord.Thread) and thread.name != name:
                await patiently(lambda: thread.edit(name=texts.title(name)))
        except (PlaceLost, discord.HTTPException) as error:
            logger.info("a thread keeps its name: %s", error)

    async def _first(self, text: str, *, after: int) -> None:
        """Send the progress message, once; ``after`` is the id of a deleted one."""
        while (place := await self._place()) is not None and place.kind != "channel":
            try:
                part = f"live:{place.channel_id}:{after}"
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
                    "messages about submission %s cannot be sent by %s: %s",
                    self._followed.submission,
                    kind,
                    error,
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
        channel = await text_channel(self._bot, followed.channel_id)
        file_name, since = followed.request.get("file_name", "submission"), followed.began_at
        if followed.submission is not None:
            name = f"#{followed.submission} {file_name}"
        else:
            # Refused: the name has no submission number, so an older thread is never reused.
            name, since = f"Not submitted: {file_name}", math.inf
        thread = await one_thread(self._bot, channel, name, discord.ChannelType.private_thread, since=since)
        await patiently(lambda: thread.add_user(discord.Object(followed.user_id)))
        return thread

    async def _send(self, place: Place, part: str, outgoing: texts.Outgoing) -> int:
        if place.kind == "reply":
            return await self._send_reply(outgoing)
        channel = await self._channel(place.channel_id)
        if not isinstance(channel, discord.abc.Messageable):
            raise PlaceLost("nothing can be written there")
        return await send(channel, outgoing, nonce_of(self._followed, part))

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
        try:
            await self._edit_there(channel, message_id, text)
        except discord.NotFound as error:
            if error.code == UNKNOWN_CHANNEL:
                raise PlaceLost(str(error)) from error
            raise
        except discord.HTTPException as error:
            raise PlaceLost(str(error)) from error

    async def _edit_there(
        self, channel: discord.Thread | discord.DMChannel | discord.TextChannel, message_id: int, text: str
    ) -> None:
        message = channel.get_partial_message(message_id)
        try:
            await patiently(lambda: message.edit(content=text))
        except discord.HTTPException as error:
            if error.code != ARCHIVED or not isinstance(channel, discord.Thread):
                raise
            thread = channel  # archived after a day without messages, for example with a long queue
            await patiently(lambda: thread.edit(archived=False))
            await patiently(lambda: message.edit(content=text))

    def _webhook(self) -> discord.Webhook:
        reply = self._followed.reply
        if not reply or now() - self._followed.began_at > REPLY_LASTS_S:
            raise PlaceLost("the command can no longer be answered")
        webhook = discord.Webhook.partial(reply["application"], reply["token"], client=self._bot)
        webhook.type = (
            discord.WebhookType.application
        )  # otherwise the bot could send nothing visible to one person only
        return webhook

    async def _channel(self, channel_id: int) -> object:
        return await channel_of(self._bot, channel_id)

    def _keep(self, place: Place | None) -> None:
        self._followed.place = place
        self._bot.parts.memory.placed(self._followed.key, place)

    def _lose(self, place: Place) -> None:
        logger.info(
            "messages about submission %s can no longer be sent by %s", self._followed.submission, place.kind
        )
        self._lost.add(place.kind)
        self._keep(None)


async def channel_of(bot: KernelCupBot, channel_id: int) -> object:
    """Return a channel or thread. Raise ``PlaceLost`` if it does not exist or the bot cannot see it."""
    known = bot.get_channel(channel_id)
    if known is not None:
        return known
    try:
        return await patiently(lambda: bot.fetch_channel(channel_id))
    except (discord.NotFound, discord.Forbidden, discord.InvalidData) as error:
        raise PlaceLost(str(error)) from error


async def text_channel(bot: KernelCupBot, channel_id: int) -> discord.TextChannel:
    """Return a text channel, or a thread's text channel. Raise ``PlaceLost`` for other kinds of channels."""
    channel = await channel_of(bot, channel_id)
    if isinstance(channel, discord.Thread):
        channel = channel.parent
    if not isinstance(channel, discord.TextChannel):
        raise PlaceLost("threads are not possible here")
    return channel


async def one_thread(
    bot: KernelCupBot, channel: discord.TextChannel, name: str, kind: ThreadKind, *, since: float
) -> discord.Thread:
    """Return the bot's thread of that name; create it unless a stopped bot just created it.

    A thread from before ``since`` is unrelated, whatever its name.
    """
    wanted, me = texts.title(name), bot.user.id if bot.user is not None else 0

    def made_before() -> discord.Thread | None:
        for each in channel.threads:
            ours = each.owner_id == me and each.type is kind and each.name == wanted
            if ours and discord.utils.snowflake_time(each.id).timestamp() >= since - CLOCKS_DIFFER_S:
                return each
        return None

    async def make() -> discord.Thread:
        if (found := made_before()) is not None:
            return found
        more: dict[str, Any] = {"invitable": False} if kind is discord.ChannelType.private_thread else {}
        return await channel.create_thread(name=wanted, type=kind, auto_archive_duration=1440, **more)

    return await patiently(make)


def nonce_of(followed: Followed, part: str) -> str:
    """Return the nonce by which Discord recognizes a repeated message; at most 25 characters."""
    return hashlib.blake2s(f"{followed.key}:{part}".encode(), digest_size=12).hexdigest()


async def send(channel: discord.abc.Messageable, outgoing: texts.Outgoing, nonce: str) -> int:
    """Send a message, however long Discord takes. Raise ``PlaceLost`` if Discord refuses."""
    try:
        sent = await patiently(
            lambda: channel.send(outgoing.text, files=as_files(outgoing.files), nonce=nonce)
        )
    except discord.HTTPException as error:
        raise PlaceLost(str(error)) from error
    return sent.id


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """Return Discord's answer; retry for as long as Discord has internal errors."""
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            return await call()
        except (discord.DiscordServerError, discord.RateLimited, aiohttp.ClientError, OSError) as error:
            logger.warning("Discord does not answer now: %s", error)
        except discord.HTTPException as error:
            if error.status != 429:
                raise
            logger.warning("Discord limits our rate: %s", error)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
