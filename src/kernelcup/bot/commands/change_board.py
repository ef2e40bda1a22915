"""Changing a leaderboard: its deadline, its GPUs, who sees it, its task. First it is shown what that means."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import Any

import discord
from discord import app_commands

from kernelcup.app.boards import managing
from kernelcup.app.boards.changes import UpdatePreview
from kernelcup.bot.commands import autocomplete, groups
from kernelcup.bot.commands.create_board import LARGEST_TASK, split_names
from kernelcup.bot.context import Parts
from kernelcup.bot.guild_roles import begin
from kernelcup.bot.messages import boards, replies, texts
from kernelcup.bot.messages.dialogs import Confirm
from kernelcup.errors import InvalidValue

NO_DEADLINE = "none"


def register(tree: groups.Tree, parts: Parts) -> None:
    """Add the commands."""
    _change(groups.leaderboard(tree), parts)
    _close(groups.leaderboard(tree), parts)


def _close(group: app_commands.Group, parts: Parts) -> None:
    @group.command(name="close", description="Close a leaderboard now, for all without a late exception")
    @app_commands.describe(leaderboard_name="Which one")
    @app_commands.autocomplete(leaderboard_name=autocomplete.managed(parts))
    async def close(interaction: discord.Interaction, leaderboard_name: str) -> None:
        await begin(parts, interaction)

        async def act(interaction: discord.Interaction) -> str:
            await parts.api.call(managing.close, replies.who(interaction), board=leaderboard_name)
            parts.boards_changed.set()
            return f"🔒 {texts.code(leaderboard_name)} is closed."

        question = f"Close {texts.code(leaderboard_name)} now? Its deadline becomes this moment."
        await Confirm(interaction, "Close it", act).ask(question)


def _change(group: app_commands.Group, parts: Parts) -> None:
    @group.command(name="change", description="Change a leaderboard; first it is shown what that means")
    @app_commands.describe(
        leaderboard_name="Which one",
        deadline=f"YYYY-MM-DD, or YYYY-MM-DD HH:MM; UTC unless a zone follows; or {NO_DEADLINE}",
        gpus="All its GPUs from now on, with commas between",
        members_only="Whether only those with an invite see it",
        task_zip="Its new task: a zipped folder, or one file with the reference code",
        rejudge="With a new task, judge the ranked results again",
    )
    @app_commands.autocomplete(leaderboard_name=autocomplete.managed(parts))
    async def change(
        interaction: discord.Interaction,
        leaderboard_name: str,
        deadline: str | None = None,
        gpus: str | None = None,
        members_only: bool | None = None,
        task_zip: discord.Attachment | None = None,
        rejudge: bool = False,
    ) -> None:
        await begin(parts, interaction)
        settings = _settings(deadline, gpus, members_only)
        if not settings and task_zip is None:
            raise InvalidValue("Say what is to be changed.")
        task = None if task_zip is None else await replies.read_file(task_zip, LARGEST_TASK)
        await _ask(parts, interaction, leaderboard_name, settings, task, rejudge=rejudge)


def _settings(deadline: str | None, gpus: str | None, members_only: bool | None) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    if deadline is not None:
        settings["deadline"] = None if deadline.strip().lower() == NO_DEADLINE else deadline
    if gpus is not None:
        settings["devices"] = split_names(gpus)
    if members_only is not None:
        settings["visibility"] = "closed" if members_only else "public"
    return settings


async def _ask(
    parts: Parts,
    interaction: discord.Interaction,
    board: str,
    settings: dict[str, Any],
    task: texts.Attached | None,
    *,
    rejudge: bool,
) -> None:
    who = replies.who(interaction)
    seen = await parts.api.call(managing.preview, who, board=board, task=task, changes=settings)
    text = preview_text(seen, rejudge=rejudge)
    if not seen.changes_anything:
        await replies.answer(interaction, text)
        return

    async def act(interaction: discord.Interaction) -> str:
        who, call = replies.who(interaction), partial(parts.api.call, board=board)
        if task is not None:
            await call(managing.replace_task, who, task=task, expected=seen.fingerprint, rejudge=rejudge)
        if settings:
            await call(managing.change, who, changes=settings, force=bool(seen.removed_in_use))
        parts.boards_changed.set()
        return f"✅ {texts.code(board)} was changed."

    await Confirm(interaction, "Change it", act).ask(text)


def preview_text(seen: UpdatePreview, *, rejudge: bool) -> str:
    """Return the meaning of a change."""
    lines = [
        f"- {texts.plain(name.removeprefix('task.').replace('_', ' '))}: {_shown(old)} → {_shown(new)}"
        for name, (old, new) in seen.settings.items()
    ]
    lines += [
        f"- {texts.code(each.name)} {each.kind}: +{each.added} −{each.removed} lines"
        for each in seen.files[:20]
    ]
    if seen.cases or seen.hidden:
        lines.append(f"- cases: {len(seen.cases)} change{', hidden ones too' if seen.hidden else ''}")
    if not lines:
        return f"Nothing changes in {texts.code(seen.board)}."
    lines.insert(0, f"**Changes of {texts.code(seen.board)}**")
    if seen.reasons:
        why = texts.plain("; ".join(seen.reasons), 400)
        lines.append(f"⚠️ Results before and after cannot be compared: {why}")
    if seen.needs_rejudge:
        jobs = sum(each.jobs for each in seen.affected)
        what = (
            "are judged again" if rejudge else "leave the standings until `/admin rejudge` judges them again"
        )
        lines.append(f"{jobs} ranked results {what}.")
    if seen.removed_in_use:
        names = ", ".join(map(texts.code, seen.removed_in_use))
        lines.append(f"⚠️ There are submissions on {names}, which would go.")
    return "\n".join(lines)


def _shown(value: object) -> str:
    """Return a setting as people read it."""
    if value is None or value == []:
        return "none"
    if isinstance(value, list):
        return ", ".join(texts.code(each, 40) for each in value)
    try:
        return boards.stamp(datetime.fromisoformat(str(value)))
    except ValueError:
        return texts.code(value, 60)
