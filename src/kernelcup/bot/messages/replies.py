"""Answers to interactions: always in time, errors in words, never repeated."""

from __future__ import annotations

import io
import logging
import math
import re
import secrets
from collections.abc import Sequence
from typing import Any

import aiohttp
import discord
from discord import app_commands, ui

from kernelcup.bot.api import Person
from kernelcup.bot.messages import texts
from kernelcup.clean_text import listed
from kernelcup.errors import (
    FileTooLarge,
    InvalidTask,
    InvalidValue,
    KernelCupError,
    RateLimited,
    ScopeMissing,
    ServerUnavailable,
    SignInNeeded,
    UserError,
)

logger = logging.getLogger(__name__)

UNAVAILABLE = (
    "The KernelCup server does not answer now. It may have done what you asked: look before you try again."
)
MAY_NOT = "You may not do this; it needs the role Leaderboard Creator or Leaderboard Admin."
OUTDATED = "Discord showed you an older form of this command; reload Discord, and try again."
ROOM_FOR_PROBLEMS = 1400

_RETRY = re.compile(r"; try again in [\d.]+ s")
"""End of the server's message, replaced by a countdown on Discord."""


def who(interaction: discord.Interaction) -> Person:
    """Return the person on whose behalf the bot asks the API."""
    return person(interaction.user)


def person(user: discord.User | discord.Member) -> Person:
    """Return a Discord account for the API."""
    return Person(user.id, user.name, user.global_name or "")


async def think(interaction: discord.Interaction, *, private: bool = True) -> None:
    """Acknowledge the interaction at once; the answer follows."""
    if not interaction.response.is_done():
        await interaction.response.defer(ephemeral=private, thinking=True)


async def answer(
    interaction: discord.Interaction,
    text: str = "",
    *,
    private: bool = True,
    files: Sequence[texts.Attached] = (),
    embed: discord.Embed | None = None,
    view: ui.View | None = None,
) -> None:
    """Answer, or continue after an answer; a long text is split into several messages."""
    messages = texts.pack([text, *files]) or [texts.Outgoing()]
    for number, each in enumerate(messages):
        more: dict[str, Any] = {"files": as_files(each.files)} if each.files else {}
        if number == len(messages) - 1:
            more |= {name: value for name, value in (("embed", embed), ("view", view)) if value is not None}
        if not interaction.response.is_done():
            await interaction.response.send_message(each.text, ephemeral=private, **more)
        else:
            await interaction.followup.send(each.text, ephemeral=private, **more)


async def replace(interaction: discord.Interaction, text: str) -> None:
    """Replace a message with buttons by a text, with the rest of a long text below."""
    first, *rest = texts.pack([text])
    await interaction.edit_original_response(content=first.text, view=None)
    for each in rest:
        await answer(interaction, each.text)


def as_files(files: Sequence[texts.Attached]) -> list[discord.File]:
    """Return files as discord.py objects."""
    return [discord.File(io.BytesIO(each.data), filename=texts.file_name(each.name)) for each in files]


async def read_file(attached: discord.Attachment, most: int) -> texts.Attached:
    """Return an attached file. Raise a ``UserError`` if it is too large or Discord does not deliver it."""
    if attached.size > most:
        raise FileTooLarge(f"{attached.filename} has {attached.size:,} bytes, which is far too large.")
    try:
        return texts.Attached(attached.filename, await attached.read())
    except (discord.HTTPException, aiohttp.ClientError, OSError) as error:
        logger.info("a file could not be read: %s", error)
        raise InvalidValue("Discord does not deliver the file now; attach it again.") from None


async def answer_error(interaction: discord.Interaction, error: BaseException) -> None:
    """Say what went wrong, to the person only."""
    if isinstance(error, app_commands.CommandInvokeError):
        error = error.original
    if interaction.client.is_closed():
        return
    text = explain(error)
    try:
        await answer(interaction, text)
    except (discord.HTTPException, aiohttp.ClientError) as failed:
        logger.warning("an answer could not be given: %s", failed)


def explain(error: BaseException) -> str:
    """Explain an error in words; errors that are our fault are logged under a number."""
    if isinstance(error, InvalidTask):
        return "❌ The task has problems:\n" + texts.block(listed(str(error).splitlines(), ROOM_FOR_PROBLEMS))
    if isinstance(error, ScopeMissing):
        logger.warning("permission denied: %s", error)
        return f"❌ {MAY_NOT}"
    if isinstance(error, SignInNeeded):
        # The bot always signs in itself: this is never about the person.
        logger.error("the server rejects the bot's token: %s", error)
        return "⚠️ The server rejects the bot's token. The operator must check it."
    if isinstance(error, RateLimited):
        reason = _RETRY.sub("", str(error))
        return f"❌ {texts.plain_lines(reason)}\nTry again {in_time(error.retry_after_s)}."
    if isinstance(error, UserError):
        lines = [f"❌ {texts.plain_lines(error)}"]
        lines += [f"➜ {texts.plain_lines(note, 300)}" for note in getattr(error, "__notes__", [])]
        return "\n".join(lines)
    if isinstance(error, ServerUnavailable):
        return f"⚠️ {UNAVAILABLE}"
    if isinstance(error, app_commands.NoPrivateMessage):
        return "❌ This works only in a server."
    if isinstance(error, app_commands.CommandNotFound | app_commands.CommandSignatureMismatch):
        return f"❌ {OUTDATED}"
    if isinstance(error, app_commands.AppCommandError):
        return f"❌ {texts.plain(error)}"
    number = secrets.token_hex(4)
    kind = "failed" if isinstance(error, KernelCupError) else "has a bug"
    logger.error("error %s: a command %s", number, kind, exc_info=error)
    return f"⚠️ This did not work, and it is not your fault. The operator finds it in the bot's log as `{number}`."


def in_time(seconds: float) -> str:
    """Return a text in which Discord counts down the time."""
    return f"<t:{math.ceil(discord.utils.utcnow().timestamp() + seconds)}:R>"


class View(ui.View):
    """Buttons and menus for one person, which expire."""

    def __init__(self, owner: int, *, timeout: float = 600) -> None:
        super().__init__(timeout=timeout)
        self._owner = owner

    async def interaction_check(self, interaction: discord.Interaction) -> bool:
        """Refuse other people's presses."""
        if interaction.user.id == self._owner:
            return True
        await answer(interaction, "These buttons are for another person.")
        return False

    async def on_error(self, interaction: discord.Interaction, error: Exception, _: ui.Item[Any]) -> None:
        """Explain the error."""
        await answer_error(interaction, error)


class Form(ui.Modal):
    """A form that explains errors in words."""

    async def on_error(self, interaction: discord.Interaction[Any], error: Exception, /) -> None:  # type: ignore[override]
        """Explain the error."""
        await answer_error(interaction, error)
