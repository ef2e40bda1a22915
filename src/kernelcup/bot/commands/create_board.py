"""Commands for leaderboard creators: create, delete, update from a git repository."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import discord
from discord import app_commands

from kernelcup.bot import guild_roles
from kernelcup.bot.api import Person
from kernelcup.bot.commands import autocomplete, groups
from kernelcup.bot.context import Parts
from kernelcup.bot.guild_roles import begin
from kernelcup.bot.messages import boards, replies, texts
from kernelcup.bot.messages.dialogs import Confirm, Menu, TypedName
from kernelcup.client.models import read
from kernelcup.client.requests import path_of
from kernelcup.domain import BoardSettings
from kernelcup.errors import InvalidValue
from kernelcup.reporting.phrases import code_rule

LARGEST_TASK = 20 * 2**20
"""Larger files are not even read; the platform has the actual limit."""
SYNC_PATIENCE_S = 300.0

Json = Mapping[str, Any]
Harness = Literal["standard", "own"]
Trust = Literal["any", "replayed", "witnessed"]


def register(tree: groups.Tree, parts: Parts) -> None:
    """Add the commands."""
    board = groups.leaderboard(tree)
    _create(board, parts)
    for group, name in ((board, "delete"), (groups.admin(tree), "delete-leaderboard")):
        _delete(group, parts, name)
    for group, name in ((board, "update"), (groups.admin(tree), "update-problems")):
        _update(group, parts, name)


def _create(group: app_commands.Group, parts: Parts) -> None:
    @group.command(name="create", description="Create a leaderboard from a task")
    @app_commands.describe(
        leaderboard_name="The leaderboard's name",
        deadline="YYYY-MM-DD, or YYYY-MM-DD HH:MM; UTC unless a zone follows",
        task_zip="The task: a zipped folder, or one file with the reference code",
        gpus="GPUs, separated by commas; default: choose from a menu",
        members_only="Only users with an invite see it",
        harness="The judging code: ours, or the task's own",
        trust="Which times rank: any (each marked), or only replayed or witnessed times",
        duel="Whether a new first place must win a duel against the old one",
    )
    async def create(
        interaction: discord.Interaction,
        leaderboard_name: str,
        deadline: str,
        task_zip: discord.Attachment,
        gpus: str | None = None,
        members_only: bool = False,
        harness: Harness | None = None,
        trust: Trust | None = None,
        duel: bool = False,
    ) -> None:
        await begin(parts, interaction)
        await guild_roles.require(parts, interaction, "creator")
        settings: dict[str, Any] = {
            "name": leaderboard_name,
            "deadline": deadline,
            "visibility": "closed" if members_only else "public",
        }
        if harness is not None:
            settings["harness"] = harness
        if trust is not None:
            settings["trust"] = trust
        if duel:
            settings["duel"] = True
        content = await replies.read_file(task_zip, LARGEST_TASK)
        maker = _Maker(parts, settings, task_zip.filename, content)
        await maker.begin(interaction, gpus)


class _Maker:
    """A leaderboard that is being created."""

    def __init__(self, parts: Parts, settings: dict[str, Any], file_name: str, content: bytes) -> None:
        self._parts = parts
        self._settings = settings
        self._file = ("files", (file_name, content))

    async def begin(self, interaction: discord.Interaction, gpus: str | None) -> None:
        """Ask for the GPUs unless they are given."""
        if gpus is not None:
            await replies.answer(interaction, await self.make(interaction, split_names(gpus)))
            return
        # What is wrong with the task or the deadline is said before anything is asked.
        await self._send("/leaderboards/check", interaction, self._settings)
        devices = [str(each["name"]) for each in await self._parts.api.get("/devices", None)]
        if not devices:
            raise InvalidValue("No GPUs are configured here.")
        name = texts.code(self._settings["name"])
        notes = await autocomplete.device_notes(self._parts.api, replies.who(interaction))
        caption = "Select GPUs for this leaderboard..."
        menu = Menu(interaction, caption, devices, self._chosen, several=True, notes=notes)
        await menu.ask(f"On which GPUs may people submit to {name}?")

    async def _chosen(self, interaction: discord.Interaction, devices: list[str]) -> None:
        await interaction.response.defer()
        await replies.replace(interaction, await self.make(interaction, devices))

    async def _send(self, path: str, interaction: discord.Interaction, settings: Json) -> Any:
        data, who = {"settings": json.dumps(settings)}, replies.who(interaction)
        return await self._parts.api.send("POST", path, who, data=data, files=[self._file])

    async def make(self, interaction: discord.Interaction, devices: list[str]) -> str:
        """Create it, and return the message for its creator."""
        board = await self._send("/leaderboards", interaction, {**self._settings, "devices": devices})
        self._parts.boards_changed.set()
        lines = [
            f"✅ Leaderboard {texts.code(board['name'])} was created.",
            f"**Deadline** {boards.stamp(board['deadline'], 'F')}" if board["deadline"] else "",
            f"**GPUs** {boards.devices_text(board)}",
            code_rule(read(BoardSettings, board)),
            *_notes(board["notes"]),
        ]
        if board["visibility"] == "closed":
            lines.append(
                f"Only members see it; create invite codes with {texts.code('/admin invites make')}."
            )
        return "\n".join(line for line in lines if line)


def _notes(notes: Sequence[str]) -> list[str]:
    """Return how a new leaderboard is judged, and other notes for its creator."""
    first, *rest = notes
    return [
        f"**Judged by** {texts.plain(first.removeprefix('judged by '), 500)}",
        *(f"- {texts.plain(note, 500)}" for note in rest),
    ]


def split_names(text: str) -> list[str]:
    """Return the names in a list with commas. Raise ``InvalidValue`` if there is none."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise InvalidValue("Name at least one GPU.")
    return names


# ---- delete


def _delete(group: app_commands.Group, parts: Parts, name: str) -> None:
    @group.command(name=name, description="Delete a leaderboard with all its submissions")
    @app_commands.describe(leaderboard_name="The leaderboard; default: choose from a menu")
    async def delete(interaction: discord.Interaction, leaderboard_name: str | None = None) -> None:
        if leaderboard_name is not None:
            # A form must be the first answer, so no API request comes before it.
            await interaction.response.send_modal(_deletion(parts, leaderboard_name))
            return
        await begin(parts, interaction)
        names = await autocomplete.managed_boards(parts.api, replies.who(interaction))
        if not names:
            await replies.answer(interaction, "There is no leaderboard that you may delete.")
            return

        async def chosen(interaction: discord.Interaction, values: list[str]) -> None:
            await interaction.response.send_modal(_deletion(parts, values[0]))

        menu = Menu(interaction, "Select the leaderboard to delete...", names, chosen)
        await menu.ask("Which leaderboard do you want to delete?")

    delete.autocomplete("leaderboard_name")(autocomplete.managed(parts))


def _deletion(parts: Parts, board: str) -> TypedName:
    async def act(interaction: discord.Interaction) -> None:
        await begin(parts, interaction)
        who = replies.who(interaction)
        await parts.api.send("DELETE", path_of("leaderboards", board), who, params={"confirm": board})
        parts.boards_changed.set()
        await replies.answer(
            interaction, f"🗑️ {texts.code(board)} was deleted, with its submissions and their history."
        )

    return TypedName("Delete permanently", board, act)


# ---- update from git


def _update(group: app_commands.Group, parts: Parts, name: str) -> None:
    @group.command(name=name, description="Create and update leaderboards from a git repository")
    @app_commands.describe(
        repository_name="Address of the repository, or OWNER/NAME on GitHub",
        problem_set="The problem set; default: all",
        branch="Its branch",
        force="Also apply changes that make earlier results incomparable",
    )
    async def update(
        interaction: discord.Interaction,
        repository_name: str,
        problem_set: str | None = None,
        branch: str = "main",
        force: bool = False,
    ) -> None:
        await begin(parts, interaction)
        body = {
            "repository": repository_address(repository_name),
            "branch": branch,
            "problem_set": problem_set,
            "force": force,
        }
        plan = await _sync(parts, replies.who(interaction), body, preview=True)
        if not plan["created"] and not plan["updated"]:
            await replies.answer(interaction, sync_text(plan))
            return

        async def act(interaction: discord.Interaction) -> str:
            done = await _sync(parts, replies.who(interaction), body, preview=False)
            parts.boards_changed.set()
            return sync_text(done)

        view = Confirm(interaction, "Make these changes", act)
        await view.ask(sync_text(plan))


async def _sync(parts: Parts, who: Person, body: Json, *, preview: bool) -> Json:
    result: Json = await parts.api.send(
        "POST", "/problem-sets/sync", who, json={**body, "preview": preview}, timeout_s=SYNC_PATIENCE_S
    )
    return result


def repository_address(text: str) -> str:
    """Return a repository's address; ``OWNER/NAME`` is one on GitHub."""
    text = text.strip()
    if "://" not in text and text.count("/") == 1 and not text.startswith((".", "/")):
        return f"https://github.com/{text}"
    return text


def sync_text(result: Json) -> str:
    """Return a summary of what a sync did or would do."""
    would = "would be " if result["preview"] else ""
    lines = [f"**{'Preview' if result['preview'] else 'Done'}**, commit {texts.code(result['commit'][:12])}"]
    for key, words in (("created", "made"), ("updated", "updated")):
        if result[key]:
            lines.append(f"{len(result[key])} {would}{words}: {', '.join(map(texts.code, result[key]))}")
    lines += [
        f"- {texts.code(each['name'])} stays: {texts.plain(each['reason'], 200)}"
        for each in result["skipped"]
    ]
    lines += [
        f"- {texts.code(each['name'])}: {texts.plain(each['note'], 300)}" for each in result.get("notes", ())
    ]
    lines += [
        f"- ❌ {texts.code(each['name'])}: {texts.plain(each['error'], 300)}" for each in result["errors"]
    ]
    if not any(result[key] for key in ("created", "updated", "skipped", "errors")):
        lines.append("There is nothing to do.")
    return "\n".join(lines)
