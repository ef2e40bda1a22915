"""Answers to interactions: always in time, errors in words, nothing twice."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Sequence
from typing import Any

import aiohttp
import discord
from discord import app_commands, ui

from kernelcup.bot import texts
from kernelcup.bot.api import Person
from kernelcup.errors import InvalidTask, KernelCupError, RateLimited, ServerUnavailable, UserError

logger = logging.getLogger(__name__)

UNAVAILABLE = "The KernelCup server does not answer now. Nothing was lost; try again in a minute."
SHOWN_PROBLEMS = 20


def who(interaction: discord.Interaction) -> Person:
    """Return for whom the bot asks the API."""
    return person(interaction.user)


def person(user: discord.User | discord.Member) -> Person:
    """Return a Discord account as the API knows it."""
    return Person(user.id, user.name)


async def think(interaction: discord.Interaction, *, private: bool = True) -> None:
    """Acknowledge at once; the answer follows."""
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
    """Answer, or go on after an answer: what does not fit one message comes in several."""
    messages = texts.pack([text, *files]) or [texts.Outgoing()]
    for number, each in enumerate(messages):
        more: dict[str, Any] = {"files": as_files(each.files)} if each.files else {}
        if number == len(messages) - 1:
            more |= {name: value for name, value in (("embed", embed), ("view", view)) if value is not None}
        if not interaction.response.is_done():
            await interaction.response.send_message(each.text, ephemeral=private, **more)
        else:
            await interaction.followup.send(each.text, ephemeral=private, **more)


def as_files(files: Sequence[texts.Attached]) -> list[discord.File]:
    """Return files as discord.py sends them."""
    import io

    return [discord.File(io.BytesIO(each.data), filename=texts.file_name(each.name)) for each in files]


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
    """Return an error in words; one that is our fault goes to the log under a number."""
    if isinstance(error, InvalidTask):
        return problems(error)
    if isinstance(error, UserError):
        lines = [f"❌ {texts.plain_lines(error)}"]
        lines += [f"➜ {texts.plain_lines(note)}" for note in getattr(error, "__notes__", [])]
        if isinstance(error, RateLimited):
            lines.append(f"Try again in {waiting(error.retry_after_s)}.")
        return "\n".join(lines)
    if isinstance(error, ServerUnavailable):
        return f"⚠️ {UNAVAILABLE}"
    if isinstance(error, app_commands.NoPrivateMessage):
        return "❌ This works in a server only."
    if isinstance(error, app_commands.AppCommandError) and not isinstance(
        error, app_commands.CommandInvokeError
    ):
        return f"❌ {texts.plain(error)}"
    number = secrets.token_hex(4)
    kind = "failed" if isinstance(error, KernelCupError) else "has a bug"
    logger.error("error %s: a command %s", number, kind, exc_info=error)
    return f"⚠️ This did not work, and it is not your fault. Whoever runs the bot finds it as `{number}`."


def problems(error: InvalidTask) -> str:
    """Return what is wrong with a task, by file and line."""
    lines = [
        f"{each.file}:{each.line}:{each.column}: {f'{each.key}: ' if each.key else ''}{each.text}"
        for each in error.problems[:SHOWN_PROBLEMS]
    ]
    left = len(error.problems) - SHOWN_PROBLEMS
    more = f"\nand {left} more" if left > 0 else ""
    return f"❌ The task has problems:\n{texts.split_code(chr(10).join(lines))[0]}{more}"


def waiting(seconds: float) -> str:
    """Return a time to wait in words."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    if seconds < 5400:
        return f"{round(seconds / 60)} min"
    return f"{round(seconds / 3600)} h"


class View(ui.View):
    """Buttons and menus that one person uses, and that end."""

    def __init__(self, owner: int, *, timeout: float = 600) -> None:
        super().__init__(timeout=timeout)
        self._owner = owner

    async def interaction_check(self, interaction: discord.Interaction) -> bool:
        """Let nobody else press."""
        if interaction.user.id == self._owner:
            return True
        await answer(interaction, "This is somebody else's.")
        return False

    async def on_error(self, interaction: discord.Interaction, error: Exception, _: ui.Item[Any]) -> None:
        """Say what went wrong."""
        await answer_error(interaction, error)


class Form(ui.Modal):
    """A form whose errors are said in words."""

    async def on_error(self, interaction: discord.Interaction[Any], error: Exception, /) -> None:  # type: ignore[override]
        """Say what went wrong."""
        await answer_error(interaction, error)
