"""Commands for leaderboard creators: create, delete, update from a git repository."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal

import discord
from discord import app_commands

from kernelcup.app.boards import managing
from kernelcup.app.boards.boards import delete_board
from kernelcup.app.boards.problem_sync import SyncResult, sync
from kernelcup.bot import guild_roles
from kernelcup.bot.commands import autocomplete, groups
from kernelcup.bot.context import Parts
from kernelcup.bot.guild_roles import begin
from kernelcup.bot.messages import boards, replies, texts
from kernelcup.bot.messages.dialogs import Confirm, Menu, TypedName
from kernelcup.domain import Visibility
from kernelcup.errors import InvalidValue
from kernelcup.reporting.phrases import code_rule

LARGEST_TASK = 20 * 2**20
"""Larger files are not even read; the platform has the actual limit."""

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
        settings: dict[str, object] = {
            "deadline": deadline,
            "visibility": "closed" if members_only else "public",
        }
        if harness is not None:
            settings["harness"] = harness
        if trust is not None:
            settings["trust"] = trust
        if duel:
            settings["duel"] = True
        task = await replies.read_file(task_zip, LARGEST_TASK)
        await _Maker(parts, leaderboard_name, settings, task).begin(interaction, gpus)


class _Maker:
    """A leaderboard that is being created."""

    def __init__(self, parts: Parts, name: str, settings: dict[str, object], task: texts.Attached) -> None:
        self._parts = parts
        self._name = name
        self._settings = settings
        self._task = task

    async def begin(self, interaction: discord.Interaction, gpus: str | None) -> None:
        """Ask for the GPUs unless they are given."""
        if gpus is not None:
            await replies.answer(interaction, await self.make(interaction, split_names(gpus)))
            return
        # What is wrong with the task or the deadline is said before anything is asked.
        who, call = replies.who(interaction), self._parts.api.call
        await call(managing.check, who, task=self._task, name=self._name, changes=self._settings)
        devices = [str(each["name"]) for each in await self._parts.api.get("/devices", None)]
        if not devices:
            raise InvalidValue("No GPUs are configured here.")
        notes = await autocomplete.device_notes(self._parts.api, who)
        caption = "Select GPUs for this leaderboard..."
        menu = Menu(interaction, caption, devices, self._chosen, several=True, notes=notes)
        await menu.ask(f"On which GPUs may people submit to {texts.code(self._name)}?")

    async def _chosen(self, interaction: discord.Interaction, devices: list[str]) -> None:
        await interaction.response.defer()
        await replies.replace(interaction, await self.make(interaction, devices))

    async def make(self, interaction: discord.Interaction, devices: list[str]) -> str:
        """Create it, and return the message for its creator."""
        board = await self._parts.api.call(
            managing.create,
            replies.who(interaction),
            task=self._task,
            name=self._name,
            changes={**self._settings, "devices": devices},
        )
        self._parts.boards_changed.set()
        lines = [
            f"✅ Leaderboard {texts.code(board.name)} was created.",
            f"**Deadline** {boards.stamp(board.deadline, 'F')}" if board.deadline else "",
            f"**GPUs** {boards.devices_text(board.devices)}",
            code_rule(board),
            *_notes(board.notes),
        ]
        if board.visibility is Visibility.CLOSED:
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
        await parts.api.call(delete_board, replies.who(interaction), name=board, confirm=board)
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
        asked = partial(
            parts.api.call,
            sync,
            repository=repository_address(repository_name),
            branch=branch,
            problem_set=problem_set,
            force=force,
        )
        plan = await asked(replies.who(interaction), preview=True)
        if not plan.created and not plan.updated:
            await replies.answer(interaction, sync_text(plan))
            return

        async def act(interaction: discord.Interaction) -> str:
            done = await asked(replies.who(interaction))
            parts.boards_changed.set()
            return sync_text(done)

        view = Confirm(interaction, "Make these changes", act)
        await view.ask(sync_text(plan))


def repository_address(text: str) -> str:
    """Return a repository's address; ``OWNER/NAME`` is one on GitHub."""
    text = text.strip()
    if "://" not in text and text.count("/") == 1 and not text.startswith((".", "/")):
        return f"https://github.com/{text}"
    return text


def sync_text(result: SyncResult) -> str:
    """Return a summary of what a sync did or would do."""
    would = "would be " if result.preview else ""
    lines = [f"**{'Preview' if result.preview else 'Done'}**, commit {texts.code(result.commit[:12])}"]
    for names, words in ((result.created, "made"), (result.updated, "updated")):
        if names:
            lines.append(f"{len(names)} {would}{words}: {', '.join(map(texts.code, names))}")
    lines += [f"- {texts.code(each.name)} stays: {texts.plain(each.reason, 200)}" for each in result.skipped]
    lines += [f"- {texts.code(each.name)}: {texts.plain(each.note, 300)}" for each in result.notes]
    lines += [f"- ❌ {texts.code(each.name)}: {texts.plain(each.error, 300)}" for each in result.errors]
    if not (result.created or result.updated or result.skipped or result.errors):
        lines.append("There is nothing to do.")
    return "\n".join(lines)
