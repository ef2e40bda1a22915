"""From a command to a submission: the file, the menus, the answer."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

import discord
from discord import ui

from kernelcup.bot.commands.autocomplete import device_notes, is_open, is_over, visible_boards
from kernelcup.bot.context import Parts
from kernelcup.bot.delivery.destinations import now
from kernelcup.bot.delivery.follower import Ticket
from kernelcup.bot.messages import replies, texts
from kernelcup.bot.messages.dialogs import Menu
from kernelcup.bot.messages.replies import who
from kernelcup.bot.state import Followed, Place
from kernelcup.client.models import read
from kernelcup.client.requests import path_of
from kernelcup.domain import BoardSettings
from kernelcup.errors import (
    DeviceNeeded,
    InvalidFiles,
    InvalidValue,
    KernelCupError,
    LeaderboardNeeded,
    NotText,
)
from kernelcup.reporting.phrases import code_rule, licence_rule
from kernelcup_harness.protocol import Mode

LARGEST_READ = 2_000_000
"""Larger files are not even read; the platform has the actual limit."""
SOON_S = 4.0
"""After this time without an answer from the server, the person gets an explanation."""
PLACE_WAIT_S = 20.0
UNANSWERED = "Nothing was chosen, so nothing was submitted."

_FENCE = re.compile(r"\A\s*```([A-Za-z+]*)[ \t]*\n(.*?)\n?```\s*\Z", re.DOTALL)
_LANGUAGES = {"cu": "cu", "cuda": "cu", "cpp": "cu", "c++": "cu", "c": "cu"}

Request = dict[str, Any]
Json = Mapping[str, Any]


async def submit_file(
    interaction: discord.Interaction,
    parts: Parts,
    scripts: Sequence[discord.Attachment],
    *,
    mode: str,
    board: str | None,
    gpu: str | None = None,
    launcher: str | None = None,
) -> None:
    """Submit attached files, or a zip; a launcher limits the choice to its devices."""
    if not await _is_here(interaction, parts):
        return
    await replies.think(interaction)
    request = _request(mode, board, gpu, await _read(scripts))
    if launcher is not None:
        names = await _devices_of(interaction, parts, str(board), launcher)
        if len(names) > 1:
            await _ask_devices(interaction, parts, request, names)
            return
        request["devices"] = names
    await _submit(interaction, parts, request)


async def ask_for_code(
    interaction: discord.Interaction, parts: Parts, *, mode: str, board: str | None, gpu: str | None
) -> None:
    """Open a form for pasted code: on a phone there are no files."""
    if await _is_here(interaction, parts):
        await interaction.response.send_modal(CodeForm(parts, mode, board, gpu))


class CodeForm(replies.Form):
    """A form for a code block."""

    def __init__(self, parts: Parts, mode: str, board: str | None, gpu: str | None) -> None:
        super().__init__(title="Submit code", timeout=3600)
        self._parts, self._mode, self._board, self._gpu = parts, mode, board, gpu
        self.code: ui.TextInput[CodeForm] = ui.TextInput(
            style=discord.TextStyle.paragraph, max_length=4000, custom_id="code"
        )
        self.add_item(ui.Label(text="Code, with or without a ``` block", component=self.code))

    async def on_submit(self, interaction: discord.Interaction) -> None:
        """Submit the pasted code."""
        await replies.think(interaction)
        code, ending = read_block(self.code.value)
        name = f"submission.{ending}" if ending else await self._name(interaction)
        await _submit(
            interaction,
            self._parts,
            _request(self._mode, self._board, self._gpu, {"file_name": name, "code": code}),
        )

    async def _name(self, interaction: discord.Interaction) -> str:
        if self._board is None:
            return "submission.py"
        task = await self._parts.api.get(path_of("leaderboards", self._board, "task"), who(interaction))
        return PurePosixPath(task["submission_name"]).name


def read_block(text: str) -> tuple[str, str]:
    """Return code without its surrounding block, and the file ending for the block's language, if any."""
    found = _FENCE.match(text)
    if found is None:
        return text, ""
    language = found[1].lower()
    return found[2] + "\n", _LANGUAGES.get(language, "py" if language.startswith("py") else "")


async def _submit(
    interaction: discord.Interaction,
    parts: Parts,
    request: Request,
    *,
    key_of: discord.Interaction | None = None,
) -> None:
    ticket = parts.follower.submit(_followed(interaction, parts, request, key_of or interaction))
    try:
        submission = await _accepted(interaction, ticket)
    except DeviceNeeded as error:
        await _ask_devices(interaction, parts, request, list(error.devices))
        return
    except LeaderboardNeeded:
        await _ask_board(interaction, parts, request)
        return
    url = f"{parts.config.public_url}/s/{submission['id']}"
    name = texts.code(request["file_name"])
    text = f"✅ Submission #{submission['id']}: {name} for {texts.code(submission['leaderboard'])}. "
    place = await ticket.place(PLACE_WAIT_S)
    rule = await _code_rule(interaction, parts, submission)
    await interaction.edit_original_response(content=text + _where(place, url) + rule, view=None)


async def _code_rule(interaction: discord.Interaction, parts: Parts, submission: Json) -> str:
    """Return who will see the code and under which licence, as a line; empty where its author alone does."""
    if submission["mode"] != Mode.LEADERBOARD:
        return ""
    try:
        board = await parts.api.get(path_of("leaderboards", submission["leaderboard"]), who(interaction))
    except KernelCupError:
        return ""  # the submission is accepted, whatever happens to this request
    settings = read(BoardSettings, board)
    rule = code_rule(settings) if settings.publishes_code and settings.deadline else ""
    rule = " ".join(filter(None, (rule, licence_rule(board["licence"]))))
    return f"\n{rule}" if rule else ""


def _where(place: Place | None, url: str) -> str:
    if place is None:
        return f"Follow it at <{url}>; its thread follows as soon as Discord allows it."
    if place.kind == "thread":
        return f"Follow it in <#{place.channel_id}> or at <{url}>."
    if place.kind == "dm":
        return f"No thread could be created here, so follow it in your direct messages or at <{url}>."
    return f"Follow it at <{url}>; no thread could be created here, and your direct messages are closed."


async def _accepted(interaction: discord.Interaction, ticket: Ticket) -> dict[str, Any]:
    done, _ = await asyncio.wait({ticket.accepted}, timeout=SOON_S)
    if not done:
        await interaction.edit_original_response(
            content="⏳ The server does not answer now. Your file is kept, and submitted as soon as it does.",
            view=None,
        )
    return await asyncio.shield(ticket.accepted)


def _followed(
    interaction: discord.Interaction, parts: Parts, request: Request, key_of: discord.Interaction
) -> Followed:
    assert interaction.channel_id is not None
    person = who(interaction)
    return Followed(
        key=f"discord-{key_of.id}",
        user_id=person.id,
        user_name=person.name,
        guild_id=interaction.guild_id or 0,
        channel_id=parts.guilds.submissions(interaction.guild_id or 0) or interaction.channel_id,
        request=request,
        reply={"application": interaction.application_id, "token": interaction.token},
        began_at=now(),
    )


async def _ask_devices(
    interaction: discord.Interaction, parts: Parts, request: Request, names: Sequence[str]
) -> None:
    async def chosen(pressed: discord.Interaction, devices: list[str]) -> None:
        menu.stop()
        await _submit_chosen(interaction, pressed, parts, request | {"devices": devices})

    title = "Select GPUs for this leaderboard..."
    notes = await device_notes(parts.api, who(interaction))
    ordered = sorted(names, key=lambda name: name in notes)
    menu = Menu(interaction, title, ordered, chosen, several=True, unanswered=UNANSWERED, notes=notes)
    await menu.replace(f"{texts.code(request['file_name'])}: on which GPUs?")


async def _ask_board(interaction: discord.Interaction, parts: Parts, request: Request) -> None:
    found = await visible_boards(parts.api, who(interaction))
    names = [board["name"] for board in sorted(found, key=is_over) if is_open(board)]
    if not names:
        raise InvalidValue("There is no leaderboard that you can submit to.")

    async def chosen(pressed: discord.Interaction, values: list[str]) -> None:
        menu.stop()
        await _submit_chosen(interaction, pressed, parts, request | {"leaderboard": values[0]})

    menu = Menu(interaction, "Select a leaderboard...", names, chosen, unanswered=UNANSWERED)
    await menu.replace(f"{texts.code(request['file_name'])}: for which leaderboard?")


async def _submit_chosen(
    asked: discord.Interaction, pressed: discord.Interaction, parts: Parts, request: Request
) -> None:
    """Submit the choice of a menu, once, however often the menu is used."""
    await pressed.response.edit_message(content="Submitting…", view=None)
    try:
        await _submit(pressed, parts, request, key_of=asked)
    except KernelCupError as error:
        await replies.replace(pressed, replies.explain(error))


async def _devices_of(interaction: discord.Interaction, parts: Parts, board: str, launcher: str) -> list[str]:
    """Return the devices of a leaderboard that a launcher serves. Raise ``InvalidValue`` if there are none."""
    shown = await parts.api.get(path_of("leaderboards", board), who(interaction))
    known = await parts.api.get("/devices", who(interaction))
    served = {each["name"] for each in known if each["launcher"] == launcher}
    names = [name for name in shown["devices"] if name in served]
    if not names:
        allowed = ", ".join(shown["devices"])
        raise InvalidValue(f"{board} has no GPU of {launcher}; use submit ranked for {allowed}.")
    return names


def _request(mode: str, board: str | None, gpu: str | None, code: Request) -> Request:
    request = {"mode": mode, **code}
    if board:
        request["leaderboard"] = board.strip()
    if names := [name.strip() for name in (gpu or "").split(",") if name.strip()]:
        request["devices"] = names
    return request


async def _read(scripts: Sequence[discord.Attachment]) -> Request:
    """Return the part of a request that has the code. Raise ``InvalidSubmission``."""
    contents = [
        (each.filename[-255:], (await replies.read_file(each, LARGEST_READ)).data) for each in scripts
    ]
    name, content = contents[0]
    if len(contents) == 1 and name.lower().endswith(".zip"):
        return {"file_name": name, "zip": base64.b64encode(content).decode()}
    files = {name: _text(name, content) for name, content in contents}
    if len(files) < len(contents):
        raise InvalidFiles("Two of the files have the same name.")
    return (
        {"file_name": name, "code": files[name]} if len(files) == 1 else {"file_name": name, "files": files}
    )


def _text(name: str, content: bytes) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise NotText(f"{name} is not UTF-8 text; submit the source itself.") from None


async def _is_here(interaction: discord.Interaction, parts: Parts) -> bool:
    """Return whether the command was used in the submissions channel; else reply with that channel."""
    wanted = parts.guilds.submissions(interaction.guild_id or 0)
    channel = interaction.channel
    here = {interaction.channel_id, channel.parent_id if isinstance(channel, discord.Thread) else None}
    if wanted is None or wanted in here:
        return True
    await replies.answer(interaction, f"Submit in <#{wanted}>.")
    return False
